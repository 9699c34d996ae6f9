"""The recorder of the history: minutes, marks, and what waits for a database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from crawler.daemon.health import Check, CheckName, Health, HealthState
from crawler.daemon.monitoring import history_recorder
from crawler.daemon.monitoring.history_recorder import HistoryRecorder
from crawler.daemon.monitoring.metrics import Metrics
from crawler.operator_commands import CrawlState
from crawler.testing.jump_clock import JumpClock
from policies.holds import Hold, HoldReason
from policies.retries import FailureCode
from storage.history import HistoryCounts, Mark, MarkKind
from storage.log_histogram import bucket_of
from storage.store import Failed, StoreError
from tests.crawler.daemon.conftest import Hand
from tests.crawler.daemon.monitoring.test_metrics import contact


class Control:
    """What `recording` needs of `crawler.steering.control.Control`."""

    session = 7

    def __init__(self, state: CrawlState = CrawlState.RUNNING) -> None:
        self.state = state
        self.minutes: dict[int, HistoryCounts] = {}
        self.marks: dict[int, Mark] = {}
        self.writable = asyncio.Event()
        self.writable.set()
        self.broken = False
        self.faults: list[Exception] = []

    async def put_history(self, counts: Sequence[HistoryCounts], marks: Sequence[Mark]) -> None:
        await self.writable.wait()
        if self.broken:
            raise StoreError("the database is gone")
        if self.faults:
            raise self.faults.pop()
        self.minutes |= {one.at: one for one in counts}
        self.marks |= {one.number: one for one in marks}

    def kinds(self) -> list[str]:
        return [mark.kind.value for mark in self.marks.values()]


def hold(reason: HoldReason = HoldReason.NETWORK, since: float = 1_000.0) -> Hold:
    return Hold(reason=reason, since=since)


class Recorder(HistoryRecorder):
    """A recorder that is fed as a `Monitor` does it, with its own counters."""

    def __init__(self, clock: Any) -> None:
        self.metrics = Metrics()
        super().__init__(clock, self.metrics)

    def visit(self, status: int = 200) -> None:
        self.sample()
        self.metrics.contacted(contact(status=status))


def recorder(clock: Any) -> Recorder:
    return Recorder(clock)


FAILED = Failed(id=1, slot="a.test", error="dns: none", attempts=3, last_at=0.0)


def test_a_minute_counts_what_happened_in_it(hand: Hand) -> None:
    made = recorder(hand)
    made.sample()
    hand.advance(5)
    for status in (200, 204, 301, 404, 503, 101):
        made.visit(status)
    made.metrics.contacted(contact("robots", status=None, error=FailureCode.DNS))
    made.metrics.settled("http://a.test/", FAILED)
    made.metrics.gave_up("b.test", "http://b.test", "connect: refused", 40)
    made.sample()
    made.queued = 9
    (now,) = made.newest().counts
    assert now == HistoryCounts(
        at=960,
        session=0,
        observed_s=5.0,
        queued=9,
        counts={
            "success": 2,
            "redirects": 1,
            "client_errors": 1,
            "server_errors": 1,
            "unanswered": 2,
            "failed": 41,
            "given_up": 40,
        },
        durations={"latency": {bucket_of(0.1): 6}, "lateness": {bucket_of(0.004): 7}},
    )


def test_a_new_minute_begins_with_the_clock(hand: Hand) -> None:
    made = recorder(hand)
    hand.now_s = 1_079.0
    made.visit()
    hand.now_s = 1_080.5
    made.visit(404)
    first, second = made.newest().counts
    assert (first.at, first.counts) == (1_020, {"success": 1})
    assert (second.at, second.counts) == (1_080, {"client_errors": 1})


def test_a_suspended_machine_leaves_a_gap(hand: Hand) -> None:
    made = recorder(hand)
    made.sample()
    hand.advance(5)
    made.sample()
    hand.advance(3_600)
    made.sample()
    counts = made.newest().counts
    assert [one.at for one in counts] == [960, 4_560]
    assert sum(one.observed_s for one in counts) == 5 + history_recorder.SAMPLES_APART_S


def test_a_clock_that_is_set_back_loses_nothing(hand: Hand) -> None:
    made = recorder(hand)
    made.visit()
    hand.advance(-90)
    made.visit()
    (now,) = made.newest().counts
    assert now.counts == {"success": 2}


async def test_minutes_and_marks_are_written() -> None:
    control = Control()
    async with JumpClock() as clock:
        made = recorder(clock)
        async with made.recording(control):  # type: ignore[arg-type]
            await clock.sleep_until(clock.monotonic() + 1)
            assert control.kinds() == ["start"]  # before the first minute is over
            for _ in range(30):
                made.visit()
                made.sample()
                await clock.sleep_until(clock.monotonic() + 5)
            made.commanded("pause", {}, {"by": "alice", "via": "page"})
            made.commanded("host_pause", {"host": "a.test"}, {"by": "alice", "via": "page"})
            made.commanded("reload", {"changes": ["a to b", "c to d"]}, {"by": "bob", "via": "api"})
        end_s = clock.wall()
    assert sum(one.counts["success"] for one in control.minutes.values()) == 30
    assert {one.session for one in control.minutes.values()} == {7}
    start, pause, change, stop = control.marks.values()
    assert (start.kind, start.lasting, start.until) == (MarkKind.START, False, end_s)
    assert (pause.kind, pause.actor, pause.via) == (MarkKind.PAUSE, "alice", "page")
    assert (change.kind, change.sentence) == (MarkKind.RELOAD, "a to b; c to d")
    assert (stop.kind, stop.at, stop.reason) == (MarkKind.STOP, end_s, "")
    assert made.newest().marks == []


async def test_a_crawl_that_starts_paused_says_so() -> None:
    control = Control(CrawlState.PAUSED)
    async with recorder(Hand()).recording(control):  # type: ignore[arg-type]
        pass
    assert [mark.reason for mark in control.marks.values()] == ["paused", ""]


async def test_a_crawl_that_ends_with_an_error_says_so() -> None:
    control = Control()
    with pytest.raises(ExceptionGroup):
        async with recorder(Hand()).recording(control):  # type: ignore[arg-type]
            raise OSError
    assert [mark.reason for mark in control.marks.values()] == ["", "error"]


async def test_a_database_that_fails_is_the_error_that_is_raised() -> None:
    control = Control()
    control.broken = True
    async with JumpClock() as clock:
        with pytest.raises(ExceptionGroup) as raised:
            async with recorder(clock).recording(control):  # type: ignore[arg-type]
                await clock.sleep_until(clock.monotonic() + 10)
    assert raised.group_contains(StoreError)


async def test_a_write_that_fails_is_tried_again() -> None:
    control = Control()
    control.faults = [RuntimeError("twice"), StoreError("once")]
    async with (
        JumpClock() as clock,
        recorder(clock).recording(control),  # type: ignore[arg-type]
    ):
        await clock.sleep_until(clock.monotonic() + 10)
        assert control.kinds() == ["start"]
    assert not control.faults


async def test_a_locked_database_delays_the_history_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(history_recorder, "MINUTES_WAITING_MAX", 5)
    monkeypatch.setattr(history_recorder, "MARKS_WAITING_MAX", 4)
    control = Control()
    control.writable.clear()
    async with JumpClock() as clock:
        made = recorder(clock)
        async with made.recording(control):  # type: ignore[arg-type]
            for _ in range(10):
                made.visit()
                made.sample()
                made.commanded("pause", {}, {})
                await clock.sleep_until(clock.monotonic() + 60)
            assert control.minutes == {}
            assert len(made.newest().counts) == 6
            assert len(made.newest().marks) == 4
            control.writable.set()
    assert len(control.minutes) == 5


async def test_the_end_does_not_wait_for_a_locked_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_recorder, "LAST_WRITE_S", 0.01)
    control = Control()
    control.writable.clear()
    async with asyncio.timeout(5):
        async with recorder(Hand()).recording(control):  # type: ignore[arg-type]
            pass
    assert control.marks == {}


# ------------------------------------------------------------ holds


def holds(made: HistoryRecorder) -> list[Mark]:
    return [mark for mark in made.newest().marks if mark.kind is MarkKind.HOLD]


def test_a_hold_has_a_begin_and_an_end(hand: Hand) -> None:
    made = recorder(hand)
    made.hold_began(hold())
    (mark,) = holds(made)
    assert (mark.at, mark.lasting, mark.reason) == (1_000.0, True, "network")
    assert mark.sentence == hold().sentence
    hand.advance(300)
    made.hold_ended(hold(), 300.0)
    (mark,) = holds(made)
    assert (mark.at, mark.until, mark.lasting) == (1_000.0, 1_300.0, False)


def test_a_hold_that_lasts_is_heard_of_every_minute(hand: Hand) -> None:
    """So that a crash does not lose when it ended."""
    made = recorder(hand)
    made.hold_began(hold())
    hand.advance(130)
    made.sample()
    (mark,) = holds(made)
    assert (mark.until, mark.lasting) == (1_130.0, True)


def test_a_hold_that_returns_soon_is_the_same(hand: Hand) -> None:
    made = recorder(hand)
    for _ in range(20):
        made.hold_began(hold(since=hand.now_s))
        hand.advance(2)
        made.hold_ended(hold(), 2.0)
        hand.advance(30)
    (mark,) = holds(made)
    assert (mark.at, mark.until) == (1_000.0, 1_000.0 + 19 * 32 + 2)
    hand.advance(60)
    made.hold_began(hold(since=hand.now_s))
    made.hold_began(hold(HoldReason.MEMORY, since=hand.now_s))
    assert [mark.reason for mark in holds(made)] == ["network", "network", "memory"]


def judged(
    state: HealthState, sentence: str = "20 of 20 lost", since: float | None = None
) -> Health:
    check = Check(check=CheckName.NETWORK, state=state, sentence=sentence, since=since)
    return Health(state=state, checks=(check,))


def test_bad_health_is_marked_with_its_first_cause(hand: Hand) -> None:
    made = recorder(hand)
    made.judged(judged(HealthState.OK))
    made.judged(judged(HealthState.WARNING))
    assert made.newest().marks == []
    for lost in (20, 30, 40):
        made.judged(judged(HealthState.BAD, f"{lost} of {lost} lost"))
        hand.advance(5)
    made.judged(judged(HealthState.WARNING))
    hand.advance(5)
    made.judged(judged(HealthState.OK))
    (mark,) = made.newest().marks
    assert (mark.kind, mark.reason, mark.sentence) == (
        MarkKind.TROUBLE,
        "network",
        "20 of 20 lost",
    )
    assert (mark.at, mark.until, mark.lasting) == (1_000.0, 1_015.0, False)


def test_a_hold_is_not_marked_twice(hand: Hand) -> None:
    made = recorder(hand)
    made.hold_began(hold())
    made.judged(judged(HealthState.BAD, "On hold."))
    assert [mark.kind for mark in made.newest().marks] == [MarkKind.HOLD]
    hand.advance(60)
    made.hold_ended(hold(), 60.0)
    made.judged(judged(HealthState.BAD, since=1_000.0))
    last = made.newest().marks[-1]
    assert (last.kind, last.at) == (MarkKind.TROUBLE, 1_060.0)


async def test_holds_end_with_the_process(hand: Hand) -> None:
    control, made = Control(), recorder(hand)
    async with made.recording(control):  # type: ignore[arg-type]
        made.hold_began(hold())
        hand.advance(90)
    mark = next(mark for mark in control.marks.values() if mark.kind is MarkKind.HOLD)
    assert (mark.until, mark.lasting) == (1_090.0, False)


def test_long_texts_are_cut(hand: Hand) -> None:
    made = recorder(hand)
    made.commanded("reload", {"changes": ["x" * 9_000]}, {})
    (mark,) = made.newest().marks
    assert len(mark.sentence) == history_recorder.TEXT_SHOWN
    assert structs.replace(mark, sentence="").actor == ""
