"""Charts as geometry for the SVG in the templates, with a text alternative.

The drawing is stretched to its container, so it holds shapes only; labels are HTML beside it and
stay legible at any width. Inline styles are not used: the content security policy forbids them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from crawler.console.filters import iso
from crawler.daemon.monitoring.series import Points

WIDTH: Final = 600.0
HEIGHT: Final = 100.0
_VALUE_MIN: Final = 1e-9  # smaller values count as zero: a scale could not be divided by them
_POINTS_MAX: Final = 360  # of a line; a longer series is reduced to its peaks
READ_MAX: Final = 120  # points whose value is shown under the pointer

Formatter = Callable[[object], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One line over time. `top` and `middle` label the grid; `summary` is the text alternative."""

    name: str
    label: str
    now: str
    line: str  # path data
    area: str
    top: str
    middle: str
    start: str
    summary: str
    empty: bool
    read: str  # values under the pointer, as JSON: [[x, "16/s", "12:43:05"], …]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a whole: where it begins and how wide it is, in percent."""

    name: str
    label: str
    count: int
    at: float
    width: float


def line(
    points: Points,
    *,
    name: str,
    label: str,
    text: Formatter,
    now_s: float,
    span_s: float,
    top_min: float = 1.0,
) -> Plot:
    """A plot of `points` over the last `span_s` seconds. `text` formats a value with its unit; the
    scale ends at `top_min` or above."""
    pairs = _thinned(list(zip(points.times, points.values, strict=True)))
    known = [value for _, value in pairs if not math.isnan(value)]
    top = nice(max(top_min, *known)) if known else top_min
    runs: list[list[tuple[float, float]]] = [[]]
    for at_s, value in pairs:
        if math.isnan(value):
            runs.append([])
            continue
        x = WIDTH * (1 - (now_s - at_s) / span_s)
        runs[-1].append((max(0.0, min(WIDTH, x)), HEIGHT * (1 - value / top)))
    runs = [run for run in runs if run]
    drawn = " ".join(_path(run) for run in runs)
    filled = " ".join(
        f"{_path(run)} L{run[-1][0]:.1f} {HEIGHT:.0f} L{run[0][0]:.1f} {HEIGHT:.0f} Z"
        for run in runs
    )
    now = text(known[-1]) if known else "–"
    span = _span(span_s)
    summary = f"{label}, {span}: nothing recorded yet."
    if known:
        mean = sum(known) / len(known)
        summary = (
            f"{label}, {span}: now {now}, minimum {text(min(known))}, "
            f"maximum {text(max(known))}, mean {text(mean)}."
        )
    return Plot(
        name=name,
        label=label,
        now=now,
        line=drawn,
        area=filled,
        top=text(top),
        middle=text(top / 2),
        start=f"{_minutes(span_s)} ago",
        summary=summary,
        empty=len(known) < 2,
        read=json.dumps(
            [
                [round(x), text(value), iso(at_s)[11:19]]
                for at_s, value, x in _few(pairs, now_s, span_s)
            ],
            separators=(",", ":"),
        ),
    )


def nice(value: float) -> float:
    """The smallest round number, with a round half, that is not below `value`; 1 for zero."""
    if not _VALUE_MIN < value < math.inf:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    for step in (1.0, 1.6, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0):
        if value <= step * power * (1 + 1e-9):
            return step * power
    return 10 * power


def parts(counts: Mapping[str, int], labels: Mapping[str, str]) -> list[Part]:
    """The parts of a whole in the order of `labels`, without empty ones."""
    total = sum(counts.get(name, 0) for name in labels)
    found: list[Part] = []
    at = 0.0
    for name, label in labels.items():
        if not (number := counts.get(name, 0)):
            continue
        width = 100 * number / total
        found.append(Part(name=name, label=label, count=number, at=at, width=width))
        at += width
    return found


def _few(
    pairs: Sequence[tuple[float, float]], now_s: float, span_s: float
) -> list[tuple[float, float, float]]:
    """Time, value and position of at most READ_MAX points."""
    known = [
        (at_s, value, WIDTH * (1 - (now_s - at_s) / span_s))
        for at_s, value in pairs
        if not math.isnan(value)
    ]
    return known[:: max(1, math.ceil(len(known) / READ_MAX))]


def _path(run: Sequence[tuple[float, float]]) -> str:
    if len(run) == 1:  # a single point is drawn as a dash, to be visible
        (x, y) = run[0]
        return f"M{max(0.0, x - 2):.1f} {y:.1f} L{x:.1f} {y:.1f}"
    return "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in run)


def _thinned(pairs: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most _POINTS_MAX points: the largest of each group, since peaks matter."""
    each = math.ceil(len(pairs) / _POINTS_MAX)
    if each <= 1:
        return pairs
    kept = []
    for start in range(0, len(pairs), each):
        few = pairs[start : start + each]
        gap = next((pair for pair in few if math.isnan(pair[1])), None)
        kept.append(gap or max(few, key=lambda pair: pair[1]))
    return kept


def _span(span_s: float) -> str:
    return f"last {_minutes(span_s)}"


def _minutes(span_s: float) -> str:
    minutes = round(span_s / 60)
    return f"{minutes} min" if minutes < 60 else f"{round(minutes / 60)} h"
