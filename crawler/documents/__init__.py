"""Bytes to what they say: links, titles and directives of pages, entries of sitemaps and feeds."""
