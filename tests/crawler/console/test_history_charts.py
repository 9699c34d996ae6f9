"""The charts of the history: geometry, gaps, marks and text alternatives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.console import charts
from crawler.console.drawing import Axis, Chart
from crawler.console.history_axis import bands, gaps, glyphs, ticks
from crawler.daemon.api.history_view import HistoryMark, HistoryPoint
from storage.history import MarkKind

NOW = 1_800_000_000  # 15 January 2027, 08:00 UTC
HOUR = Axis(from_s=NOW, to_s=NOW + 3_600)


def point(at: int, step_s: int = 60, **values: Any) -> HistoryPoint:
    names = (*HistoryPoint.__struct_fields__[3:],)
    given = {name: None if name.endswith("_s") else 0 for name in names}
    return HistoryPoint(
        at=NOW + at, step_s=step_s, **{**given, "observed_s": float(step_s), **values}
    )


def mark(kind: MarkKind, at: float, ended_at: float | None = None, **values: Any) -> HistoryMark:
    ended_at = None if ended_at is None else NOW + ended_at
    plain = {"clean": True, "reason": "", "sentence": "", "by": "", "via": "", "session": 1}
    return HistoryMark(kind=kind, at=NOW + at, ended_at=ended_at, **{**plain, **values})


# ------------------------------------------------------------ the axis


def test_labels_are_at_round_times_and_not_at_the_edges() -> None:
    assert [(tick.at, tick.label) for tick in ticks(HOUR)] == [
        (pytest.approx(100 * n / 6, abs=0.01), f"08:{10 * n}") for n in range(1, 6)
    ]


def test_a_longer_axis_has_coarser_labels() -> None:
    for span_s, first, count in [
        (21_600, "09:00", 5),
        (86_400, "09:00", 8),
        (7 * 86_400, "16 Jan", 7),
    ]:
        found = ticks(Axis(from_s=NOW, to_s=NOW + span_s))
        assert (found[0].label, len(found)) == (first, count)


@given(st.integers(600, 200 * 86_400), st.integers(0, 10**6))
def test_there_are_never_too_many_labels(span_s: int, shift_s: int) -> None:
    found = ticks(Axis(from_s=NOW + shift_s, to_s=NOW + shift_s + span_s))
    assert len(found) <= 16
    assert all(0 < tick.at < 100 for tick in found)


def test_times_that_no_point_covers_are_gaps() -> None:
    found = gaps(HOUR, [point(-30), point(30), point(90), point(600)])
    assert [(a - NOW, b - NOW) for a, b in found] == [(150, 600), (660, 3_600)]
    assert gaps(HOUR, []) == [(HOUR.from_s, HOUR.to_s)]


# ------------------------------------------------------------ marks


def shown(*marks: HistoryMark) -> list[tuple[str, float, float]]:
    whole = [point(0, 3_600)]
    return [(one.kind, one.shape.x, one.shape.width) for one in bands(HOUR, whole, marks)]


def test_pauses_and_holds_are_bands_and_the_rest_are_lines() -> None:
    assert shown(
        mark(MarkKind.START, 0),
        mark(MarkKind.HOLD, -60, 360),
        mark(MarkKind.PAUSE, 3_000),
        mark(MarkKind.TROUBLE, 60, 120, reason="network"),
        mark(MarkKind.RELOAD, 1_800),
    ) == [
        ("start", 0, 0),
        ("hold", 0, 60),
        ("pause", 500, 100),
        ("trouble", 10, 10),
        ("reload", 300, 0),
    ]


def test_a_short_hold_can_be_seen_at_the_edge() -> None:
    ((_, x, width),) = shown(mark(MarkKind.HOLD, 3_599.9, 3_600))
    assert width > 1
    assert x + width <= 600


def test_marks_at_the_same_place_are_one() -> None:
    marks = [mark(MarkKind.RELOAD, 1_800 + n / 1_000, sentence=f"{n}") for n in range(50)]
    (one,) = bands(HOUR, [point(0, 3_600)], marks)
    assert one.shape.title.count("config reloaded") > 5
    assert len(one.shape.title) < 700


def test_signs_that_are_close_together_are_in_rows() -> None:
    marks = [
        mark(MarkKind.START, 1_000),
        mark(MarkKind.RELOAD, 1_020),
        mark(MarkKind.STOP, 1_040),
        mark(MarkKind.PAUSE, 1_060, 1_500),
        mark(MarkKind.RESUME, 1_500),
    ]
    found = glyphs(bands(HOUR, [point(0, 900)], marks))
    assert [(one.kind, row) for one, row in found] == [
        ("start", 0),
        ("reload", 1),
        ("stop", 2),
        ("resume", 0),
    ]  # the fourth at one place has no room, and the time without a crawl no sign


def test_marks_say_what_happened() -> None:
    marks = [
        mark(MarkKind.START, 0, reason="paused"),
        mark(MarkKind.STOP, 100, reason="error"),
        mark(MarkKind.PAUSE, 200, 300, by="alice"),
        mark(MarkKind.RESUME, 300, by="bob"),
        mark(MarkKind.HOLD, 400, 500, sentence="no host can be reached"),
    ]
    titles = [one.shape.title for one in bands(HOUR, [point(0, 3_600)], marks)]
    assert titles == [
        "01-15 08:00 UTC: started, paused",
        "01-15 08:01 UTC: stopped after an error",
        "01-15 08:03 UTC: paused by alice",
        "01-15 08:05 UTC: resumed by bob",
        "01-15 08:06 UTC: on hold: no host can be reached",
    ]


# ------------------------------------------------------------ charts


def test_responses_are_stacked_by_class() -> None:
    found = charts.responses(HOUR, [point(0, 360, success=900, unanswered=900)])
    ok, _, _, _, lost = found.shapes
    assert found.top == "5.0/s"
    assert ok.path == "M0.0 100.0V50.0H60.0V100.0H0.0Z"
    assert lost.path == "M0.0 50.0V0.0H60.0V50.0H0.0Z"
    assert [key.total for key in found.keys] == [900, 0, 0, 0, 900]
    assert "1,800 requests: 900 2xx, 900 no usable response" in found.summary
    assert "The maximum is 5.0/s, at 01-15 08:00." in found.summary
    assert json.loads(found.read) == [[30, "5.0/s", "01-15 08:00"]]


def test_neighbours_share_an_outline_and_a_gap_does_not() -> None:
    found = charts.responses(HOUR, [point(at, success=60) for at in (0, 60, 600)])
    assert found.shapes[0].path.count("M") == 2


def test_a_rate_is_of_the_time_in_which_a_crawl_ran() -> None:
    found = charts.responses(HOUR, [point(0, success=300, observed_s=30.0)])
    assert found.now == "10/s"
    found = charts.responses(HOUR, [point(0, success=30, observed_s=1.0)])
    assert found.now == "2.0/s"  # and not 30/s


def test_failures_tell_what_was_given_up() -> None:
    found = charts.failures(HOUR, [point(0, failed=30, given_up=20)])
    assert [key.total for key in found.keys] == [10, 20]
    assert found.now == "30/min"
    assert "30 URLs failed, 20 of them given up with their origin" in found.summary


def latency(*points: HistoryPoint) -> Chart:
    return charts.durations(HOUR, points, name="latency", label="Latency", note="Latency,")


def test_percentiles_are_lines_with_gaps() -> None:
    both: dict[str, Any] = {"latency_p50_s": 0.05, "latency_p95_s": 0.1}
    found = latency(point(0, **both), point(60, **both), point(120), point(180, **both))
    between, upper, lower = found.shapes
    assert upper.path == "M5.0 0.0 L15.0 0.0 M30.0 0.0 L40.0 0.0"
    assert lower.path == "M5.0 50.0 L15.0 50.0 M30.0 50.0 L40.0 50.0"
    assert between.path.count("Z") == 2
    assert found.now == "p50 50 ms, p95 100 ms"
    assert "the 95th percentile is 100 ms to 100 ms, highest at 01-15 08:00" in found.summary


def test_the_queue_is_a_line() -> None:
    found = charts.queued(HOUR, [point(0, queued=100), point(60, queued=50)])
    assert found.shapes[1].path == "M5.0 0.0 L15.0 50.0"
    assert "100 at first, 50 at last" in found.summary


def test_without_points_every_chart_is_empty_and_says_so() -> None:
    for drawn in [
        charts.responses,
        charts.failures,
        charts.queued,
        lambda _, points: latency(*points),
    ]:
        found = drawn(HOUR, [])
        assert found.empty, drawn
        assert found.now == "–", drawn
        assert found.summary.endswith("."), drawn
        assert not any(layer.path for layer in found.shapes), drawn


counts = st.integers(0, 10**9)
steps = st.builds(
    lambda number, observed_s, values: point(
        number * 60, observed_s=observed_s, **dict(zip(("success", "failed"), values, strict=True))
    ),
    st.integers(-1, 60),
    st.floats(0.0, 60.0),
    st.tuples(counts, counts),
)


@given(st.lists(steps, max_size=20, unique_by=lambda one: one.at))
def test_shapes_stay_within_the_chart(found: list[HistoryPoint]) -> None:
    points = sorted(found, key=lambda one: one.at)
    for chart in (charts.responses(HOUR, points), charts.failures(HOUR, points)):
        for layer in chart.shapes:
            text = layer.path
            for letter in "MVHZL":
                text = text.replace(letter, " ")
            assert all(0 <= float(number) <= 600 for number in text.split())
