"""The crawl's state in SQLite. A file has one writing process and any number of readers."""

from storage.sqlite.memory_store import MemoryStore
from storage.sqlite.sqlite_reader import SqliteReader
from storage.sqlite.sqlite_store import SqliteStore

__all__ = ["MemoryStore", "SqliteReader", "SqliteStore"]
