"""Requests under a permit: pages, sitemaps, and robots.txt with its redirects."""
