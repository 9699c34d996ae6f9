"""The store in an SQLite file: each call is one transaction (what is done in bulk, a few), run
whole in one thread."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from policies.access import Access
from storage.base import (
    Batch,
    Blocked,
    Completed,
    HostUpdate,
    Judged,
    Lease,
    Link,
    Outlook,
    Plan,
    RobotsDue,
    Stats,
    StoreError,
    Unplanned,
)
from storage.sqlite.lock import FileLock
from storage.sqlite.schema import check_file, connect_writer, translate
from storage.sqlite.wire import Wire, finish
from storage.sqlite.writer import Writer
from storage.timekeeper import Moment, Timekeeper

T = TypeVar("T")

BULK_URLS = 2_000  # at a time: the store's other callers wait some 20 ms at most


class SqliteStore:
    """`Store` in one file. It is opened and locked by `open_session`, let go of by `close`.

    `wall` tells Unix seconds; with `monotonic` (seconds from anywhere) as well, setting the wall
    clock while a session lasts moves no host's clock.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        wall: Callable[[], float],
        monotonic: Callable[[], float] | None = None,
        queries_per_path_max: float = 1000,
    ) -> None:
        self.path = Path(path)
        self._time = Timekeeper(wall, monotonic)
        self._queries_per_path_max = queries_per_path_max
        self._lock = FileLock(self.path)
        self._wire: Wire | None = None
        self._writer: Writer | None = None
        self._session = 0
        self._broken: StoreError | None = None

    # ------------------------------------------------------------ how a call is made

    def _moment(self) -> Moment:
        return Moment(self._time.now_s(), self._time.wall_s(), self._time.shift_s())

    async def _transact(self, work: Callable[[Writer, Moment], T]) -> T:
        """Run `work` in a transaction of its own, out of reach of cancellation."""
        wire = self._wire
        if self._broken is not None:
            raise StoreError(str(self._broken)) from self._broken
        if wire is None:
            raise StoreError(f"the database {self.path} is not open")
        run = partial(self._in_thread, work, self._moment())
        return await finish(asyncio.ensure_future(wire.run(run)))

    def _in_thread(
        self, work: Callable[[Writer, Moment], T], at: Moment, db: sqlite3.Connection
    ) -> T:
        if self._broken is not None:  # by a call that was made before this one, and ran meanwhile
            raise StoreError(str(self._broken)) from self._broken
        try:
            db.execute("BEGIN IMMEDIATE")
            writer = self._writer  # it may be let go of meanwhile
            if writer is None:
                writer = Writer(db, queries_per_path_max=self._queries_per_path_max)
                self._writer = writer
            result = work(writer, at)
            writer.tell_time(at)
            db.execute("COMMIT")
        except BaseException as error:
            self._broken = (
                translate(error, self.path)
                if isinstance(error, sqlite3.Error)
                else StoreError(f"the database {self.path} was given up after an error: {error!r}")
            )
            _roll_back(db)
            if isinstance(error, sqlite3.Error):
                raise self._broken from error
            raise
        return result

    async def _transact_as(self, session: int, work: Callable[[Writer, Moment], T]) -> T:
        if self._wire is not None and session != self._session:
            raise StoreError(f"session {session} is over; session {self._session} has begun")
        return await self._transact(work)

    # ------------------------------------------------------------ sessions

    async def open_session(self, name: str) -> int:
        if self._wire is None:
            await finish(asyncio.ensure_future(self._open()))
        last = await self._transact(lambda writer, _: writer.last_time())
        if last is not None:
            self._time.resume(*last)
        self._session = await self._transact(lambda writer, at: writer.start(name, at))
        return self._session

    async def _open(self) -> None:
        check_file(self.path)  # before the lock: what is not ours gets no file beside it
        self._lock.acquire()
        try:
            self._wire = await Wire.open(partial(connect_writer, self.path))
        except sqlite3.Error as error:
            self._lock.release()
            raise translate(error, self.path) from error
        except BaseException:
            self._lock.release()
            raise

    async def close(self, session: int | None = None) -> None:
        if self._wire is not None:
            await finish(asyncio.ensure_future(self._end(self._wire)))

    async def _end(self, wire: Wire) -> None:
        """Whatever the diary says, the file is let go of."""
        with contextlib.suppress(StoreError):
            if self._session and self._wire is wire:
                await self._transact(lambda writer, at: writer.end(self._session, at))
        if self._wire is wire:  # and not closed by another call meanwhile
            await self._close(wire)

    async def _close(self, wire: Wire) -> None:
        self._wire = self._writer = None
        try:
            await wire.close()
        except sqlite3.Error:
            pass  # nothing is lost: what was committed is in the WAL, and the next opening reads it
        finally:
            self._lock.release()

    # ------------------------------------------------------------ links and outcomes

    async def add(
        self, links: Sequence[Link], *, revive: bool = False, referrer: int | None = None
    ) -> Completed:
        return await self._transact(
            lambda writer, at: writer.add(links, revive=revive, referrer=referrer, at=at)
        )

    async def seeds(self) -> AsyncGenerator[Sequence[str], None]:
        after = 0
        while some := await self._transact(_without_time(partial(Writer.seeds, after=after))):
            yield [url for _, url in some]
            after = some[-1][0]

    async def complete(self, session: int, batch: Batch) -> Completed:
        return await self._transact(lambda writer, at: writer.complete(session, batch, at))

    # ------------------------------------------------------------ leases

    async def claim(self, session: int, *, hosts: int, urls_per_host: int) -> Sequence[Lease]:
        return await self._transact_as(
            session,
            lambda writer, at: writer.claim(hosts=hosts, urls_per_host=urls_per_host, at=at),
        )

    async def acquire(self, session: int, slots: Sequence[str]) -> Mapping[str, Lease]:
        return await self._transact_as(session, lambda writer, at: writer.acquire(slots, at))

    async def outlook(self, session: int) -> Outlook:
        return await self._transact_as(session, lambda writer, at: writer.outlook(at))

    # ------------------------------------------------------------ robots

    async def robots_put(
        self,
        session: int,
        slot: str,
        origin: str,
        copy: Access,
        *,
        also: HostUpdate | None = None,
        rejudge: bool = False,
        links: Sequence[Link] = (),
    ) -> Completed:
        return await self._transact(
            lambda writer, at: writer.robots_put(
                session, slot, origin, copy, also, at, rejudge=rejudge, links=links
            )
        )

    async def robots_get(self, origin: str) -> Access | None:
        return await self._transact(lambda writer, _: writer.robots_get(origin))

    async def robots_due(self, session: int, *, limit: int) -> Sequence[RobotsDue]:
        return await self._transact_as(session, lambda writer, at: writer.robots_due(limit, at))

    async def revisits_due(self, session: int, *, limit: int) -> Sequence[str]:
        return await self._transact_as(session, lambda writer, at: writer.revisits_due(limit, at))

    async def unplanned(
        self, session: int, *, after: int, limit: int
    ) -> tuple[Sequence[Unplanned], int | None]:
        return await self._transact_as(session, lambda writer, _: writer.unplanned(after, limit))

    async def plan(self, session: int, plans: Mapping[int, Plan]) -> None:
        await self._transact_as(session, lambda writer, at: writer.plan(plans, at))

    async def rejudge_due(self, session: int, *, limit: int) -> Sequence[RobotsDue]:
        return await self._transact_as(session, lambda writer, _: writer.rejudge_due(limit))

    async def rejudge_all(self, session: int) -> None:
        await self._transact_as(session, lambda writer, at: writer.rejudge_all(at))

    async def rejudge_done(self, session: int, origin: str) -> None:
        await self._transact_as(session, lambda writer, _: writer.rejudge_done(origin))

    async def ungoverned(self, origin: str, *, limit: int) -> Sequence[Judged]:
        return await self._transact(lambda writer, _: writer.ungoverned(origin, limit))

    async def blocked_by_robots(self, origin: str, *, after: int, limit: int) -> Sequence[Judged]:
        return await self._transact(
            lambda writer, _: writer.blocked_by_robots(origin, after, limit)
        )

    async def rejudge(
        self,
        session: int,
        *,
        kept: Sequence[int],
        withdrawn: Sequence[Blocked],
        freed: Sequence[int],
    ) -> Completed:
        return await self._transact_as(
            session,
            lambda writer, at: writer.rejudge(kept=kept, withdrawn=withdrawn, freed=freed, at=at),
        )

    # ------------------------------------------------------------ by hand

    async def fail_host(
        self,
        session: int,
        update: HostUpdate,
        *,
        error: str,
        attempts: int,
        last_at: float,
        origin: str | None = None,
    ) -> int:
        fail = partial(
            Writer.fail_some,
            session=session,
            error=error,
            attempts=attempts,
            last_at=last_at,
            origin=origin,
            limit=BULK_URLS,
        )
        held = structs.replace(update, release=False)  # until all have failed
        failed = some = await self._transact(
            lambda writer, at: fail(writer, update=held, wind=True, at=at)
        )
        while some == BULK_URLS:
            some = await self._transact(
                lambda writer, at: fail(writer, update=held, wind=False, at=at)
            )
            failed += some
        if update.release:
            last = structs.replace(update, contacts=())
            failed += await self._transact(
                lambda writer, at: fail(writer, update=last, wind=True, at=at)
            )
        return failed

    async def retry_failed(self, host: str | None = None) -> int:
        await self._transact(lambda writer, at: writer.forgive(host, at))
        queued, last, some = 0, 0, BULK_URLS
        while some == BULK_URLS:
            retry = partial(Writer.retry_some, host=host, after=last, limit=BULK_URLS)
            some, last = await self._transact(_without_time(retry))
            queued += some
        return queued

    async def set_control(
        self,
        slot: str,
        *,
        paused: bool | None = None,
        slow_s: float | None = None,
        clear_slow: bool = False,
    ) -> bool:
        return await self._transact(
            lambda writer, at: writer.set_control(slot, paused, slow_s, at, clear_slow=clear_slow)
        )

    async def rouse(self, session: int) -> None:
        await self._transact_as(session, lambda writer, at: writer.rouse(at))

    async def set_paused(self, paused: bool) -> None:
        await self._transact(lambda writer, _: writer.set_paused(paused=paused))

    async def paused(self) -> bool:
        return await self._transact(lambda writer, _: writer.paused())

    async def name_session(self, session: int, name: str) -> None:
        await self._transact_as(session, lambda writer, _: writer.rename(session, name))

    async def stats(self) -> Stats:
        return await self._transact(lambda writer, _: writer.stats())


def _without_time(work: Callable[[Writer], T]) -> Callable[[Writer, Moment], T]:
    return lambda writer, _: work(writer)


def _roll_back(db: sqlite3.Connection) -> None:
    """Whatever is wrong with the medium, nothing half done may stay."""
    with contextlib.suppress(sqlite3.Error):  # else closing, or the next opening, rolls it back
        if db.in_transaction:
            db.execute("ROLLBACK")
