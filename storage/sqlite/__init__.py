"""The crawl's state in an SQLite file: one process writes, any number read."""

from storage.sqlite.sqlite_reader import SqliteReader
from storage.sqlite.sqlite_store import SqliteStore

__all__ = ["SqliteReader", "SqliteStore"]
