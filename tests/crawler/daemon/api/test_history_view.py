"""Points and marks of the history, as the API shows them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from crawler.daemon.api import history_view
from crawler.daemon.api.history_view import HistoryView, marks, points
from crawler.daemon.problem import Problem
from storage.history import HOUR_S, History, HistoryCounts, Mark, MarkKind
from tests.crawler.daemon.conftest import Hand
from tests.crawler.daemon.monitoring.test_history_recorder import Recorder

NOW = 1_800_000_000


def minute(at: int, **values: Any) -> HistoryCounts:
    return HistoryCounts(at=at, **{"observed_s": 60.0, "session": 1, **values})


def mark(number: int, at: float, kind: MarkKind, **values: Any) -> Mark:
    return Mark(**{"session": 1, "number": number, "kind": kind, "at": at, "until": at, **values})


# ------------------------------------------------------------ points


def test_steps_are_summed_and_gaps_stay_gaps() -> None:
    counts = [
        minute(NOW + 60 * n, counts={"success": 1}, queued=100 - n) for n in (0, 1, 2, 3, 4, 15, 16)
    ]
    found = points(counts, from_s=NOW, to_s=NOW + 1_200, step_s=300)
    assert [(one.at - NOW, one.success, one.observed_s, one.queued) for one in found] == [
        (0, 5, 300.0, 96),
        (900, 2, 120.0, 84),
    ]


def test_percentiles_are_of_all_sessions_and_minutes() -> None:
    counts = [
        minute(NOW, durations={"latency": {10: 50}}),
        minute(NOW, session=2, durations={"latency": {20: 44}}),
        minute(NOW + 60, durations={"latency": {30: 6}}),
    ]
    (point,) = points(counts, from_s=NOW, to_s=NOW + 300, step_s=300)
    assert point.observed_s == 120.0
    assert point.latency_p50_s == pytest.approx(0.001 * 2 ** (9.5 / 4), abs=1e-4)
    assert point.latency_p95_s == pytest.approx(0.001 * 2 ** (29.5 / 4), abs=1e-4)
    assert (point.lateness_p50_s, point.lateness_p95_s) == (None, None)


def test_folded_hours_are_points_of_their_own() -> None:
    counts = [
        minute(NOW, step_s=HOUR_S, counts={"success": 7}, observed_s=3_600.0),
        minute(NOW + HOUR_S),
    ]
    found = points(counts, from_s=NOW, to_s=NOW + 2 * HOUR_S, step_s=60)
    assert [(one.at - NOW, one.step_s, one.success) for one in found] == [
        (0, HOUR_S, 7),
        (HOUR_S, 60, 0),
    ]


# ------------------------------------------------------------ marks


def shown(*found: Mark, from_s: float = NOW, own: int = 1, heard_s: float = math.inf) -> list[Any]:
    return [
        (one.kind.value, one.at - NOW, None if one.ended_at is None else one.ended_at - NOW)
        for one in marks(found, from_s=from_s, to_s=NOW + 1_000, heard_s=heard_s, own=own)
    ]


def test_a_pause_ends_when_the_crawl_is_resumed() -> None:
    assert shown(
        mark(1, NOW + 10, MarkKind.PAUSE),
        mark(2, NOW + 20, MarkKind.PAUSE),
        mark(3, NOW + 30, MarkKind.RESUME),
        mark(4, NOW + 40, MarkKind.PAUSE),
    ) == [("pause", 10, 30), ("resume", 30, None), ("pause", 40, None)]


def test_a_pause_lasts_through_a_restart() -> None:
    found = [
        mark(1, NOW + 10, MarkKind.PAUSE),
        mark(2, NOW + 20, MarkKind.STOP),
        mark(1, NOW + 30, MarkKind.START, session=2, reason="paused", lasting=True),
        mark(2, NOW + 40, MarkKind.RESUME, session=2),
    ]
    assert shown(*found, own=2)[0] == ("pause", 10, 40)
    found[2] = mark(1, NOW + 30, MarkKind.START, session=2)
    assert shown(*found, own=2)[0] == ("pause", 10, 30)


def test_a_start_may_find_a_pause_that_nobody_marked() -> None:
    assert shown(mark(1, NOW + 10, MarkKind.START, reason="paused", lasting=True)) == [
        ("pause", 10, None),
        ("start", 10, None),
    ]


def test_a_pause_and_a_hold_may_reach_into_a_span() -> None:
    assert shown(
        mark(1, NOW - 50, MarkKind.START, lasting=True),
        mark(2, NOW - 40, MarkKind.HOLD, until=NOW - 30),
        mark(3, NOW - 20, MarkKind.HOLD, until=NOW + 5),
        mark(6, NOW - 15, MarkKind.TROUBLE, until=NOW + 7, lasting=True),
        mark(4, NOW - 10, MarkKind.PAUSE),
        mark(5, NOW + 10, MarkKind.RESUME),
    ) == [("hold", -20, 5), ("trouble", -15, None), ("pause", -10, 10), ("resume", 10, None)]


def test_a_process_that_ended_without_a_stop_is_not_clean() -> None:
    found = [
        mark(1, NOW, MarkKind.START, until=NOW + 60, lasting=True),
        mark(2, NOW + 10, MarkKind.HOLD, until=NOW + 60, lasting=True),
        mark(1, NOW + 70, MarkKind.START, session=2, until=NOW + 120, lasting=True),
    ]
    assert shown(*found, own=2) == [("start", 0, 60), ("hold", 10, 60), ("start", 70, None)]
    values = marks(found, from_s=NOW, to_s=NOW + 200, heard_s=math.inf, own=2)
    assert [one.clean for one in values] == [False, True, True]


def test_other_workers_are_alive_while_they_are_heard_of() -> None:
    other = mark(1, NOW, MarkKind.START, until=NOW + 60, lasting=True)
    assert shown(other, own=2, heard_s=NOW + 30) == [("start", 0, None)]
    assert shown(other, own=2, heard_s=NOW + 90) == [("start", 0, 60)]


# ------------------------------------------------------------ the view


class Stored:
    """A reader with a history."""

    def __init__(self, *counts: HistoryCounts) -> None:
        self.counts = counts

    async def history(self, *, from_s: float, to_s: float) -> History:
        return History(counts=self.counts, marks=())


def view(hand: Hand, *counts: HistoryCounts) -> tuple[HistoryView, Recorder]:
    recorder = Recorder(hand)
    made = HistoryView(Stored(*counts), recorder, hand, shared=False)  # type: ignore[arg-type]
    return made, recorder


async def test_what_is_not_written_yet_is_in_the_answer(hand: Hand) -> None:
    """In place of what was written of it before."""
    made, recorder = view(
        hand, minute(960, session=0, counts={"success": 1}), minute(900, session=0)
    )
    for _ in range(4):
        recorder.visit()
    recorder.commanded("pause", {}, {"by": "alice", "via": "page"})
    found = await made.history(from_=900.0, to=2_000.0)
    assert [(one.at, one.success) for one in found.points] == [(900, 0), (960, 4)]
    assert [(one.kind, one.by) for one in found.marks] == [(MarkKind.PAUSE, "alice")]


@pytest.mark.parametrize(
    ("span_s", "step_s"), [(3_600, 60), (21_600, 60), (86_400, 300), (7 * 86_400, 1_800)]
)
async def test_a_step_is_chosen_for_some_hundred_points(
    hand: Hand, span_s: int, step_s: int
) -> None:
    made, _ = view(hand)
    hand.now_s = 1e9
    assert (await made.history(from_=1e9 - span_s)).step_s == step_s


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"from_": 5.0, "to": 5.0}, "from"),
        ({"from_": -1.0}, "from"),
        ({"to": math.inf}, "to"),
        ({"from_": math.nan}, "from"),
        ({"step": 59}, "step"),
        ({"from_": 0.0, "to": 1e9, "step": 600}, "step"),
    ],
)
async def test_a_span_that_makes_no_sense_is_refused(
    hand: Hand, asked: dict[str, Any], field: str
) -> None:
    made, _ = view(hand)
    hand.now_s = 1e9
    with pytest.raises(Problem) as refused:
        await made.history(**asked)
    assert (refused.value.status, refused.value.field) == (422, field)


async def test_an_answer_has_at_most_so_many_points(hand: Hand) -> None:
    made, _ = view(hand)
    hand.now_s = 1e9
    span_s = 60 * history_view.POINTS_MAX
    await made.history(from_=1e9 - span_s, step=60)
    with pytest.raises(Problem, match="more than 3,000 points"):
        await made.history(from_=1e9 - span_s - 100, step=60)
