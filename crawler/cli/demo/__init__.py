"""`courtly demo`: a polite crawl of a web of its own, and what it showed."""
