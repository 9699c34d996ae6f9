"""One crawl and its life: hosts are held, supplied and given back until nothing can move."""
