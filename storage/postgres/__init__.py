"""The crawl's state on a PostgreSQL server. Any number of workers share it."""

from storage.postgres.postgres_reader import server_reader
from storage.postgres.postgres_store import server_store

__all__ = ["server_reader", "server_store"]
