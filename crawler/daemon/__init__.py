"""The crawl as a service: HTTP API, web page, metrics, log and process lifecycle."""
