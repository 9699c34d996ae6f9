"""Courtly as a library: a polite session, an aiohttp middleware, and a crawl that yields pages."""
