"""The drawing layer of the pages: scales, axes, marks, and what stands in for a chart as text.

A drawing is stretched to its container, so it has shapes only; labels are HTML beside it and stay
legible at any width. The macros `drawing` and `plot` write it. Inline styles are not used: the
content security policy forbids them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from crawler.console.filters import iso

WIDTH: Final = 600.0
HEIGHT: Final = 100.0
WHOLE_HEIGHT: Final = 8.0
READ_MAX: Final = 120  # points whose value is shown under the pointer
NO_VALUE: Final = "–"
_DASH: Final = 2.0  # width of a line through a single point, to be visible
_VALUE_MIN: Final = 1e-9  # smaller values count as zero: a scale could not be divided by them
_DAYS_S: Final = 2 * 86_400.0  # labels of a longer axis are days

Text = Callable[[float], str]
Run = Sequence[tuple[float, float]]  # a line without gaps


class Shape(NamedTuple):
    """A mark: a rectangle, which is a line without a width or a height, or a path (SVG path data).
    name: its CSS class. title: its tooltip."""

    name: str
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0
    title: str = ""
    path: str = ""


class LegendEntry(NamedTuple):
    """An entry of a legend. name: of its color. total: None if it has none."""

    name: str
    label: str
    total: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart. name: its CSS class. summary: the text alternative.

    label, now: its caption. top, middle: the labels of its scale; "": it has none. ends: labels
    below its left and its right end. empty: a sentence in place of the scale if there is nothing to
    draw. read: values under the pointer, as JSON: [[x, "16/s", "12:43:05"], …].
    """

    name: str
    summary: str
    shapes: Sequence[Shape]
    label: str = ""
    now: str = ""
    width: float = WIDTH
    height: float = HEIGHT
    top: str = ""
    middle: str = ""
    ends: Sequence[str] = ()
    keys: Sequence[LegendEntry] = ()
    empty: str = ""
    read: str = ""

    @property
    def frame(self) -> Sequence[Shape]:
        """The grid and the axis of a chart with a scale."""
        ys = [self.height - 0.5] if self.top else []
        if self.top and not self.empty:
            ys += [0.5, self.height / 2]
        return [Shape("grid" if at else "axis", 0.0, y, self.width) for at, y in enumerate(ys)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A span of time, in Unix seconds. live: it ends now, and is described by its length."""

    from_s: float
    to_s: float
    live: bool = False

    def x(self, at_s: float) -> float:
        """The position of a time in a chart, within it."""
        share = (at_s - self.from_s) / (self.to_s - self.from_s)
        return WIDTH * max(0.0, min(1.0, share))

    def percent(self, at_s: float) -> float:
        return round(100 * self.x(at_s) / WIDTH, 2)

    @property
    def length(self) -> str:
        minutes = round((self.to_s - self.from_s) / 60)
        return f"{minutes} min" if minutes < 60 else f"{round(minutes / 60)} h"

    @property
    def words(self) -> str:
        if self.live:
            return f"last {self.length}"
        return f"{moment(self.from_s)} to {moment(self.to_s)} UTC"

    @property
    def days(self) -> bool:
        """Whether labels need the day, and not the time of day."""
        return self.to_s - self.from_s > _DAYS_S

    def read(self, values: Sequence[tuple[Step, str]]) -> str:
        """`Chart.read` of at most READ_MAX steps, each with its value in words."""
        few = values[:: max(1, math.ceil(len(values) / READ_MAX))]
        shown = [
            [
                round(self.x(step.middle_s)),
                text,
                iso(step.from_s)[11:19] if self.live else moment(step.from_s),
            ]
            for step, text in few
        ]
        return json.dumps(shown, separators=(",", ":"))


class Step(NamedTuple):
    """A value of a span of time, or at one moment; None where there is no value."""

    from_s: float
    to_s: float
    value: float | None

    @property
    def middle_s(self) -> float:
        return (self.from_s + self.to_s) / 2


class Column(NamedTuple):
    """A part of a column of a chart: from `low` to `high` on its scale."""

    from_s: float
    to_s: float
    low: float
    high: float


def moment(at_s: float) -> str:
    """A time with its day, in UTC: "11-23 14:20"."""
    return iso(at_s)[5:16].replace("T", " ")


# ------------------------------------------------------------ scales


def nice(value: float) -> float:
    """The smallest round number, with a round half, that is not below `value`; 1 for zero."""
    if not _VALUE_MIN < value < math.inf:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    for step in (1.0, 1.6, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0):
        if value <= step * power * (1 + 1e-9):
            return step * power
    return 10 * power


def scale_to(values: Iterable[float], least: float) -> float:
    """The top of a scale for these values, at `least` or above."""
    return nice(max(least, *values, least))


def height_of(value: float, top: float) -> float:
    """The position of a value in a chart whose scale ends at `top`."""
    return HEIGHT * (1 - value / top)


# ------------------------------------------------------------ marks


def runs(axis: Axis, steps: Iterable[Step], top: float) -> list[Run]:
    """Lines through the middle of each step, interrupted by those without a value. A step that
    stands alone is a dash of its length."""
    found: list[list[Step]] = [[]]
    for step in steps:
        if step.value is None:
            found.append([])
        else:
            found[-1].append(step)
    return [_run(axis, some, top) for some in found if some]


def _run(axis: Axis, steps: Sequence[Step], top: float) -> Run:
    made = [(axis.x(step.middle_s), height_of(step.value or 0.0, top)) for step in steps]
    if len(made) > 1:
        return made
    y, left, right = made[0][1], axis.x(steps[0].from_s), axis.x(steps[0].to_s)
    left = max(0.0, min(left, right - _DASH))
    return [(left, y), (max(right, left + _DASH), y)]


def lines(name: str, some: Iterable[Run]) -> Shape:
    paths = ("M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in run) for run in some)
    return Shape(name, path=" ".join(paths))


def area(name: str, upper: Sequence[Run], lower: Sequence[Run] = ()) -> Shape:
    """The areas below lines, or between them and others."""
    floors = lower or [[(x, HEIGHT) for x, _ in run] for run in upper]
    closed = (
        f"{lines(name, [[*high, *reversed(low)]]).path} Z"
        for high, low in zip(upper, floors, strict=True)
    )
    return Shape(name, path=" ".join(closed))


def columns(name: str, axis: Axis, some: Iterable[Column], top: float) -> Shape:
    """Columns, without those of no height. Neighbours share an outline, so that no seam shows."""
    outlines: list[list[Column]] = []
    for one in some:
        if one.low == one.high:
            continue
        if outlines and outlines[-1][-1].to_s >= one.from_s:
            outlines[-1].append(one)
        else:
            outlines.append([one])
    return Shape(name, path=" ".join(_outlined(axis, outline, top) for outline in outlines))


def _outlined(axis: Axis, some: Sequence[Column], top: float) -> str:
    """Along the upper edges to the right, and along the lower ones back."""
    there = "".join(f"V{height_of(one.high, top):.1f}H{axis.x(one.to_s):.1f}" for one in some)
    back = "".join(
        f"V{height_of(one.low, top):.1f}H{axis.x(one.from_s):.1f}" for one in reversed(some)
    )
    return f"M{axis.x(some[0].from_s):.1f} {height_of(some[0].low, top):.1f}{there}{back}Z"


# ------------------------------------------------------------ parts of a whole


def whole(label: str, counts: Mapping[str, int], labels: Mapping[str, str]) -> Chart:
    """A bar of the parts of a whole, in the order of `labels` and without empty ones."""
    keys = [
        LegendEntry(name, words, counts[name]) for name, words in labels.items() if counts.get(name)
    ]
    total, at, shapes = sum(counts[key.name] for key in keys), 0.0, list[Shape]()
    for key in keys:
        width = WIDTH * counts[key.name] / total
        shapes.append(Shape(f"fill-{key.name}", at, 0.0, width, WHOLE_HEIGHT))
        at += width
    summary = ", ".join(f"{key.label} {key.total:,}" for key in keys)
    return Chart(
        name="whole-bar",
        label=label,
        summary=f"{label}: {summary}",
        shapes=shapes,
        height=WHOLE_HEIGHT,
        keys=keys,
    )
