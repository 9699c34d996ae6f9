"""The crawl's state in SQLite. A file has one writing process and any number of readers."""

from storage.sqlite.databases import file_reader, file_store, memory_store

__all__ = ["file_reader", "file_store", "memory_store"]
