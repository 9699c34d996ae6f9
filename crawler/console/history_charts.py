"""The charts of the history, one above the other on a shared time axis, as geometry for SVG.

As in `charts`, the drawings are stretched to their container and hold shapes only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from crawler.console import filters
from crawler.console.charts import HEIGHT, READ_MAX, nice
from crawler.console.history_axis import Axis, moment
from crawler.daemon.api.history_view import HistoryPoint

_OBSERVED_MIN_S: Final = 15.0  # of a step that has just begun, a rate says nothing
NO_VALUE: Final = "–"
CLASSES: Final = (
    ("2xx", "success", "2xx"),
    ("3xx", "redirects", "3xx"),
    ("4xx", "client_errors", "4xx"),
    ("5xx", "server_errors", "5xx"),
    ("none", "unanswered", "no usable response"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One shape of a chart. `name`: its class. `label`: for the legend; "" if it has no entry."""

    name: str
    path: str
    label: str = ""
    total: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart. `top`, `middle`: the labels of its scale. `summary`: the text alternative. `read`:
    values under the pointer, as in `charts.Plot`."""

    name: str
    label: str
    now: str
    layers: Sequence[Layer]
    top: str
    middle: str
    summary: str
    empty: bool
    read: str


# ------------------------------------------------------------ charts


def responses(axis: Axis, points: Sequence[HistoryPoint]) -> Chart:
    """Responses per second by class, one above the other."""
    rows = [[_rate(point, getattr(point, key)) for _, key, _ in CLASSES] for point in points]
    totals = [sum(getattr(point, key) for point in points) for _, key, _ in CLASSES]
    parts = ", ".join(
        f"{total:,} {label}" for (_, _, label), total in zip(CLASSES, totals, strict=True) if total
    )
    return _stacked(
        axis,
        points,
        rows,
        name="responses",
        label="Responses per second",
        layers=[
            (f"fill-{name}", label, f"{total:,}")
            for (name, _, label), total in zip(CLASSES, totals, strict=True)
        ],
        text=lambda value: f"{filters.rate(value)}/s",
        total=f"{sum(totals):,} requests: {parts}" if parts else "no request",
        top_min=0.1,
    )


def failures(axis: Axis, points: Sequence[HistoryPoint]) -> Chart:
    """URLs that failed per minute."""
    rows = [
        [60 * _rate(point, point.failed - point.given_up), 60 * _rate(point, point.given_up)]
        for point in points
    ]
    failed = sum(point.failed for point in points)
    given_up = sum(point.given_up for point in points)
    return _stacked(
        axis,
        points,
        rows,
        name="failures",
        label="Failed URLs per minute",
        layers=[
            ("fill-failed", "failed on their own", f"{failed - given_up:,}"),
            ("fill-4xx", "given up with their origin", f"{given_up:,}"),
        ],
        text=lambda value: f"{filters.rate(value)}/min",
        total=f"{failed:,} URLs failed, {given_up:,} of them given up with their origin",
        top_min=1.0,
    )


def durations(
    axis: Axis, points: Sequence[HistoryPoint], *, name: str, label: str, note: str
) -> Chart:
    """The median and the 95th percentile of durations, `name`_p50_s and `name`_p95_s of a point."""
    lower = [getattr(point, f"{name}_p50_s") for point in points]
    upper = [getattr(point, f"{name}_p95_s") for point in points]
    known = [value for value in upper if value is not None]
    top = nice(max(0.01, *known)) if known else 0.01
    low, high = _runs(axis, points, lower, top), _runs(axis, points, upper, top)
    read = [
        (point, f"p50 {_seconds(one)}, p95 {_seconds(other)}")
        for point, one, other in zip(points, lower, upper, strict=True)
        if one is not None
    ]
    summary = f"{note} {axis.words}: nothing was measured."
    if known:
        most = max(zip(upper, points, strict=True), key=lambda pair: pair[0] or 0.0)
        medians = [value for value in lower if value is not None]
        summary = (
            f"{note} {axis.words}: the median of a step is {_seconds(min(medians))} to"
            f" {_seconds(max(medians))}; the 95th percentile is {_seconds(min(known))} to"
            f" {_seconds(max(known))}, highest at {moment(most[1].at)}."
        )
    return Chart(
        name=name,
        label=label,
        now=read[-1][1] if read else NO_VALUE,
        layers=[
            Layer(name="between", path=_between(low, high)),
            Layer(name="p95", path=_lines(high), label="95th percentile"),
            Layer(name="p50", path=_lines(low), label="median"),
        ],
        top=_seconds(top),
        middle=_seconds(top / 2),
        summary=summary,
        empty=not known,
        read=_read(axis, read),
    )


def queued(axis: Axis, points: Sequence[HistoryPoint]) -> Chart:
    """URLs in the queue."""
    values = [float(point.queued) for point in points]
    top = nice(max(10.0, *values)) if values else 10.0
    runs = _runs(axis, points, list(values), top)
    floor = [[(x, HEIGHT) for x, _ in run] for run in runs]
    summary = f"URLs in the queue, {axis.words}: no crawl ran."
    if points:
        counts = [point.queued for point in points]
        summary = (
            f"URLs in the queue, {axis.words}: {counts[0]:,} at first, {counts[-1]:,} at last,"
            f" minimum {min(counts):,}, maximum {max(counts):,}."
        )
    return Chart(
        name="queued",
        label="URLs queued",
        now=str(filters.short(values[-1])) if values else NO_VALUE,
        layers=[
            Layer(name="area", path=_between(floor, runs)),
            Layer(name="line", path=_lines(runs)),
        ],
        top=str(filters.short(top)),
        middle=str(filters.short(top / 2)),
        summary=summary,
        empty=not points,
        read=_read(axis, [(point, f"{point.queued:,}") for point in points]),
    )


def _stacked(
    axis: Axis,
    points: Sequence[HistoryPoint],
    rows: Sequence[Sequence[float]],
    *,
    name: str,
    label: str,
    layers: Sequence[tuple[str, str, str]],
    text: Callable[[float], str],
    total: str,
    top_min: float,
) -> Chart:
    """Columns of several parts. rows: the parts of each point, from the bottom."""
    sums = [sum(row) for row in rows]
    top = nice(max(top_min, *sums)) if sums else top_min
    summary = f"{label}, {axis.words}: {total}."
    if sums and max(sums) > 0:
        peak = max(range(len(sums)), key=sums.__getitem__)
        summary += f" The maximum is {text(sums[peak])}, at {moment(points[peak].at)}."
    return Chart(
        name=name,
        label=label,
        now=text(sums[-1]) if sums else NO_VALUE,
        layers=[
            Layer(
                name=part,
                path=_columns(axis, points, rows, number, top),
                label=words,
                total=count,
            )
            for number, (part, words, count) in enumerate(layers)
        ],
        top=text(top),
        middle=text(top / 2),
        summary=summary,
        empty=not points,
        read=_read(axis, list(zip(points, map(text, sums), strict=True))),
    )


def _rate(point: HistoryPoint, count: int) -> float:
    """Per second of the time in which a crawl ran."""
    return count / max(_OBSERVED_MIN_S, min(float(point.step_s), point.observed_s))


# ------------------------------------------------------------ geometry


def _columns(
    axis: Axis,
    points: Sequence[HistoryPoint],
    rows: Sequence[Sequence[float]],
    number: int,
    top: float,
) -> str:
    """One part of all columns. Neighbours share an outline, so that no seam shows."""
    paths: list[str] = []
    outline: list[tuple[float, float, float, float]] = []  # left, right, upper and lower edge
    end_s = -math.inf
    for point, row in zip(points, rows, strict=True):
        if outline and (point.at > end_s or not row[number]):
            paths.append(_outlined(outline))
            outline = []
        end_s = point.at + point.step_s
        if row[number]:
            base = sum(row[:number])
            high, low = (HEIGHT * (1 - value / top) for value in (base + row[number], base))
            outline.append((axis.x(point.at), axis.x(end_s), high, low))
    if outline:
        paths.append(_outlined(outline))
    return " ".join(paths)


def _outlined(columns: Sequence[tuple[float, float, float, float]]) -> str:
    """Along the upper edges to the right, and along the lower ones back."""
    there = "".join(f"V{high:.1f}H{right:.1f}" for _, right, high, _ in columns)
    back = "".join(f"V{low:.1f}H{left:.1f}" for left, _, _, low in reversed(columns))
    return f"M{columns[0][0]:.1f} {columns[0][3]:.1f}{there}{back}Z"


def _runs(
    axis: Axis, points: Sequence[HistoryPoint], values: Sequence[float | None], top: float
) -> list[list[tuple[float, float]]]:
    """Lines through the middle of each step, interrupted where there is no value. A step that
    stands alone is a line of its length."""
    runs: list[list[tuple[float, float]]] = []
    ends: list[tuple[float, float]] = []
    end_s = -math.inf
    for point, value in zip(points, values, strict=True):
        if value is None:
            end_s = -math.inf
            continue
        if point.at > end_s:
            runs.append([])
            ends.append((axis.x(point.at), axis.x(point.at + point.step_s)))
        end_s = point.at + point.step_s
        y = HEIGHT * (1 - value / top)
        runs[-1].append((axis.x(point.at + point.step_s / 2), y))
    return [
        run if len(run) > 1 else [(left, run[0][1]), (right, run[0][1])]
        for run, (left, right) in zip(runs, ends, strict=True)
    ]


def _lines(runs: Sequence[Sequence[tuple[float, float]]]) -> str:
    return " ".join("M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in run) for run in runs)


def _between(
    lower: Sequence[Sequence[tuple[float, float]]], upper: Sequence[Sequence[tuple[float, float]]]
) -> str:
    """The areas between lines."""
    return " ".join(
        f"{_lines([[*high, *reversed(low)]])} Z" for low, high in zip(lower, upper, strict=True)
    )


def _read(axis: Axis, values: Sequence[tuple[HistoryPoint, str]]) -> str:
    """What the page shows under the pointer."""
    few = values[:: max(1, math.ceil(len(values) / READ_MAX))]
    shown = [
        [round(axis.x(point.at + point.step_s / 2)), text, moment(point.at)] for point, text in few
    ]
    return json.dumps(shown, separators=(",", ":"))


def _seconds(value: float | None) -> str:
    return "under 1 ms" if value is not None and value <= 0 else str(filters.duration(value))
