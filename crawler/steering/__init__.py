"""A running crawl from outside: what may be asked of it, what it says of itself, how it ended."""
