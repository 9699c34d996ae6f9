"""The crawl's state in an SQLite file: one process writes, any number read."""

from storage.sqlite.reader import SqliteReader
from storage.sqlite.store import SqliteStore

__all__ = ["SqliteReader", "SqliteStore"]
