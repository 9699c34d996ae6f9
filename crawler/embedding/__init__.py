"""Politeness in programs of others: a polite session, a middleware, a crawl that gives pages."""
