"""A test clock that jumps to the next timer as soon as the event loop is idle."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from storage import thread_work

IDLE_PASSES = 5  # consecutive idle passes of the event loop before a jump; I/O is polled in each
START_S = 1000.0  # not 0, to expose code that uses 0 for "never"
WALL_S = 1_700_000_000.0  # 14 November 2023, 22:13:20 UTC


class JumpClock:
    """A `crawler.clock.Clock` for tests: `async with JumpClock() as clock: …`.

    Time passes only in jumps, which happen when the event loop has had nothing to run for several
    passes. The speed of the code under test therefore does not matter, and a wait of an hour takes
    no real time.

    The clock does not jump while work that the loop passed to a thread is in progress
    (`asyncio.to_thread`, `run_in_executor`, DNS lookups, courtly's own SQLite databases). It cannot
    see the work of other threads and processes. To wait for those, pass `grace_s`: the *real*
    seconds that the loop must have been idle before each jump.
    """

    def __init__(self, *, wall_s: float = WALL_S, grace_s: float = 0.0) -> None:
        self._now_s = START_S
        self._wall_from_s = wall_s - START_S
        self._slept_s = 0.0
        self._grace_s = grace_s
        self._timers: list[tuple[float, int, _JumpTimer]] = []
        self._order = (
            itertools.count()
        )  # timers due at the same instant fire in the order they were set
        self._has_timer = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._thread_work: set[asyncio.Future[Any]] = set()
        self._stop_watching: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self._now_s

    def wall(self) -> float:
        return self._wall_from_s + self._now_s

    def boottime(self) -> float:
        return self._now_s + self._slept_s

    def sleep(self, for_s: float) -> None:
        """Let the machine have slept: `wall` and `boottime` have advanced, `monotonic` has not."""
        self._slept_s += for_s
        self._wall_from_s += for_s

    def set_wall(self, by_s: float) -> None:
        """Move the wall clock forward, or back if negative; `monotonic` is unaffected."""
        self._wall_from_s += by_s

    @property
    def elapsed_s(self) -> float:
        """Seconds jumped so far."""
        return self._now_s - START_S

    def call_at(self, when_s: float, callback: Callable[[], None]) -> _JumpTimer:
        timer = _JumpTimer(callback)
        heapq.heappush(self._timers, (when_s, next(self._order), timer))
        self._has_timer.set()
        return timer

    async def sleep_until(self, when_s: float) -> None:
        if when_s <= self._now_s:
            await asyncio.sleep(0)
            return
        reached = asyncio.Event()
        timer = self.call_at(when_s, reached.set)
        try:
            await reached.wait()
        finally:
            timer.cancel()

    async def __aenter__(self) -> Self:
        self._pump = asyncio.create_task(self._run(), name="JumpClock")
        self._stop_watching = _watch_threads(asyncio.get_running_loop(), self._thread_work)
        return self

    async def __aexit__(self, _kind: object, _error: object, _traceback: object) -> None:
        self._stop_watching()
        if self._pump:
            self._pump.cancel()
            with suppress(asyncio.CancelledError):
                await self._pump

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._has_timer.clear()
            if not self._timers:
                await self._has_timer.wait()
            await self._idle()
            self._now_s = max(self._now_s, self._timers[0][0])
            while self._timers and self._timers[0][0] <= self._now_s:
                timer = heapq.heappop(self._timers)[2]
                if timer.callback:
                    loop.call_soon(timer.callback)
            while self._timers and not self._timers[0][2].callback:  # cancelled: do not jump to it
                heapq.heappop(self._timers)

    async def _idle(self) -> None:
        """Return when only this task has run for several passes of the loop.

        New work is always queued behind this task, so the check in each pass sees it.
        """
        ready, loop = _ready(), asyncio.get_running_loop()
        passes, since_s = 0, time.monotonic()
        while passes < IDLE_PASSES or time.monotonic() - since_s < self._grace_s:
            if working := [*self._thread_work, *thread_work.in_progress(loop)]:
                if awaited := [one for one in working if not one.done()]:
                    await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
                passes = 0
            await asyncio.sleep(0)
            passes += 1
            if ready:
                passes, since_s = 0, time.monotonic()


@dataclass(slots=True)
class _JumpTimer:
    callback: Callable[[], None] | None

    def cancel(self) -> None:
        self.callback = None


def _watch_threads(
    loop: asyncio.AbstractEventLoop, working: set[asyncio.Future[Any]]
) -> Callable[[], None]:
    """Record in `working` the futures of work that `loop` passes to threads. Return a function
    that stops the recording."""
    run = loop.run_in_executor

    def watched(*arguments: Any) -> asyncio.Future[Any]:
        future = run(*arguments)
        working.add(future)
        future.add_done_callback(working.discard)
        return future

    vars(loop)["run_in_executor"] = watched
    return lambda: vars(loop).update(run_in_executor=run)


def _ready() -> deque[object]:
    """The running loop's queue of callbacks to run next.

    The attribute is private to asyncio, but unchanged since Python 3.4, and there is no public way
    to find out whether anything else is ready.
    """
    queue = vars(asyncio.get_running_loop()).get("_ready")
    if not isinstance(queue, deque):
        raise TypeError(
            "JumpClock requires asyncio's own event loop (this loop has no visible queue)"
        )
    return queue
