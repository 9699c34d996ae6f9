"""A cache of responses for development: the same request is answered from a file, without a
contact, while you write the code that reads the response.

It is no HTTP cache: entries never expire, and Cache-Control is ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from crawler.config import Config
from crawler.embedding.response import Response
from crawler.fetching.request import Request
from crawler.threads import in_thread
from policies.url import host_of
from storage.store import StoreError

_log = logging.getLogger("courtly.fetch")

APPLICATION_ID: Final = 0x63727463  # "crtc"
VERSION: Final = 1
BUSY_S: Final = 10.0  # wait for another process that writes
METHODS: Final = frozenset({"GET", "HEAD"})
# Lasting answers: not those that depend on the load, on credentials or on an earlier response.
LASTING: Final = frozenset({404, 410, 451})
TRANSIENT: Final = frozenset({206, 304})
# With one of these, the response may not be the whole page.
PARTIAL: Final = ("range", "if-")
# Compared in any case: a server may forget to name them in Vary.
ALWAYS_VARY: Final = frozenset({"authorization", "cookie"})
_TABLE: Final = """
CREATE TABLE responses (
    method TEXT NOT NULL,
    url TEXT NOT NULL,
    vary TEXT NOT NULL,  -- names of request headers, sorted, separated by spaces
    varied BLOB NOT NULL,  -- digest of their values
    status INTEGER NOT NULL,
    headers TEXT NOT NULL,  -- JSON: list of [name, value]
    body BLOB NOT NULL,  -- decompressed
    elapsed_s REAL NOT NULL,
    stored_at REAL NOT NULL,  -- Unix seconds
    PRIMARY KEY (method, url, vary, varied)
)
"""


class ResponseCache:
    """A cache in an SQLite file, which several processes may use. It is opened for each access.

    Responses are found by method, URL and the request headers that their Vary names. Those with
    status 2xx (except 206), 3xx (except 304), 404, 410 and 451 are kept.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    async def get(self, config: Config, request: Request) -> Response | None:
        """The response that is kept for a request. Raises StoreError."""
        if not _is_cacheable(request):
            return None
        sent = _sent(config, request)
        try:
            return await in_thread(self._read, request.method, request.url, sent)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"the response cache {self._path}: {_reason(error)}") from error

    async def put(
        self, config: Config, request: Request, response: Response, *, now_s: float
    ) -> None:
        """Keep a response, if its kind is kept. If it cannot be written, it is logged. now_s: Unix
        seconds. Raises StoreError for a file of another kind."""
        status, vary = response.status, _names(response)
        lasting = 200 <= status < 400 and status not in TRANSIENT
        if not _is_cacheable(request) or "*" in vary or not (lasting or status in LASTING):
            return
        sent = _sent(config, request)
        row = (
            request.method,
            request.url,
            " ".join(sorted(vary)),
            _digest(sent, vary),
            status,
            json.dumps(list(response.headers.items())),
            response.body,
            response.elapsed_s,
            now_s,
        )
        try:
            await in_thread(self._write, row)
        except (OSError, sqlite3.Error, OverflowError) as error:
            _log.warning(
                "the response from %s was not written to the response cache %s: %s",
                request.url,
                self._path,
                _reason(error),
            )

    def _read(self, method: str, url: str, sent: CIMultiDict[str]) -> Response | None:
        with self._opened() as db:
            kept = db.execute(
                "SELECT rowid, vary, varied FROM responses WHERE method = ? AND url = ? "
                "ORDER BY stored_at DESC",
                (method, url),
            ).fetchall()
            rowids = [
                rowid
                for rowid, vary, varied in kept
                if _digest(sent, frozenset(vary.split())) == varied
            ]
            if not rowids:
                return None
            status, headers, body, elapsed_s = db.execute(
                "SELECT status, headers, body, elapsed_s FROM responses WHERE rowid = ?", rowids[:1]
            ).fetchone()
        return Response(
            url=url,
            status=status,
            headers=CIMultiDictProxy(CIMultiDict(map(tuple, json.loads(headers)))),
            body=body,
            elapsed_s=elapsed_s,
            from_cache=True,
        )

    def _write(self, row: tuple[object, ...]) -> None:
        with self._opened() as db:
            db.execute("INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """A connection in a transaction. Makes the file if there is none, readable for its owner
        only. Raises StoreError for a file of another kind."""
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        with contextlib.closing(sqlite3.connect(self._path, timeout=BUSY_S)) as db, db:
            if _pragma(db, "application_id") != APPLICATION_ID:
                db.execute("BEGIN IMMEDIATE")
                self._make(db)
            if _pragma(db, "user_version") != VERSION:
                raise StoreError(
                    f"the response cache {self._path} was written by another version of "
                    "courtly: delete it"
                )
            yield db

    def _make(self, db: sqlite3.Connection) -> None:
        if _pragma(db, "application_id") == APPLICATION_ID:
            return  # by another process, a moment ago
        if _pragma(db, "application_id") or db.execute("SELECT 1 FROM sqlite_schema").fetchone():
            raise StoreError(
                f"{self._path} is not a response cache, but another database: give the cache a "
                "file of its own"
            )
        db.execute(_TABLE)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {VERSION}")


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])


def _is_cacheable(request: Request) -> bool:
    if request.method not in METHODS or request.data is not None:
        return False
    return not any(name.lower().startswith(PARTIAL) for name in request.headers)


def _sent(config: Config, request: Request) -> CIMultiDict[str]:
    """The headers of a request as far as the user has a say in them."""
    fetch = config.fetch if request.bare else config.site(host_of(request.url)).fetch
    sent = CIMultiDict({"User-Agent": config.user_agent_sent})
    sent.update(fetch.headers)
    sent.update(request.headers)
    return sent


def _names(response: Response) -> frozenset[str]:
    """The request headers that the response depends on, in lower case."""
    fields = ",".join(response.headers.getall("Vary", []))
    return frozenset(name.strip().lower() for name in fields.split(",")) - {""}


def _digest(sent: CIMultiDict[str], vary: frozenset[str]) -> bytes:
    """A digest of the values, since they may be secrets."""
    values = [(name, sent.get(name)) for name in sorted(vary | ALWAYS_VARY)]
    return hashlib.sha256(json.dumps(values).encode()).digest()


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
