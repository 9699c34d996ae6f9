"""Inspection and control of a running crawl, and its summary."""
