"""Observers of a crawl: its log, metrics, plots and event stream."""
