"""Charts: the drawing and the text alternative match the data."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.console import charts, drawing
from crawler.console.drawing import WIDTH, Axis, Chart, LegendEntry, Shape
from crawler.console.timeline import Timeline, timeline
from crawler.daemon.monitoring.recent_contacts import RequiredDelay
from crawler.daemon.monitoring.series import Points
from crawler.daemon.responses import ContactRow

NOW_S = 10_000.0


def plot(times: list[float], values: list[float]) -> Chart:
    return charts.live(
        Axis(from_s=NOW_S - 600, to_s=NOW_S, live=True),
        Points(times=times, values=values, step_s=5.0),
        charts.Quantity("pages", "Pages per second", lambda value: f"{value:g}/s", 1.0),
    )


def test_a_line_ends_now_and_has_a_text_alternative() -> None:
    drawn = plot([NOW_S - 600, NOW_S - 300, NOW_S], [0.0, 4.0, 2.0])
    area, line = drawn.shapes
    assert line.path == "M0.0 100.0 L300.0 0.0 L600.0 50.0"
    assert area.path == f"{line.path} L600.0 100.0 L300.0 100.0 L0.0 100.0 Z"
    assert [(one.name, one.y) for one in drawn.frame] == [
        ("axis", 99.5),
        ("grid", 0.5),
        ("grid", 50),
    ]
    assert list(drawn.ends) == ["10 min ago", "now"]
    assert (drawn.top, drawn.middle, drawn.now) == ("4/s", "2/s", "2/s")
    assert drawn.summary == (
        "Pages per second, last 10 min: now 2/s, minimum 0/s, maximum 4/s, mean 2/s."
    )


def test_the_number_of_values_under_the_pointer_is_bounded() -> None:
    times = [NOW_S - 600 + 1.5 * step for step in range(401)]
    read = json.loads(plot(times, [float(step) for step in range(401)]).read)
    assert 100 <= len(read) <= drawing.READ_MAX
    assert read[0] == [2, "1/s", "02:36:41"]  # of each few the largest


def test_no_line_crosses_a_gap() -> None:
    drawn = plot([NOW_S - 60, NOW_S - 50, NOW_S - 40, NOW_S], [1.0, 1.0, math.nan, 1.0])
    assert drawn.shapes[1].path.count("M") == 2
    assert drawn.shapes[1].path.endswith("M598.0 0.0 L600.0 0.0")  # a dash for the single point


def test_an_empty_plot_says_so() -> None:
    drawn = plot([], [])
    assert (drawn.shapes, drawn.empty) == ([], "The first points appear after 10 seconds.")
    assert [one.name for one in drawn.frame] == ["axis"]
    assert "nothing recorded yet" in drawn.summary


@given(st.floats(min_value=0, max_value=1e15, allow_nan=False))
def test_the_scale_fits_its_largest_value(value: float) -> None:
    top = drawing.nice(value)
    assert top >= value * (1 - 1e-6)
    assert top <= 1 or top <= 2 * value


def test_parts_of_a_whole_fill_it() -> None:
    whole = drawing.whole("All", {"a": 1, "b": 0, "c": 3}, {"a": "A", "b": "B", "c": "C"})
    assert [one[:5] for one in whole.shapes] == [
        ("fill-a", 0, 0, 150, 8),
        ("fill-c", 150, 0, 450, 8),
    ]
    assert whole.keys == [LegendEntry("a", "A", 1), LegendEntry("c", "C", 3)]
    assert whole.summary == "All: A 1, C 3"
    assert drawing.whole("All", {}, {"a": "A"}).keys == []


# ---------------------------------------------------------------- a host's timeline


def row(start_s: float, took_s: float = 0.1, status: int | None = 200) -> ContactRow:
    return ContactRow(start_at=start_s, end_at=start_s + took_s, kind="page", status=status)


def floor(start_s: float, rest_s: float) -> RequiredDelay:
    return RequiredDelay(start_at=start_s, rest_s=rest_s, source="politeness.delay", late_s=0.0)


def line(rows: list[ContactRow], floors: list[RequiredDelay], **more: Any) -> Timeline:
    told = {"next_at": None, "breaches": 0, "delay_s": 1.0, "now_s": rows[-1].end_at + 0.5}
    found = timeline(rows, floors, **(told | more))
    assert found is not None
    return found


def named(chart: Chart | None, name: str) -> list[Shape]:
    assert chart is not None
    return [one for one in chart.shapes if one.name.split()[0] == name]


def test_each_required_delay_begins_at_the_end_of_its_contact() -> None:
    rows = [row(at * 1.2) for at in range(5)]
    drawn = line(rows, [floor(each.start_at, 1.0) for each in rows])
    bars, rests = named(drawn.strip, "bar"), named(drawn.strip, "rest")
    assert len(bars) == len(rests) == 5
    for bar, rest in zip(bars, rests, strict=True):
        assert rest.x == pytest.approx(bar.x + bar.width)
    for rest, after in zip(rests, bars[1:], strict=False):
        assert rest.x + rest.width <= after.x + 0.01
    assert [column.name for column in named(drawn.columns, "column")] == ["column"] * 4
    assert "None of the 4 that could be compared began too early" in drawn.summary


def test_an_early_contact_is_marked() -> None:
    rows = [row(0.0), row(0.6)]
    drawn = line(rows, [floor(0.0, 1.0), floor(0.6, 1.0)], breaches=1)
    assert "early" in named(drawn.columns, "column")[0].name
    assert "began too early" in drawn.summary


def test_a_delay_before_the_start_has_no_required_minimum() -> None:
    drawn = line([row(0.0), row(1.5), row(3.0)], [])
    assert not named(drawn.columns, "floor")
    assert len(named(drawn.columns, "column")) == 2
    assert "compared" not in drawn.summary


def test_lanes_are_drawn_below_each_other() -> None:
    rows = [row(0.0, 1.0), row(0.5, 1.0), row(2.1, 1.0), row(2.6, 1.0)]
    drawn = line(rows, [])
    assert (drawn.strip.name, drawn.strip.height) == ("lanes-2", 80)
    assert [shape.y for shape in named(drawn.strip, "bar")] == [4, 44, 4, 44]


def test_a_long_gap_does_not_flatten_later_delays() -> None:
    rows = [*(row(at * 1.2) for at in range(10)), *(row(9_000 + at * 1.2) for at in range(5))]
    drawn = line(rows, [])
    assert len(named(drawn.strip, "bar")) == 5
    assert named(drawn.columns, "column")[9].name == "column over"


def test_the_next_request_does_not_squeeze_the_past() -> None:
    rows = [row(at * 1.2) for at in range(5)]
    drawn = line(rows, [], next_at=9_000.0)
    assert named(drawn.strip, "rest")[-1].name == "rest pending"
    assert named(drawn.strip, "bar")[-1].x > 0.6 * WIDTH


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 100)), min_size=1, max_size=50),
    st.lists(st.floats(0, 1e5), max_size=50),
)
def test_all_shapes_stay_within_the_drawing(
    spans: list[tuple[float, float]], rests: list[float]
) -> None:
    rows = [row(start_s, took_s) for start_s, took_s in spans]
    floors = [floor(each.start_at, rest) for each, rest in zip(rows, rests, strict=False)]
    drawn = timeline(rows, floors, next_at=2e6, breaches=0, delay_s=1.0, now_s=1e6)
    assert drawn is not None
    for shape in drawn.strip.shapes:
        assert shape.x >= 0
        assert shape.width >= 0
        assert shape.x + shape.width <= WIDTH + 0.01
    for shape in drawn.columns.shapes if drawn.columns else ():
        assert 0 <= shape.y <= 100
        assert re.fullmatch(r"(column|floor)( over)?( early)?", shape.name)
