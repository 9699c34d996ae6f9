"""A rig that stands around a store: its time, its session, and short words for what tests do."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from policies.url import host_of
from storage.engine.statements import Parameter, Values
from storage.location import ServerLocation, parse_location
from storage.postgres import server_reader, server_store
from storage.reader import Reader
from storage.sqlite import file_reader, file_store, memory_store
from storage.sqlite.maintenance import check
from storage.store import (
    Batch,
    Blocked,
    BlockReason,
    Completed,
    Failed,
    HostClock,
    HostUpdate,
    Lease,
    Link,
    Outcome,
    Plan,
    Prefetch,
    Queued,
    Retry,
    Revisited,
    SitemapRead,
    Store,
    Visited,
)
from storage.timekeeper import Timekeeper, Uptime

T = TypeVar("T")
START_S = 1_800_000_000.0


async def on_connection(store: Any, work: Callable[[sqlite3.Connection], T]) -> T:
    """Return `work(connection)`, past the store."""
    found: T = await store._calls._runner.run(lambda connection: work(connection.sql.db))
    return found


async def selected(store: Any, sql: str, **values: Parameter) -> Sequence[Values]:
    """Execute a statement in words that all engines understand, past the store."""
    found: Sequence[Values] = await store._calls._runner.run(
        lambda connection: connection.sql.select(sql, values)
    )
    return found


def server_location(url: str) -> ServerLocation:
    location = parse_location(url)
    assert isinstance(location, ServerLocation)
    return location


class Rig:
    """One store with an open session, at a time that tests set."""

    def __init__(self, kind: str, path: Path, location: ServerLocation | None = None) -> None:
        self.kind = kind
        self.location = location
        self.path = path
        self.wall_s = START_S
        self.session = 0
        self.store: Store = self.make()
        self._reader: Reader | None = None

    def make(self, **options: Any) -> Store:
        if self.kind == "memory":
            return memory_store(wall=lambda: self.wall_s, **options)
        options.setdefault("uptime", lambda: Uptime("rig", self.wall_s))
        if self.location is not None:
            uptime = options.pop("uptime")
            options.setdefault("time", Timekeeper(lambda: self.wall_s, None, uptime))
            return server_store(self.location, wall=lambda: self.wall_s, **options)
        return file_store(self.path, wall=lambda: self.wall_s, **options)

    async def open(self, **options: Any) -> Rig:
        if options:
            self.store = self.make(**options)
        self.session = await self.store.open_session("test")
        return self

    async def crash(self) -> None:
        """End without releasing anything, and begin again."""
        if self.kind != "memory":
            await self.store.close()
            self.store = self.make()
        await self.open()

    async def close(self) -> None:
        if self.kind == "sqlite":
            # Whatever a test did: one state each, counters that count.
            assert check(self.path) == []
        if self._reader is not None:
            await self._reader.close()
        await self.store.close()

    @property
    def reader(self) -> Reader:
        if self.kind == "memory":
            return self.store.reader
        if self._reader is None:
            self._reader = (
                file_reader(self.path) if self.location is None else server_reader(self.location)
            )
        return self._reader

    # ------------------------------------------------------------ short words

    def link(self, url: str, **values: Any) -> Link:
        values.setdefault("depth", 0)
        values.setdefault("host", host_of(url))
        values.setdefault("slot", values["host"])
        return Link(url=url, **values)

    async def add(self, *urls: str, **values: Any) -> Completed:
        return await self.store.add([self.link(url, **values) for url in urls])

    async def claim(self, hosts: int = 10, urls: int = 10, **values: Any) -> list[Lease]:
        return list(await self.store.claim(self.session, hosts=hosts, urls_per_host=urls, **values))

    async def claim_one(self, urls: int = 10) -> Lease:
        (lease,) = await self.claim(1, urls)
        return lease

    async def commit(
        self,
        lease: Lease,
        *outcomes: Outcome,
        clock: HostClock | None = None,
        release: bool = False,
        want: int | None = None,
        revisits: bool = False,
        queued: bool = True,
        held: Sequence[int] = (),
        closed: Sequence[str] = (),
        referrers: bool = False,
        **values: Any,
    ) -> Completed:
        update = HostUpdate(
            slot=lease.slot, epoch=lease.epoch, clock=clock or HostClock(), release=release,
            **values,
        )  # fmt: skip
        wants = (
            []
            if want is None
            else [
                Prefetch(
                    slot=lease.slot, count=want, in_memory=held, closed=closed, revisits=revisits,
                    queued=queued, referrers=referrers,
                )
            ]
        )  # fmt: skip
        return await self.store.complete(
            self.session, Batch(outcomes=outcomes, hosts=[update], prefetch=wants)
        )

    def visited(self, queued: Queued | int, slot: str = "a.test", **values: Any) -> Visited:
        """An answer to a URL; `links` may be plain URLs."""
        links = [
            link if isinstance(link, Link) else self.link(link, depth=1)
            for link in values.pop("links", ())
        ]
        fields: dict[str, Any] = {
            "status": 200, "fetched_at": self.wall_s, "content_type": "text/html",
            "body_bytes": 100, "elapsed_s": 0.25,
        }  # fmt: skip
        key = queued if isinstance(queued, int) else queued.id
        return Visited(id=key, slot=slot, links=links, **(fields | values))

    def redirect(self, queued: Queued, to: str, slot: str = "a.test", **values: Any) -> Visited:
        values.setdefault("links", [self.link(to)])
        return self.visited(queued, slot, status=301, redirect_url=to, **values)

    def plan(self, in_s: float, **values: Any) -> Plan:
        fields: dict[str, Any] = {
            "interval_s": 100.0, "checked_at": self.wall_s, "changed_at": self.wall_s,
        }  # fmt: skip
        return Plan(due_in_s=in_s, **(fields | values))

    def revisited(self, queued: Queued, in_s: float | None, slot: str = "a.test") -> Revisited:
        """Nothing new was seen; it is not to be visited again if `in_s` is None."""
        return Revisited(id=queued.id, slot=slot, plan=None if in_s is None else self.plan(in_s))

    def read(self, queued: Queued, slot: str = "a.test", **values: Any) -> SitemapRead:
        """A sitemap that was read."""
        fields: dict[str, Any] = {
            "status": 200, "fetched_at": self.wall_s, "kind": "urlset", "body_bytes": 500,
            "urls": 3,
        }  # fmt: skip
        return SitemapRead(id=queued.id, slot=slot, **(fields | values))

    def blocked(self, queued: Queued | int, slot: str = "a.test", **values: Any) -> Blocked:
        fields: dict[str, Any] = {
            "reason": BlockReason.ROBOTS, "dialect": "slurp", "rule": "Disallow: /x", "line": 2,
            "robots_url": f"http://{slot}/robots.txt", "blocked_at": self.wall_s,
        }  # fmt: skip
        key = queued if isinstance(queued, int) else queued.id
        return Blocked(id=key, slot=slot, **(fields | values))

    def failed(self, queued: Queued, slot: str = "a.test", **values: Any) -> Failed:
        fields: dict[str, Any] = {
            "error": "timeout: no answer within 30 s", "attempts": 3, "last_at": self.wall_s,
        }  # fmt: skip
        return Failed(id=queued.id, slot=slot, **(fields | values))

    def retry(self, queued: Queued, in_s: float, slot: str = "a.test", **values: Any) -> Retry:
        fields: dict[str, Any] = {
            "attempts": 1, "refusals": 0, "error": "timeout: no answer within 30 s",
        }  # fmt: skip
        return Retry(id=queued.id, slot=slot, due_in_s=in_s, **(fields | values))

    async def rows(self, view: str, **values: Any) -> list[dict[str, Any]]:
        return [dict(row) async for row in self.reader.iterate(view, **values)]

    async def urls(self, view: str, **values: Any) -> list[str]:
        return [row["url"] for row in await self.rows(view, **values)]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    """Every backend in turn. A new one is added to the parameters, and to Rig."""
    location = None
    if request.param == "postgres":
        location = server_location(request.getfixturevalue("crawl_url"))
    made = Rig(request.param, tmp_path / "crawl.db", location)
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def sqlite_rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """What only a file can do."""
    made = Rig("sqlite", tmp_path / "crawl.db")
    await made.open()
    yield made
    await made.close()
