"""The crawl as a service: its HTTP API, its socket, its life and its log."""
