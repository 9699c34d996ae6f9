"""What was counted in each minute, and marks: kept, folded and bounded."""

from __future__ import annotations

from typing import Any

import pytest

from storage import history as bounds
from storage.engine import history_table
from storage.history import (
    HOUR_S,
    HOURS_KEPT_S,
    MERGED_AFTER_S,
    MINUTE_S,
    MINUTES_KEPT_S,
    History,
    HistoryCounts,
    Mark,
    MarkKind,
)
from tests.storage.conftest import START_S

NOW = int(START_S) // HOUR_S * HOUR_S


def minute(at: int, *, session: int = 1, **values: Any) -> HistoryCounts:
    values = {"observed_s": 60.0, **values}
    return HistoryCounts(at=at, session=session, **values)


def successes(one: HistoryCounts) -> int:
    return one.counts.get("success", 0)


def mark(number: int, at: float, kind: MarkKind = MarkKind.RELOAD, **values: Any) -> Mark:
    values = {"session": 1, "until": at, **values}
    return Mark(number=number, kind=kind, at=at, **values)


async def everything(rig: Any) -> History:
    found: History = await rig.reader.history(from_s=0.0, to_s=NOW + 1e6)
    return found


async def put(rig: Any, *counts: HistoryCounts, marks: tuple[Mark, ...] = ()) -> None:
    await rig.store.put_history(rig.session, counts, marks)


async def test_a_minute_comes_back_as_it_was_written(rig: Any) -> None:
    full = minute(
        NOW, observed_s=42.5, queued=8, counts={"success": 1, "failed": 2**40},
        durations={"latency": {0: 1, 17: 3}, "lateness": {2: 9}},
    )  # fmt: skip
    await put(rig, full)
    assert list((await everything(rig)).counts) == [full]


async def test_writing_a_minute_again_replaces_it(rig: Any) -> None:
    await put(rig, minute(NOW, counts={"success": 1}))
    await put(rig, minute(NOW, counts={"success": 5}), minute(NOW + 60, counts={"success": 2}))
    assert [successes(one) for one in (await everything(rig)).counts] == [5, 2]


async def test_each_session_has_minutes_of_its_own(rig: Any) -> None:
    await put(
        rig,
        minute(NOW, session=1, counts={"success": 1}),
        minute(NOW, session=2, counts={"success": 2}),
    )
    assert [(one.session, successes(one)) for one in (await everything(rig)).counts] == [
        (1, 1),
        (2, 2),
    ]


async def test_a_span_has_the_minutes_that_touch_it(rig: Any) -> None:
    await put(rig, *(minute(NOW + 60 * number) for number in range(5)))
    found = await rig.reader.history(from_s=NOW + 90.0, to_s=NOW + 180.0)
    assert [one.at - NOW for one in found.counts] == [60, 120, 180]


async def test_a_mark_comes_back_as_it_was_last_written(rig: Any) -> None:
    hold = mark(
        1, NOW + 0.5, MarkKind.HOLD, lasting=True, reason="network", sentence="no connection",
        actor="alice", via="page",
    )  # fmt: skip
    await put(rig, marks=(hold,))
    assert list((await everything(rig)).marks) == [hold]
    over = mark(1, NOW + 0.5, MarkKind.HOLD, until=NOW + 9.5, reason="network")
    await put(rig, marks=(over,))
    assert list((await everything(rig)).marks) == [over]


async def test_text_that_cannot_be_stored_is_shown_as_far_as_possible(rig: Any) -> None:
    await put(rig, minute(NOW), marks=(mark(1, NOW, sentence="a\udc80b\0"),))
    found = await everything(rig)
    assert len(found.counts) == 1
    assert [one.sentence for one in found.marks] == ["a?b?"]


async def test_a_span_has_its_marks_and_says_whether_it_began_paused(rig: Any) -> None:
    await put(
        rig,
        marks=(
            mark(1, NOW, MarkKind.START, until=NOW + 5), mark(2, NOW + 10, MarkKind.PAUSE),
            mark(3, NOW + 20), mark(4, NOW + 30, MarkKind.HOLD, until=NOW + 60), mark(5, NOW + 50),
            mark(6, NOW + 70),
        ),
    )  # fmt: skip
    found = await rig.reader.history(from_s=NOW + 40.0, to_s=NOW + 60.0)
    assert [one.number for one in found.marks] == [2, 4, 5]


async def test_minutes_of_several_sessions_are_merged_after_a_while(rig: Any) -> None:
    old = NOW - MERGED_AFTER_S - 600
    both = {
        "counts": {"success": 2},
        "observed_s": 40.0,
        "queued": 7,
        "durations": {"latency": {3: 1}},
    }
    await put(
        rig,
        *(minute(old + 60 * n, session=session, **both) for n in range(2) for session in (1, 2, 3)),
        minute(old + 120, session=2, counts={"success": 1}),
        *(minute(NOW, session=session) for session in (1, 2)),
    )
    found = (await everything(rig)).counts
    assert [(one.at - old, one.session, successes(one), one.observed_s) for one in found] == [
        (0, rig.session, 6, 60.0), (60, rig.session, 6, 60.0), (120, 2, 1, 60.0),
        (NOW - old, 1, 0, 60.0), (NOW - old, 2, 0, 60.0),
    ]  # fmt: skip
    assert (found[0].queued, found[0].durations) == (7, {"latency": {3: 3}})


async def test_old_minutes_are_folded_into_hours(rig: Any) -> None:
    old = NOW - MINUTES_KEPT_S - HOUR_S
    await put(
        rig,
        *(
            minute(
                old + 60 * number, session=session, counts={"success": 1}, queued=1_000 - number,
                durations={"latency": {number % 3: 1}},
            )
            for number in range(60)
            for session in (1, 2)
        ),
        minute(old + HOUR_S, counts={"success": 7}),
    )  # fmt: skip
    hour, kept = (await everything(rig)).counts
    assert (hour.at, hour.step_s, hour.session) == (old, HOUR_S, rig.session)
    assert (successes(hour), hour.observed_s, hour.queued) == (120, HOUR_S, 941)
    assert hour.durations == {"latency": {0: 40, 1: 40, 2: 40}}
    assert (kept.at, kept.step_s, successes(kept)) == (old + HOUR_S, MINUTE_S, 7)


async def test_folding_some_at_a_time_comes_to_the_same(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_table, "FOLDED_AT_ONCE", 7)
    old = NOW - MINUTES_KEPT_S - HOUR_S
    await put(
        rig,
        *(
            minute(old + 60 * n, counts={"success": n}, queued=n, durations={"lateness": {n: 1}})
            for n in range(60)
        ),
    )
    for _ in range(9):
        await put(rig)
    (hour,) = (await everything(rig)).counts
    assert (successes(hour), hour.observed_s, hour.queued) == (
        sum(range(60)),
        HOUR_S,
        59,
    )
    assert hour.durations == {"lateness": dict.fromkeys(range(60), 1)}


async def test_hours_and_marks_end_after_ninety_days(rig: Any) -> None:
    old = NOW - HOURS_KEPT_S - 2 * HOUR_S
    await put(
        rig,
        minute(old),
        minute(old + 3 * HOUR_S),
        marks=(
            mark(1, old),
            mark(2, old, MarkKind.START, until=NOW),
            mark(3, old + 3 * HOUR_S),
        ),
    )
    found = await everything(rig)
    assert [one.at for one in found.counts] == [old + 3 * HOUR_S]
    assert [one.number for one in found.marks] == [2, 3]


async def test_there_are_at_most_so_many_rows(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_table, "MINUTE_ROWS_MAX", 10)
    monkeypatch.setattr(history_table, "MARKS_MAX", 3)
    assert bounds.MINUTE_ROWS_MAX > 2 * MINUTES_KEPT_S // MINUTE_S
    await put(
        rig,
        *(minute(NOW - 6_000 + 60 * number, counts={"success": 1}) for number in range(90)),
        marks=tuple(mark(number, NOW + number) for number in range(8)),
    )
    found = await everything(rig)
    minutes = [one for one in found.counts if one.step_s == MINUTE_S]
    assert len(minutes) <= 11
    assert sum(successes(one) for one in found.counts) == 90
    assert [one.number for one in found.marks] == [4, 5, 6, 7]


async def test_it_survives_the_process(rig: Any) -> None:
    await put(rig, minute(NOW, counts={"success": 3}), marks=(mark(1, NOW, MarkKind.START),))
    await rig.crash()
    await put(
        rig, minute(NOW + 60, session=2), marks=(mark(1, NOW + 60, MarkKind.START, session=2),)
    )
    found = await everything(rig)
    assert [one.at - NOW for one in found.counts] == [0, 60]
    assert [(one.session, one.at - NOW) for one in found.marks] == [(1, 0), (2, 60)]
