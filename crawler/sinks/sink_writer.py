"""Opening, writing and closing of sinks in a dedicated thread, with retries."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from types import TracebackType
from typing import Any, Final, Self

from crawler.clock import Clock, RealClock
from crawler.documents.crawled_page import CrawledPage
from crawler.faults import contained
from crawler.sinks.sink import Sink, SinkError, Withdrawn
from crawler.threads import Threads
from storage.transient_faults import (
    START_WAIT_S_MAX,
    FaultKind,
    Patience,
    TransientFault,
    TransientFaults,
    retry_delays_s,
    words_of,
)

# Time for optional work of sinks that are closed after a stop. The next run completes the rest.
# Together with the requests in flight, this is less than service managers wait for a process.
FINISH_S_MAX: Final = 20.0

_log = logging.getLogger("courtly.sinks")


@dataclass(slots=True, eq=False)
class SinkBatch:
    """The pages for one sink between two flushes, with the ids of their URLs."""

    sink: Sink
    pages: list[tuple[CrawledPage | Withdrawn, int]] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)
    is_begun: bool = False
    is_done: bool = False

    def write(self) -> None:
        """Put all pages and flush the sink. After a failure, start the batch again.

        An exception caused by one page is a fault of that page only.
        """
        if self.is_done:
            return
        if self.is_begun:
            self.sink.undo()
        self.is_begun = True
        self.faults.clear()
        for page, id_ in self.pages:
            try:
                if isinstance(page, Withdrawn):
                    self.sink.withdraw(page)
                else:
                    self.sink.put(page)
            except Exception as error:  # noqa: BLE001
                fault = contained(f"writing {page.url} to a sink", error)
                if isinstance(page, CrawledPage):
                    self.faults[id_] = fault
        self.sink.flush()
        self.is_done = True


class SinkWriter:
    """Writes to sinks, and retries for a bounded time while a fault is transient.

    troubles: the current transient fault, for display.
    exit_requested: set when the crawl must exit immediately, or None.
    """

    def __init__(self, sinks: Sequence[Sink], clock: Clock | None = None) -> None:
        self._sinks = tuple(sinks)
        self._clock = clock
        self._open_sinks: list[Sink] = []
        self._thread: Threads | None = None
        self._batches: list[SinkBatch] = []  # not on disk yet
        self._writing: asyncio.Future[None] | None = None
        self._patience = Patience(START_WAIT_S_MAX)
        self._hurried = threading.Event()
        self._stopped = False
        self.troubles = TransientFaults()
        self.exit_requested: asyncio.Event | None = None

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
                raise  # otherwise the earlier error is the one to report

    async def open(self) -> None:
        """Open all sinks, or none. Raises SinkError."""
        self._clock = self._clock or RealClock()
        self._thread = Threads(max_workers=1, thread_name_prefix="sinks")
        try:
            await self._persist(partial(_run, self._thread, self._open), START_WAIT_S_MAX)
        except BaseException:
            await self.close()
            raise

    def set_patience(self, seconds: float) -> None:
        """Set how long to retry before a transient fault counts as a failure."""
        assert self._clock is not None, "sinks are opened before they are used"
        self._patience.set(seconds, self._clock.monotonic())

    def stop(self) -> None:
        """Bound the duration of `close`, because the crawl ends early."""
        self._stopped = True

    def hurry(self) -> None:
        """Close without completing optional work."""
        self._hurried.set()

    async def close(self) -> None:
        """Close all sinks. Pages that were not flushed may be lost; they were not committed."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        closing = asyncio.ensure_future(self._close_all(thread))
        interrupts: list[asyncio.Future[Any]] = []
        if self.exit_requested is not None:
            interrupts.append(asyncio.ensure_future(self.exit_requested.wait()))
        if self._stopped:
            assert self._clock is not None
            until_s = self._clock.monotonic() + FINISH_S_MAX
            interrupts.append(asyncio.ensure_future(self._clock.sleep_until(until_s)))
        try:
            await asyncio.wait({closing, *interrupts}, return_when=asyncio.FIRST_COMPLETED)
            if any(interrupt.done() for interrupt in interrupts):
                self.hurry()
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            self.hurry()
            with contextlib.suppress(Exception):  # the cancellation takes precedence
                await closing
            raise
        finally:
            for interrupt in interrupts:
                interrupt.cancel()
            thread.shutdown(wait=False)

    async def write(self, batches: Sequence[SinkBatch] = ()) -> dict[int, str]:
        """Return when these batches, and those of a cancelled call, are on disk. Raises SinkError.

        The result maps ids of URLs to the faults that kept their pages from a sink. Writing
        continues after a cancellation.
        """
        self._batches += batches
        if self._batches:
            await self._persist(self._write_batches)
        written, self._batches = self._batches, []
        return {id_: fault for batch in written for id_, fault in batch.faults.items()}

    async def _write_batches(self) -> None:
        if self._writing is None:
            assert self._thread is not None, "sinks are opened before they are used"
            loop = asyncio.get_running_loop()
            self._writing = loop.run_in_executor(self._thread, _write, self._batches)
        await asyncio.shield(self._writing)
        self._writing = None

    def _open(self) -> None:
        for sink in self._sinks[len(self._open_sinks) :]:
            sink.open()
            self._open_sinks.append(sink)

    def _close(self) -> None:
        """Close all open sinks, and raise the first error. Sinks that may be retried stay open."""
        first: Exception | None = None
        for sink in reversed(tuple(self._open_sinks)):
            try:
                sink.close(self._hurried)
            except Exception as error:  # noqa: BLE001 - raised after all have been closed
                first = first or error
                if isinstance(error, SinkError | MemoryError) and not self._hurried.is_set():
                    continue
            self._open_sinks.remove(sink)
        if first is not None:
            raise first

    async def _close_all(self, thread: Threads) -> None:
        try:
            await self._persist(partial(_run, thread, self._close), START_WAIT_S_MAX)
        except Exception:
            self.hurry()  # leave the rest to the next run, and release the files
            with contextlib.suppress(Exception):
                await asyncio.get_running_loop().run_in_executor(thread, self._close)
            raise

    async def _persist(
        self, attempt: Callable[[], Awaitable[None]], wait_s_max: float = inf
    ) -> None:
        """Repeat `attempt` while it fails for a transient fault, for a bounded time."""
        assert self._clock is not None, "sinks are opened before they are used"
        began_s = self._clock.monotonic()
        waiting = self._patience.waiting(began_s)
        for delay_s in retry_delays_s():
            try:
                await attempt()
            except (SinkError, MemoryError) as error:
                now_s = self._clock.monotonic()
                fault = _transient_fault(error, self._clock.wall())
                if fault is None or self._hurried.is_set():
                    raise
                until_s = min(began_s + wait_s_max, waiting.until_s(fault.kind, now_s))
                if now_s >= until_s:
                    raise  # a failed write stays, so that nothing is written after it
                if wait_s_max < inf and self.troubles.now is None:
                    _log.warning("%s; retrying for %.0f s", fault.sentence, until_s - now_s)
                self._writing = None
                self.troubles.found(fault)
                await self._clock.sleep_until(min(now_s + delay_s, until_s))
            else:
                self.troubles.set(None)
                return


async def _run(thread: Threads, work: Callable[[], None]) -> None:
    thread.ready()
    await asyncio.get_running_loop().run_in_executor(thread, work)


def _write(batches: Sequence[SinkBatch]) -> None:
    for batch in batches:
        batch.write()


def _transient_fault(error: SinkError | MemoryError, wall_s: float) -> TransientFault | None:
    """Return the transient fault that an error reports, or None for a permanent one."""
    if isinstance(error, MemoryError):
        what, kind = "the sinks", FaultKind.MEMORY
        sentence = f"{what} cannot be written: {words_of(error)}"
        return TransientFault(kind=kind, what=what, sentence=sentence, since=wall_s)
    if error.kind is None:
        return None
    return TransientFault(kind=error.kind, what=error.what, sentence=str(error), since=wall_s)
