"""A clock that stands still while anything can run and jumps to the next timer when nothing can."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

IDLE_PASSES = 5  # of the event loop in a row before a jump: what waits for I/O gets as many looks
START_S = 1000.0  # not 0: code that takes "never" for 0 is found out
WALL_S = 1_700_000_000.0  # 14 November 2023, 22:13:20 UTC


class JumpClock:
    """A `crawler.clock.Clock` for tests: `async with JumpClock() as clock: …`.

    Time passes only in jumps, made when the event loop has had nothing to run for several passes.
    So it does not matter how long the code under test takes, and a wait of an hour costs nothing.

    No jump overtakes what the loop has given to a thread (`asyncio.to_thread`, `run_in_executor`,
    DNS). The work of other threads (SQLite's) cannot be seen from the loop: where a jump must not
    overtake that, give `grace_s`, the *real* seconds that the loop must have been idle before each
    jump.
    """

    def __init__(self, *, wall_s: float = WALL_S, grace_s: float = 0.0) -> None:
        self._now_s = START_S
        self._wall_from_s = wall_s - START_S
        self._grace_s = grace_s
        self._timers: list[tuple[float, int, _Timer]] = []
        self._order = itertools.count()  # timers of one instant fire in the order they were set
        self._wound = asyncio.Event()  # there is a timer to jump to
        self._pump: asyncio.Task[None] | None = None
        self._in_threads: set[asyncio.Future[Any]] = set()
        self._unwatch: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self._now_s

    def wall(self) -> float:
        return self._wall_from_s + self._now_s

    def set_wall(self, by_s: float) -> None:
        """Set the wall clock forward, or back; `monotonic` goes on as ever."""
        self._wall_from_s += by_s

    @property
    def elapsed_s(self) -> float:
        """How far it has jumped so far."""
        return self._now_s - START_S

    def call_at(self, when_s: float, callback: Callable[[], None]) -> _Timer:
        timer = _Timer(callback)
        heapq.heappush(self._timers, (when_s, next(self._order), timer))
        self._wound.set()
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
        self._unwatch = _watch_threads(asyncio.get_running_loop(), self._in_threads)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._unwatch()
        if self._pump:
            self._pump.cancel()
            with suppress(asyncio.CancelledError):
                await self._pump

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._wound.clear()
            if not self._timers:
                await self._wound.wait()
            await self._idle()
            self._now_s = max(self._now_s, self._timers[0][0])
            while self._timers and self._timers[0][0] <= self._now_s:
                timer = heapq.heappop(self._timers)[2]
                if timer.callback:
                    loop.call_soon(timer.callback)
            while self._timers and not self._timers[0][2].callback:  # cancelled: not worth a jump
                heapq.heappop(self._timers)

    async def _idle(self) -> None:
        """Return when nothing but this task has run for several passes of the loop.

        What the loop finds to do always stands behind this task in its queue, so no pass is missed.
        """
        ready = _ready()
        passes, since_s = 0, time.monotonic()
        while passes < IDLE_PASSES or time.monotonic() - since_s < self._grace_s:
            if self._in_threads:
                await asyncio.wait(self._in_threads, return_when=asyncio.FIRST_COMPLETED)
                passes = 0
            await asyncio.sleep(0)
            passes += 1
            if ready:
                passes, since_s = 0, time.monotonic()


class _Timer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


def _watch_threads(
    loop: asyncio.AbstractEventLoop, working: set[asyncio.Future[Any]]
) -> Callable[[], None]:
    """Keep in `working` what the loop has in threads, until what is returned is called."""
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

    Private to asyncio, unchanged since Python 3.4, and the only way to ask whether anything else is
    ready.
    """
    queue = vars(asyncio.get_running_loop()).get("_ready")
    if not isinstance(queue, deque):
        raise TypeError("JumpClock needs asyncio's own event loop (this one shows no queue)")
    return queue
