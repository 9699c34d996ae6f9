"""The crawl's state in SQLite. A file has one writing process and any number of readers."""

from storage.sqlite.sqlite_reader import file_reader
from storage.sqlite.sqlite_store import MemoryStore, SqliteStore

__all__ = ["MemoryStore", "SqliteStore", "file_reader"]
