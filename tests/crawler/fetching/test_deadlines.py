"""Deadlines count the time in which we wait for the network, and none in which it waits for us."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawler.clock import Timer
from crawler.fetching.exchange import BEAT_S, Bound, Exchange, Watchdog
from crawler.fetching.request import FetchLimits, Request
from tests.crawler.conftest import Serve
from tests.crawler.fetching.readers import Reads
from tests.tables import each

RATE = 100.0
WINDOW_S = 10.0
LIMITS = FetchLimits(timeout_s=10_000.0, rate_bytes_per_s_min=RATE, rate_window_s=WINDOW_S)
STEP_S = BEAT_S + 0.1


@dataclass
class Cancels:
    """Stands for the task that fetches."""

    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class Body:
    """Stands for the reader of a body."""

    total_bytes: int = 0
    eof: bool = False

    def is_eof(self) -> bool:
        return self.eof


@dataclass
class Ticks(Timer):
    when_s: float
    callback: Callable[[], None]
    gone: bool = False

    def cancel(self) -> None:
        self.gone = True


@dataclass
class Hands:
    """A clock whose timers ring when it is moved, late if it is moved past them in one step."""

    now_s: float = 1000.0
    _timers: list[tuple[float, int, Ticks]] = field(default_factory=list)
    _count: Any = field(default_factory=itertools.count)

    def monotonic(self) -> float:
        return self.now_s

    def boottime(self) -> float:
        return self.now_s

    def wall(self) -> float:
        return self.now_s

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Ticks:
        timer = Ticks(when_s, callback)
        heapq.heappush(self._timers, (when_s, next(self._count), timer))
        return timer

    async def sleep_until(self, when_s: float) -> None:
        raise NotImplementedError

    def on_time(self, for_s: float) -> None:
        """Time passes, and every timer rings when it should."""
        end_s = self.now_s + for_s
        while self._timers and self._timers[0][0] <= end_s:
            when_s, _, timer = heapq.heappop(self._timers)
            self.now_s = max(self.now_s, when_s)
            if not timer.gone:
                timer.callback()
        self.now_s = end_s

    def stall(self, for_s: float) -> None:
        """We are late: nothing happens until it is over."""
        self.now_s += for_s
        self.on_time(0.0)


class Rig:
    def __init__(self, limits: FetchLimits = LIMITS) -> None:
        self.clock = Hands()
        self.task = Cancels()
        self.watch = Watchdog(self.clock)
        self.body = Body()
        self.exchange = Exchange(self.clock, limits, cast("asyncio.Task[Any]", self.task), False)
        self.watch.begin(self.exchange)

    def ask(self) -> None:
        class Connection:
            address = None
            exchange = None

        self.exchange.sending(cast("Any", Connection()))

    def head(self) -> None:
        self.exchange.head_complete(cast("Any", self.body))

    def bring(self, size: int) -> None:
        self.exchange.received += size
        self.body.total_bytes += size

    @property
    def met(self) -> Bound | None:
        assert self.task.cancelled == (self.exchange.met is not None)
        return self.exchange.met


def test_the_rate_is_enforced_after_a_slow_header() -> None:
    rig = Rig()
    rig.ask()
    rig.clock.on_time(40 * WINDOW_S)
    rig.head()
    rig.clock.on_time(WINDOW_S + 0.5)
    assert rig.met is Bound.RATE


def test_the_rate_does_not_count_while_we_do_not_read() -> None:
    rig = Rig()
    rig.ask()
    rig.head()
    rig.clock.on_time(WINDOW_S / 2)
    rig.exchange.stop_clock()
    rig.clock.on_time(100 * WINDOW_S)
    assert rig.met is None
    rig.exchange.read_on()
    rig.clock.on_time(WINDOW_S / 2 - 0.5)
    assert rig.met is None
    rig.clock.on_time(WINDOW_S)
    assert rig.met is Bound.RATE


def test_no_deadline_counts_once_all_has_come() -> None:
    rig = Rig(FetchLimits(timeout_s=30.0))
    rig.ask()
    rig.head()
    rig.body.eof = True
    rig.clock.on_time(3600.0)
    assert rig.met is None


@each("bound", [Bound.CONNECT, Bound.HEAD, Bound.RATE, Bound.TOTAL])
def test_our_own_lateness_is_not_charged(bound: Bound) -> None:
    late_s = 120.0
    rig = Rig(FetchLimits(timeout_s=60.0 if bound is Bound.TOTAL else 5000.0, head_s=20.0))
    if bound is not Bound.CONNECT:
        rig.ask()
    if bound in (Bound.RATE, Bound.TOTAL):
        rig.head()
    rig.clock.on_time(5.0)
    rig.clock.stall(late_s)
    assert rig.met is None
    for _ in range(130):
        if bound is Bound.TOTAL:
            rig.bring(10_000)
        rig.clock.on_time(0.5)
        if rig.met is not None:
            break
    assert rig.met is bound


def test_answers_that_make_us_late_do_not_put_off_their_own_end() -> None:
    """Lateness again and again extends the whole time by the longest one, not by its sum."""
    rig = Rig(FetchLimits(timeout_s=60.0))
    rig.ask()
    rig.head()
    began_s = rig.clock.now_s
    while rig.met is None:
        rig.bring(10_000)
        rig.clock.stall(3.0)
    assert rig.met is Bound.TOTAL
    assert rig.clock.now_s - began_s <= 60.0 + 3 * 3.0


Event = tuple[str, float]
events = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.floats(0.0, 25.0)),
        st.tuples(st.just("bytes"), st.floats(0.0, 3000.0)),
        st.tuples(st.just("hold"), st.floats(0.0, 500.0)),
        st.tuples(st.just("stall"), st.floats(STEP_S, 500.0)),
    ),
    max_size=40,
)


@example(
    slow_head_s=0.0, schedule=[("bytes", 1000.0), ("wait", 9.0), ("hold", 1.0), ("wait", 12.0)]
)
@given(slow_head_s=st.floats(0.0, 300.0), schedule=events)
@settings(max_examples=90, deadline=None)
def test_the_rate_for_any_delivery_and_any_pause(slow_head_s: float, schedule: list[Event]) -> None:
    """A sender is given up if it brought too little while it was waited for, within a window or
    two; never for what passed while we did not read or were late."""
    rig = Rig()
    rig.ask()
    rig.clock.on_time(slow_head_s)
    rig.head()
    least = RATE * WINDOW_S
    arrivals: list[tuple[float, int]] = []  # when, in time waited for the network
    waited_s = 0.0
    for kind, amount in schedule:
        if kind == "wait":
            rig.clock.on_time(amount)
            waited_s += amount
        elif kind == "bytes":
            rig.bring(int(amount))
            arrivals.append((waited_s, int(amount)))
        elif kind == "hold":
            rig.exchange.stop_clock()
            rig.clock.on_time(amount)
            rig.exchange.read_on()
        else:
            rig.clock.stall(amount)
        if rig.met is not None:
            break

    def brought(from_s: float, to_s: float) -> int:
        return sum(size for at_s, size in arrivals if from_s <= at_s <= to_s)

    slack_s = BEAT_S + 0.1
    if rig.met is not None:
        assert rig.met is Bound.RATE
        stalls = sum(kind == "stall" for kind, _ in schedule)
        assert waited_s + stalls * BEAT_S >= WINDOW_S - slack_s
        if stalls:
            return  # of each, a part shorter than a beat is not seen
        starts = [
            0.0, *(at_s for at_s, _ in arrivals), waited_s - WINDOW_S, waited_s - 2 * WINDOW_S,
        ]  # fmt: skip
        assert any(
            brought(start_s + 1e-9 if start_s else 0.0, start_s + WINDOW_S - slack_s) < least
            for start_s in starts
            if start_s >= -slack_s
        )
    else:
        # Two whole windows without a byte hold a window of ours.
        marks = [0.0, *(at_s for at_s, size in arrivals if size), waited_s]
        assert all(b - a < 2 * WINDOW_S + 2 * slack_s for a, b in itertools.pairwise(marks))


class Slow:
    """A sink that pauses at its first piece."""

    timeout_s = None
    kept_bytes = 0

    def __init__(self, pause_s: float) -> None:
        self.pause_s = pause_s
        self.size = 0

    async def take(self, piece: bytes) -> bool:
        if not self.size:
            await asyncio.sleep(self.pause_s)
        self.size += len(piece)
        return True

    async def end(self) -> None:
        pass


@pytest.mark.parametrize("size", [2_000, 3_000_000])
async def test_a_sink_that_takes_its_time_is_not_charged_to_the_site(
    serve: Serve, fetcher: Any, size: int
) -> None:
    """Whether the rest waits in our buffer or on the wire."""
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode()
    server = await serve(head + b"x" * size, keep=True)
    sink = Slow(2.5)
    limits = FetchLimits(timeout_s=1.5, rate_window_s=0.5, connect_s=5.0)
    request = Request(url=server.url(), limits=limits, reader=Reads(into=lambda _: sink))
    answer = await fetcher.fetch(request)
    assert getattr(answer, "poured_bytes", answer) == size
