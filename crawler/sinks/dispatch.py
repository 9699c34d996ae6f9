"""From the crawl to its sinks: each page to those that want it, written beside the event loop, and
on disk before its outcome is committed."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from crawler.documents.crawled import CrawledPage
from crawler.sinks.base import Sink, Withdrawn
from crawler.sinks.wants import Wants
from storage.base import Blocked

# Put and not written; beyond it pages wait for the disk (law 7). A few of the largest bodies.
BYTES_MAX: Final = 64_000_000
PAGES_MAX: Final = 1_000
# A commit is due at so much: a fraction, so that writing overlaps with fetching.
BYTES_PER_FLUSH: Final = 8_000_000
# Beside the body: what a page itself takes.
_PAGE_BYTES: Final = 2_000

Call = Callable[[CrawledPage], Awaitable[None] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A sink, with what it wants."""

    sink: Sink
    wants: Wants


@dataclass(slots=True, kw_only=True, eq=False)
class Called:
    """A function of the user's that is called with every page it wants, one after the other.

    One that is not `async` is called in a thread. Pages stay in line until it has returned. What
    it raises ends the crawl, and its page stays uncommitted."""

    call: Call
    wants: Wants
    line: deque[CrawledPage] = field(default_factory=deque)

    async def work(self) -> None:
        for _ in range(len(self.line)):  # what comes meanwhile is the next flush's
            page = self.line[0]
            if inspect.iscoroutinefunction(self.call):
                await self.call(page)
            else:
                answer = await asyncio.to_thread(self.call, page)
                if answer is not None:
                    await answer
            self.line.popleft()


class Sinks:
    """All sinks of one crawl. `put` and `withdraw` take note; `flush` has it written, and the
    ledger awaits it before each commit."""

    def __init__(self, routes: Sequence[Route] = (), called: Sequence[Called] = ()) -> None:
        self._routes = tuple(routes)
        self._called = list(called)
        self._noted: list[tuple[Sink, CrawledPage | Withdrawn]] = []
        self._bytes = 0
        self._thread: ThreadPoolExecutor | None = None
        self._writing: asyncio.Future[None] | None = None
        self._lock = asyncio.Lock()
        self._hurried = threading.Event()
        self.leaving: asyncio.Event | None = None  # set by who tells the crawl to leave at once

    @property
    def any(self) -> bool:
        return bool(self._routes or self._called)

    @property
    def wants_links(self) -> bool:
        """Does anybody look at the links of pages? Their texts cost a second look at the page."""
        return bool(self._called) or any(route.wants.links for route in self._routes)

    def add(self, called: Called) -> None:
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
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sinks")
        try:
            await self._run(self._open)
        except BaseException:
            await self.close()
            raise

    def hurry(self) -> None:
        """Close without finishing what is not needed to be whole."""
        self._hurried.set()

    async def close(self) -> None:
        """What was put and not flushed may be lost: it was not committed."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        loop = asyncio.get_running_loop()
        closing = loop.run_in_executor(thread, self._close)
        try:
            if self.leaving is not None:
                told = asyncio.ensure_future(_until(self.leaving))
                await asyncio.wait({closing, told}, return_when=asyncio.FIRST_COMPLETED)
                if not told.cancel():
                    self.hurry()
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            self.hurry()
            with contextlib.suppress(Exception):  # told to leave: the cancellation goes on
                await closing
            raise
        finally:
            thread.shutdown(wait=False)

    def _open(self) -> None:
        for route in self._routes:
            route.sink.open()

    def _close(self) -> None:
        with contextlib.ExitStack() as all_of_them:  # also those behind one that cannot be closed
            for route in reversed(self._routes):
                all_of_them.callback(route.sink.close, self._hurried)

    async def _run(self, work: Callable[[], None]) -> None:
        assert self._thread is not None, "sinks are opened before they are used"
        await asyncio.get_running_loop().run_in_executor(self._thread, work)

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
    ) -> Sequence[str]:
        """What the sinks that want this page need besides, to show it: canonical URLs."""
        wants = [
            route.wants
            for route in self._routes
            if route.wants.requisites
            and route.wants.answer(url, status, content_type, requisite=requisite)
        ]
        if not wants:
            return ()
        from crawler.sinks.requisites import requisites  # only mirrors need it

        found = requisites(url, content_type, body, scripts=any(one.scripts for one in wants))
        return [to for to in found if any(one.url(to, requisite=True) for one in wants)]

    def put(self, page: CrawledPage) -> None:
        url, status, content_type = page.url, page.status, page.content_type
        index, requisite = page.directives.index, page.requisite
        for route in self._routes:
            wants = route.wants
            if not wants.answer(url, status, content_type, requisite=requisite):
                continue
            if index or wants.noindex:
                self._noted.append((route.sink, page))
                self._bytes += len(page.body) + _PAGE_BYTES
            elif page.again:
                gone = Withdrawn(url=url, withdrawn_at=page.fetched_at, reason="noindex")
                self._noted.append((route.sink, gone))
        for one in self._called:
            if (index or one.wants.noindex) and one.wants.answer(url, status, content_type):
                one.line.append(page)
                self._bytes += len(page.body) + _PAGE_BYTES

    def forbidden(self, url: str, block: Blocked) -> None:
        """A page that had been fetched is blocked: tell those that may have it."""
        page = Withdrawn(
            url=url,
            withdrawn_at=block.blocked_at,
            robots_url=block.robots_url,
            rule=block.rule,
        )
        for route in self._routes:
            if route.wants.url(url, requisite=True):
                self._noted.append((route.sink, page))

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
        called. Raises SinkError, or what a function raised. Cancelled, it loses nothing: what was
        being written is written, the rest stays noted."""
        if not self._noted and self._writing is None and not any(c.line for c in self._called):
            return
        async with self._lock:
            await self._written()  # what a cancelled call had begun
            noted, self._noted, self._bytes = self._noted, [], 0
            if noted:
                assert self._thread is not None, "sinks are opened before they are used"
                loop = asyncio.get_running_loop()
                self._writing = loop.run_in_executor(self._thread, _write, noted)
                await self._written()
            for one in self._called:
                await one.work()

    async def _written(self) -> None:
        writing = self._writing
        if writing is None:
            return
        await asyncio.shield(writing)
        self._writing = None  # one that failed stays: nothing is written behind it


async def _until(event: asyncio.Event) -> None:
    await event.wait()


def _write(noted: Sequence[tuple[Sink, CrawledPage | Withdrawn]]) -> None:
    sinks: dict[int, Sink] = {}
    for sink, page in noted:
        sinks[id(sink)] = sink
        if isinstance(page, Withdrawn):
            sink.withdraw(page)
        else:
            sink.put(page)
    for sink in sinks.values():
        sink.flush()
