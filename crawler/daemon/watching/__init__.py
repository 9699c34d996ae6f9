"""What watches a crawl from inside: its log, its metrics, its plots, the stream of what happens."""
