"""Fetching: one bounded request, from its URL to an answer or a failure."""
