"""The charts over time: those of the overview, which end now, and those of the history, one above
the other on a shared axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from crawler.console import filters
from crawler.console.drawing import (
    NO_VALUE,
    Axis,
    Chart,
    Column,
    LegendEntry,
    Step,
    Text,
    area,
    columns,
    lines,
    moment,
    runs,
    scale_to,
)
from crawler.daemon.api.history_view import HistoryPoint
from crawler.daemon.monitoring.series import Points

_POINTS_MAX: Final = 360  # of a line; a longer series is reduced to its peaks
_OBSERVED_MIN_S: Final = 15.0  # of a step that has just begun, a rate says nothing
NO_CRAWL: Final = "No crawl ran."
CLASSES: Final = (
    ("2xx", "success", "2xx"),
    ("3xx", "redirects", "3xx"),
    ("4xx", "client_errors", "4xx"),
    ("5xx", "server_errors", "5xx"),
    ("none", "unanswered", "no usable response"),
)


class Quantity(NamedTuple):
    """What a chart shows: its name and label, how a value is written with its unit, and the least
    that its scale ends at."""

    name: str
    label: str
    text: Text
    least: float


QUEUED: Final = Quantity("queued", "URLs queued", lambda value: str(filters.short(value)), 10.0)
RESPONSES: Final = Quantity(
    "responses", "Responses per second", lambda value: f"{filters.rate(value)}/s", 0.1
)
FAILURES: Final = Quantity(
    "failures", "Failed URLs per minute", lambda value: f"{filters.rate(value)}/min", 1.0
)


def live(axis: Axis, points: Points, shown: Quantity) -> Chart:
    """A line that ends now."""
    steps = _thinned(
        [
            Step(at_s, at_s, None if math.isnan(value) else value)
            for at_s, value in zip(points.times, points.values, strict=True)
        ]
    )
    known, text = [step.value for step in steps if step.value is not None], shown.text
    summary = "nothing recorded yet."
    if known:
        summary = (
            f"now {text(known[-1])}, minimum {text(min(known))}, maximum {text(max(known))}, "
            f"mean {text(sum(known) / len(known))}."
        )
    empty = "" if len(known) > 1 else "The first points appear after 10 seconds."
    return _line(axis, steps, shown, f"{shown.label}, {axis.words}: {summary}", empty)


def queued(axis: Axis, points: Sequence[HistoryPoint]) -> Chart:
    """URLs in the queue."""
    counts = [point.queued for point in points]
    summary = "no crawl ran."
    if counts:
        summary = (
            f"{counts[0]:,} at first, {counts[-1]:,} at last,"
            f" minimum {min(counts):,}, maximum {max(counts):,}."
        )
    summary, empty = f"URLs in the queue, {axis.words}: {summary}", "" if counts else NO_CRAWL
    return _line(axis, _steps(points, counts), QUEUED, summary, empty)


def responses(axis: Axis, points: Sequence[HistoryPoint]) -> Chart:
    """Responses per second by class, one above the other."""
    rows = [[_rate(point, getattr(point, key)) for _, key, _ in CLASSES] for point in points]
    keys = [
        LegendEntry(name, label, sum(getattr(point, key) for point in points))
        for name, key, label in CLASSES
    ]
    parts = ", ".join(f"{key.total:,} {key.label}" for key in keys if key.total)
    total = f"{sum(key.total or 0 for key in keys):,} requests: {parts}" if parts else "no request"
    return _stacked(axis, points, rows, RESPONSES, keys, total)


def failures(axis: Axis, points: Sequence[HistoryPoint]) -> Chart:
    """URLs that failed per minute."""
    rows = [
        [60 * _rate(point, point.failed - point.given_up), 60 * _rate(point, point.given_up)]
        for point in points
    ]
    failed = sum(point.failed for point in points)
    given_up = sum(point.given_up for point in points)
    keys = [
        LegendEntry("failed", "failed on their own", failed - given_up),
        LegendEntry("4xx", "given up with their origin", given_up),
    ]
    total = f"{failed:,} URLs failed, {given_up:,} of them given up with their origin"
    return _stacked(axis, points, rows, FAILURES, keys, total)


def durations(
    axis: Axis, points: Sequence[HistoryPoint], *, name: str, label: str, note: str
) -> Chart:
    """The median and the 95th percentile of durations, `name`_p50_s and `name`_p95_s of a point."""
    medians = _steps(points, [getattr(point, f"{name}_p50_s") for point in points])
    upper = _steps(points, [getattr(point, f"{name}_p95_s") for point in points])
    read = [
        (one, f"p50 {_seconds(one.value)}, p95 {_seconds(other.value)}")
        for one, other in zip(medians, upper, strict=True)
        if one.value is not None
    ]
    low, high = ([one.value for one in some if one.value is not None] for some in (medians, upper))
    summary = "nothing was measured."
    if high:
        most = max(upper, key=lambda step: step.value or 0.0)
        summary = (
            f"the median of a step is {_seconds(min(low))} to {_seconds(max(low))}; the 95th"
            f" percentile is {_seconds(min(high))} to {_seconds(max(high))}, highest at"
            f" {moment(most.from_s)}."
        )
    top = scale_to(high, 0.01)
    under, over = runs(axis, medians, top), runs(axis, upper, top)
    return Chart(
        name=name,
        label=label,
        now=read[-1][1] if read else NO_VALUE,
        shapes=[area("between", over, under), lines("p95", over), lines("p50", under)],
        keys=[LegendEntry("p95", "95th percentile"), LegendEntry("p50", "median")],
        top=_seconds(top),
        middle=_seconds(top / 2),
        summary=f"{note} {axis.words}: {summary}",
        empty="" if high else "Nothing was measured." if points else NO_CRAWL,
        read=axis.read(read),
    )


# ------------------------------------------------------------ the two kinds of charts


def _line(axis: Axis, steps: Sequence[Step], shown: Quantity, summary: str, empty: str) -> Chart:
    """A line, and the area below it."""
    top = scale_to((step.value for step in steps if step.value is not None), shown.least)
    made = runs(axis, steps, top)
    marks = [] if empty else [area("area", made), lines("line", made)]
    ends = (f"{axis.length} ago", "now") if axis.live else ()
    return _chart(axis, steps, shown, top, shapes=marks, ends=ends, summary=summary, empty=empty)


def _stacked(
    axis: Axis,
    points: Sequence[HistoryPoint],
    rows: Sequence[Sequence[float]],
    shown: Quantity,
    keys: Sequence[LegendEntry],
    total: str,
) -> Chart:
    """Columns of a part for each key. rows: the parts of each point, from the bottom."""
    sums = _steps(points, [sum(row) for row in rows])
    top = scale_to(map(sum, rows), shown.least)
    summary = f"{shown.label}, {axis.words}: {total}."
    if any(map(sum, rows)):
        peak = max(sums, key=lambda step: step.value or 0.0)
        summary += f" The maximum is {shown.text(peak.value or 0.0)}, at {moment(peak.from_s)}."
    parts = [
        [
            Column(point.at, point.at + point.step_s, sum(row[:at]), sum(row[: at + 1]))
            for point, row in zip(points, rows, strict=True)
        ]
        for at in range(len(keys))
    ]
    marks = [
        columns(f"fill-{key.name}", axis, part, top) for key, part in zip(keys, parts, strict=True)
    ]
    empty = "" if points else NO_CRAWL
    return _chart(axis, sums, shown, top, shapes=marks, keys=keys, summary=summary, empty=empty)


def _chart(axis: Axis, steps: Sequence[Step], shown: Quantity, top: float, **more: Any) -> Chart:
    """A chart whose value under the pointer is that of a step."""
    read = [(step, shown.text(step.value)) for step in steps if step.value is not None]
    return Chart(
        name=shown.name,
        label=shown.label,
        now=read[-1][1] if read else NO_VALUE,
        top=shown.text(top),
        middle=shown.text(top / 2),
        read=axis.read(read),
        **more,
    )


def _steps(points: Sequence[HistoryPoint], values: Sequence[float | None]) -> list[Step]:
    """The values of points, with a step without one in each gap."""
    found: list[Step] = []
    for point, value in zip(points, values, strict=True):
        if found and point.at > found[-1].to_s:
            found.append(Step(found[-1].to_s, point.at, None))
        found.append(Step(point.at, point.at + point.step_s, value))
    return found


def _thinned(steps: Sequence[Step]) -> list[Step]:
    """At most _POINTS_MAX steps: of each group the largest, since peaks matter, or a gap."""
    each = max(1, math.ceil(len(steps) / _POINTS_MAX))
    return [
        max(steps[at : at + each], key=lambda one: math.inf if one.value is None else one.value)
        for at in range(0, len(steps), each)
    ]


def _rate(point: HistoryPoint, count: int) -> float:
    """Per second of the time in which a crawl ran."""
    return count / max(_OBSERVED_MIN_S, min(float(point.step_s), point.observed_s))


def _seconds(value: float | None) -> str:
    return "under 1 ms" if value is not None and value <= 0 else str(filters.duration(value))
