"""From the crawl to its sinks: each page to those that want it, written beside the event loop, and
on disk before its outcome is committed."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from multidict import CIMultiDict, CIMultiDictProxy

from crawler.clock import Clock, RealClock
from crawler.documents.crawled_page import CrawledPage
from crawler.faults import contained
from crawler.fetching.request import Headers
from crawler.sinks.sink import Sink, SinkError, Withdrawn
from crawler.sinks.sink_filter import SinkFilter
from crawler.threads import Threads, in_thread
from storage.store import Blocked
from storage.transient_faults import (
    START_WAIT_S_MAX,
    FaultKind,
    Patience,
    TransientFault,
    TransientFaults,
    retry_delays_s,
    words_of,
)

if TYPE_CHECKING:
    from crawler.sinks.requisites import Requisites

# Put and not written; beyond it pages wait for the disk (law 7). A few of the largest bodies.
BYTES_MAX: Final = 64_000_000
PAGES_MAX: Final = 1_000
# A commit is due at so much: a fraction, so that writing overlaps with fetching.
BYTES_PER_FLUSH: Final = 8_000_000
# For what sinks complete when they are closed after a stop; the next run does the rest. With what
# is in flight at the stop it is less than service managers wait for a process to end.
FINISH_S_MAX: Final = 20.0
# Beside the body: what a page itself takes.
_PAGE_BYTES: Final = 2_000

_log = logging.getLogger("courtly.sinks")

# Response headers by which a site gives us a session, or proves one (RFC 6265, 2965 and 7615).
SESSION_HEADERS: Final = (
    "Set-Cookie", "Set-Cookie2", "Authentication-Info", "Proxy-Authentication-Info",
)  # fmt: skip

PageFunction = Callable[[CrawledPage], Awaitable[None] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRoute:
    """A sink, with what it wants."""

    sink: Sink
    wants: SinkFilter


@dataclass(slots=True, kw_only=True, eq=False)
class PageCallback:
    """A function of the user's that is called with every page it wants, one after the other.

    One that is not `async` is called in a thread. Pages stay in line until it has returned. An
    exception it raises is a fault of its page alone."""

    call: PageFunction
    wants: SinkFilter
    line: deque[tuple[CrawledPage, int]] = field(default_factory=deque)  # with the ids of URLs

    async def work(self, faults: dict[int, str]) -> None:
        """Call it with every page in line; put its faults to `faults`, by the ids of URLs."""
        for _ in range(len(self.line)):  # what comes meanwhile is the next flush's
            page, id_ = self.line[0]
            try:
                if inspect.iscoroutinefunction(self.call):
                    await self.call(page)
                else:
                    answer = await in_thread(_call, self.call, page)
                    if isinstance(answer, Exception):
                        raise answer  # noqa: TRY301
                    if answer is not None:
                        await answer
            except Exception as error:  # noqa: BLE001
                faults[id_] = contained(f"a function called with {page.url}", error)
            self.line.popleft()


def _call(call: PageFunction, page: CrawledPage) -> Awaitable[None] | Exception | None:
    """Give what it raises: a StopIteration would never leave the thread."""
    try:
        return call(page)
    except Exception as error:  # noqa: BLE001
        return error


class Sinks:
    """All sinks of one crawl. `put` and `withdraw` take note; `flush` has it written, and the
    ledger awaits it before each commit."""

    def __init__(
        self,
        routes: Sequence[SinkRoute] = (),
        called: Sequence[PageCallback] = (),
        *,
        clock: Clock | None = None,
    ) -> None:
        self._routes = tuple(routes)
        self._called = list(called)
        self._noted: list[tuple[Sink, CrawledPage | Withdrawn, int]] = []
        self._faults: dict[int, str] = {}
        self._open_sinks: list[Sink] = []  # in the order of the routes
        self._bytes = 0
        self._thread: Threads | None = None
        self._batches: list[_Batch] = []  # taken from what is noted, and not on disk yet
        self._writing: asyncio.Future[None] | None = None
        self._clock = clock
        self._patience = Patience(START_WAIT_S_MAX)
        self.troubles = TransientFaults()
        self._lock = asyncio.Lock()
        self._hurried = threading.Event()
        self._stopped = False
        self.exit_requested: asyncio.Event | None = None  # set for an immediate exit

    @property
    def any(self) -> bool:
        return bool(self._routes or self._called)

    @property
    def wants_links(self) -> bool:
        """Does anybody look at the links of pages? Their texts cost a second look at the page."""
        return bool(self._called) or any(route.wants.links for route in self._routes)

    def add(self, called: PageCallback) -> None:
        self._called.append(called)

    # ------------------------------------------------------------ life

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except Exception:
            if error is None:
                raise  # else the error before it is the one to be told of

    async def open(self) -> None:
        """Raises SinkError; those opened before are closed again."""
        self._clock = self._clock or RealClock()
        self._thread = Threads(max_workers=1, thread_name_prefix="sinks")
        try:
            await self._persist(self._open)
        except BaseException:
            await self.close()
            raise

    def set_patience(self, seconds: float) -> None:
        """As of a store: how long trouble is waited for before it counts as a failure."""
        assert self._clock is not None, "sinks are opened before they are used"
        self._patience.set(seconds, self._clock.monotonic())

    def stop(self) -> None:
        """The crawl ends before it is through: bound the time that `close` may take."""
        self._stopped = True

    def hurry(self) -> None:
        """Close without finishing what is not needed to be whole."""
        self._hurried.set()

    async def close(self) -> None:
        """What was put and not flushed may be lost: it was not committed."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        closing = asyncio.ensure_future(self._close_all(thread))
        reasons: list[asyncio.Future[None]] = []  # not to wait any longer
        if self.exit_requested is not None:
            reasons.append(asyncio.ensure_future(_until(self.exit_requested)))
        if self._stopped:
            assert self._clock is not None
            until_s = self._clock.monotonic() + FINISH_S_MAX
            reasons.append(asyncio.ensure_future(self._clock.sleep_until(until_s)))
        try:
            await asyncio.wait({closing, *reasons}, return_when=asyncio.FIRST_COMPLETED)
            if any(reason.done() for reason in reasons):
                self.hurry()
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            self.hurry()
            with contextlib.suppress(Exception):  # told to leave: the cancellation goes on
                await closing
            raise
        finally:
            for reason in reasons:
                reason.cancel()
            thread.shutdown(wait=False)

    def _open(self) -> None:
        for route in self._routes[len(self._open_sinks) :]:
            route.sink.open()
            self._open_sinks.append(route.sink)

    def _close(self) -> None:
        """Close all that are open, also those behind one that cannot be closed: that one stays."""
        first: Exception | None = None
        for sink in reversed(tuple(self._open_sinks)):
            try:
                sink.close(self._hurried)
            except Exception as error:  # noqa: BLE001 - raised when all have been closed
                first = first or error
                if isinstance(error, SinkError | MemoryError) and not self._hurried.is_set():
                    continue
            self._open_sinks.remove(sink)
        if first is not None:
            raise first

    async def _close_all(self, thread: Threads) -> None:
        try:
            await self._persist(self._close, thread)
        except Exception:
            self.hurry()  # what is left is for the next run; the files are let go of
            with contextlib.suppress(Exception):
                await asyncio.get_running_loop().run_in_executor(thread, self._close)
            raise

    async def _persist(self, work: Callable[[], None], thread: Threads | None = None) -> None:
        """Do it again while what fails passes by itself, for a bounded time."""
        assert self._clock is not None, "sinks are opened before they are used"
        loop, executor = asyncio.get_running_loop(), thread or self._thread
        assert executor is not None, "sinks are opened before they are used"
        began_s = self._clock.monotonic()
        for delay_s in retry_delays_s():
            try:
                executor.ready()
                await loop.run_in_executor(executor, work)
            except (SinkError, MemoryError) as error:
                now_s = self._clock.monotonic()
                trouble = _trouble(error, self._clock.wall())
                if trouble is None or self._hurried.is_set():
                    raise
                patient_s = self._patience.until_s(trouble.kind, began_s)
                until_s = min(began_s + START_WAIT_S_MAX, patient_s)
                if now_s >= until_s:
                    raise
                if self.troubles.now is None:
                    _log.warning("%s; trying again for %.0f s", trouble.sentence, until_s - now_s)
                self.troubles.found(trouble)
                await self._clock.sleep_until(min(now_s + delay_s, until_s))
                continue
            self.troubles.set(None)
            return

    # ------------------------------------------------------------ what is put in

    def wants_body(
        self, url: str, status: int, content_type: str | None, *, requisite: bool = False
    ) -> bool:
        """Does any sink want the body of this answer?"""
        wants = [*(route.wants for route in self._routes), *(one.wants for one in self._called)]
        return any(
            one.body and one.answer(url, status, content_type, requisite=requisite) for one in wants
        )

    def requisites(
        self,
        url: str,
        status: int,
        content_type: str | None,
        body: bytes,
        *,
        requisite: bool = False,
    ) -> Requisites | None:
        """What the sinks that want this page need besides, to show it; None: no sink does."""
        wants = [
            route.wants
            for route in self._routes
            if route.wants.requisites
            and route.wants.answer(url, status, content_type, requisite=requisite)
        ]
        if not wants:
            return None
        from crawler.sinks.requisites import requisites  # only mirrors need it

        found = requisites(url, content_type, body, scripts=any(one.scripts for one in wants))
        return found._replace(
            roles={
                to: role
                for to, role in found.roles.items()
                if any(one.url(to, requisite=True) for one in wants)
            }
        )

    def put(self, page: CrawledPage, id_: int = 0) -> None:
        """`id_`: of the URL, see `take_faults`."""
        if not self.any:
            return
        public = _public(page)
        url, status, content_type = page.url, page.status, page.content_type
        index, requisite = page.directives.index, page.requisite
        for route in self._routes:
            wants = route.wants
            if not wants.answer(url, status, content_type, requisite=requisite):
                continue
            if index or wants.noindex:
                given = page if wants.session_headers else public
                self._noted.append((route.sink, given, id_))
                self._bytes += len(page.body) + _PAGE_BYTES
            elif page.again:
                gone = Withdrawn(url=url, withdrawn_at=page.fetched_at, reason="noindex")
                self._noted.append((route.sink, gone, id_))
        for one in self._called:
            if (index or one.wants.noindex) and one.wants.answer(url, status, content_type):
                one.line.append((page if one.wants.session_headers else public, id_))
                self._bytes += len(page.body) + _PAGE_BYTES

    def withdraw_blocked(self, url: str, block: Blocked) -> None:
        """A page that had been fetched is blocked: tell those that may have it."""
        page = Withdrawn(
            url=url,
            withdrawn_at=block.blocked_at,
            robots_url=block.robots_url,
            rule=block.rule,
        )
        for route in self._routes:
            if route.wants.url(url, requisite=True):
                self._noted.append((route.sink, page, block.id))

    @property
    def due(self) -> bool:
        """So much is noted that it is time to write."""
        return self._bytes >= BYTES_PER_FLUSH

    @property
    def full(self) -> bool:
        return self._bytes >= BYTES_MAX or len(self._noted) >= PAGES_MAX

    # ------------------------------------------------------------ what is taken out

    async def flush(self) -> None:
        """Return when everything noted before this call is on disk, and every function has been
        called. What passes by itself (a full disk) is waited for, as `troubles` says. Raises
        SinkError. Cancelled, it loses nothing: what was being written is
        written, the rest stays noted."""
        if not (self._noted or self._batches or any(c.line for c in self._called)):
            return
        async with self._lock:
            await self._write_all()  # what a cancelled call had begun
            noted, self._noted, self._bytes = self._noted, [], 0
            self._batches = _by_sink(noted)
            await self._write_all()
            for one in self._called:
                await one.work(self._faults)

    async def _write_all(self) -> None:
        """Each batch, until it is on disk."""
        if not self._batches:
            return
        assert self._clock is not None, "sinks are opened before they are used"
        began_s = self._clock.monotonic()
        for delay_s in retry_delays_s():
            try:
                await self._written()
            except (SinkError, MemoryError) as error:
                now_s = self._clock.monotonic()
                trouble = _trouble(error, self._clock.wall())
                until_s = -inf if trouble is None else self._patience.until_s(trouble.kind, began_s)
                if trouble is None or now_s >= until_s or self._hurried.is_set():
                    raise  # it stays: nothing is written behind it
                self._writing = None
                self.troubles.found(trouble)
                await self._clock.sleep_until(min(now_s + delay_s, until_s))
                continue
            self._writing = None
            self.troubles.set(None)
            for batch in self._batches:
                self._faults |= batch.faults
            self._batches = []
            return

    async def _written(self) -> None:
        if self._writing is None:
            assert self._thread is not None, "sinks are opened before they are used"
            loop = asyncio.get_running_loop()
            self._writing = loop.run_in_executor(self._thread, _write, self._batches)
        await asyncio.shield(self._writing)

    def take_faults(self) -> dict[int, str]:
        """The faults that kept pages from a sink, as type and place, by the ids of their URLs. Each
        is given once."""
        faults, self._faults = self._faults, {}
        return faults


def _public(page: CrawledPage) -> CrawledPage:
    """The page without response headers that may hold a session's secrets."""
    if not any(name in page.headers for name in SESSION_HEADERS):
        return page
    raw = page.raw_headers
    return replace(
        page, headers=_without(page.headers), raw_headers=None if raw is None else _without(raw)
    )


def _without(headers: Headers) -> Headers:
    kept = CIMultiDict(headers)
    for name in SESSION_HEADERS:
        kept.popall(name, None)
    return CIMultiDictProxy(kept)


async def _until(event: asyncio.Event) -> None:
    await event.wait()


@dataclass(slots=True, eq=False)
class _Batch:
    """What one sink is given between two flushes."""

    sink: Sink
    pages: list[tuple[CrawledPage | Withdrawn, int]] = field(default_factory=list)
    begun: bool = False
    done: bool = False
    faults: dict[int, str] = field(default_factory=dict)  # by the ids of their URLs


def _by_sink(noted: Sequence[tuple[Sink, CrawledPage | Withdrawn, int]]) -> list[_Batch]:
    batches: dict[int, _Batch] = {}
    for sink, page, id_ in noted:
        batches.setdefault(id(sink), _Batch(sink)).pages.append((page, id_))
    return list(batches.values())


def _trouble(error: SinkError | MemoryError, wall_s: float) -> TransientFault | None:
    """What passes by itself; None for anything else."""
    if isinstance(error, MemoryError):
        what, kind = "the sinks", FaultKind.MEMORY
        sentence = f"{what} cannot be written: {words_of(error)}"
        return TransientFault(kind=kind, what=what, sentence=sentence, since=wall_s)
    if error.kind is None:
        return None
    return TransientFault(kind=error.kind, what=error.what, sentence=str(error), since=wall_s)


def _write(batches: Sequence[_Batch]) -> None:
    """Give each sink its pages and flush it; one that failed before is given all of its batch
    again. One page does not keep the others from the disk: what it raises is a fault of its own."""
    for batch in batches:
        if batch.done:
            continue
        sink = batch.sink
        if batch.begun:
            sink.undo()
        batch.begun = True
        batch.faults.clear()
        for page, id_ in batch.pages:
            try:
                if isinstance(page, Withdrawn):
                    sink.withdraw(page)
                else:
                    sink.put(page)
            except Exception as error:  # noqa: BLE001
                fault = contained(f"writing {page.url} to a sink", error)
                if isinstance(page, CrawledPage):
                    batch.faults[id_] = fault
        sink.flush()
        batch.done = True
