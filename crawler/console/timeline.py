"""The contacts with a host and its politeness delays, as drawings.

The strip is to scale in time: each contact is a bar, followed by the required delay. The columns
compare each delay with the minimum that was required.
"""

from __future__ import annotations

import bisect
import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from crawler.config.units import format_duration
from crawler.console.charts import nice
from crawler.console.filters import iso
from crawler.daemon.monitoring.recent_contacts import STARTS_ALIKE_S, RequiredDelay
from crawler.daemon.responses import ContactRow
from crawler.explain.formatting import counted

STRIP_WIDTH: Final = 1000.0
LANE_HEIGHT: Final = 40.0
COLUMNS_HEIGHT: Final = 100.0
STRIP_CONTACTS_MAX: Final = 24
_COLUMNS_MIN: Final = 24  # the width of the drawing, so that few columns stay narrow
_LULL_TIMES: Final = 20  # a gap of this many times the median begins a new strip…
_LULL_S: Final = 60.0  # …if it is at least this long
_BAR_WIDTH_MIN: Final = 6.0  # keeps a contact of a millisecond visible
_ROUNDING_S: Final = 0.002  # between two clocks
_NEXT_SHARE: Final = 0.3  # maximum share of the strip for a delay that is not over


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineContact:
    """One contact. `rest_s`: the delay before the next contact in its lane; None for the last.
    `floor_s`: the required minimum of that; None if unknown, as before the start of the daemon."""

    start_at: float
    end_at: float
    kind: str
    status: int | None
    lane: int
    floor_s: float | None
    source: str
    rest_s: float | None

    @property
    def early(self) -> bool:
        """Whether the next contact began too early."""
        return (
            self.rest_s is not None
            and self.floor_s is not None
            and self.rest_s < self.floor_s - _ROUNDING_S
        )

    @property
    def failed(self) -> bool:
        return self.status is None or self.status == 429 or self.status >= 500

    @property
    def title(self) -> str:
        answer = "no answer" if self.status is None else f"status {self.status}"
        took = format_duration(max(0.0, self.end_at - self.start_at))
        return f"{iso(self.start_at)[11:19]} UTC, {self.kind}: {answer} in {took}"

    @property
    def rest_title(self) -> str:
        if self.rest_s is None:
            return "no contact since then"
        waited = f"waited {format_duration(max(0.0, self.rest_s))}"
        if self.floor_s is None:
            return waited
        return f"{waited}; required: {format_duration(self.floor_s)} ({self.source})"


@dataclass(frozen=True, slots=True)
class Shape:
    """A rectangle of a drawing. `name` is its CSS class, `title` its tooltip."""

    x: float
    y: float
    width: float
    height: float
    name: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Both drawings. `summary` is the text alternative; `contacts` are newest first."""

    contacts: Sequence[TimelineContact]
    rests: Sequence[Shape]  # of the strip
    bars: Sequence[Shape]
    strip_height: float
    start: str
    end: str
    columns: Sequence[Shape]
    floors: Sequence[Shape]
    column_top: str
    column_middle: str
    columns_width: float
    summary: str


def timeline(
    contacts: Sequence[ContactRow],
    floors: Sequence[RequiredDelay],
    *,
    next_at: float | None,
    breaches: int,
    delay_s: float,
    now_s: float,
) -> Timeline | None:
    """The drawings of contacts in the order of the store, oldest first; None for no contacts."""
    if not contacts:
        return None
    seen = _judged(contacts, floors)
    strip = _latest(seen)
    rests, bars, end_s = _strip(strip, next_at, now_s, delay_s)
    cut = next_at is not None and next_at > end_s + 1 and next_at > now_s
    columns, ticks, top, width = _columns(seen)
    return Timeline(
        contacts=tuple(reversed(seen)),
        rests=rests,
        bars=bars,
        strip_height=LANE_HEIGHT * (1 + max(each.lane for each in strip)),
        start=iso(strip[0].start_at)[11:19],
        end=f"… until {iso(next_at)[11:19]}" if cut and next_at else iso(end_s)[11:19],
        columns=columns,
        floors=ticks,
        column_top=format_duration(top),
        column_middle=format_duration(top / 2),
        columns_width=width,
        summary=_summary(seen, breaches),
    )


def _judged(
    contacts: Sequence[ContactRow], floors: Sequence[RequiredDelay]
) -> list[TimelineContact]:
    """Each contact with its lane, the delay after it in that lane, and the required minimum."""
    rows = sorted(contacts, key=lambda row: row.start_at)
    by_start = sorted(floors, key=lambda floor: floor.start_at)
    starts = [floor.start_at for floor in by_start]
    lanes: list[int] = []  # index of the last contact of each lane
    lane_of: list[int] = []
    rest_of: list[float | None] = [None] * len(rows)
    for at, row in enumerate(rows):
        free = [lane for lane, last in enumerate(lanes) if rows[last].end_at <= row.start_at]
        if free:  # the one idle for longest
            lane = min(free, key=lambda lane: rows[lanes[lane]].end_at)
            rest_of[lanes[lane]] = row.start_at - rows[lanes[lane]].end_at
            lanes[lane] = at
        else:
            lane = len(lanes)
            lanes.append(at)
        lane_of.append(lane)
    found = []
    for at, row in enumerate(rows):
        near = bisect.bisect_left(starts, row.start_at - STARTS_ALIKE_S)
        floor = None
        if near < len(starts) and starts[near] <= row.start_at + STARTS_ALIKE_S:
            floor = by_start[near]
        found.append(
            TimelineContact(
                start_at=row.start_at,
                end_at=max(row.start_at, row.end_at),
                kind=row.kind,
                status=row.status,
                lane=lane_of[at],
                floor_s=None if floor is None else floor.rest_s,
                source="" if floor is None else floor.source,
                rest_s=rest_of[at],
            )
        )
    return found


def _latest(seen: Sequence[TimelineContact]) -> Sequence[TimelineContact]:
    """The latest contacts that fit one strip, back to the last long gap."""
    few = seen[-STRIP_CONTACTS_MAX:]
    gaps = [after.start_at - before.end_at for before, after in itertools.pairwise(few)]
    if gaps:
        lull_s = max(_LULL_S, _LULL_TIMES * statistics.median(gaps))
        for at in range(len(gaps) - 1, -1, -1):
            if gaps[at] > lull_s:
                return few[at + 1 :]
    return few


def _strip(
    seen: Sequence[TimelineContact], next_at: float | None, now_s: float, delay_s: float
) -> tuple[list[Shape], list[Shape], float]:
    """The required delays, the contacts, and the end of the strip."""
    start_s, last_s = seen[0].start_at, max(each.end_at for each in seen)
    end_s = last_s
    if next_at is not None and next_at > last_s:
        span_s = max(last_s - start_s, delay_s, 1.0)
        end_s = min(next_at, last_s + span_s * _NEXT_SHARE / (1 - _NEXT_SHARE))
    end_s = max(end_s, start_s + 0.001)
    scale = (STRIP_WIDTH - _BAR_WIDTH_MIN) / (end_s - start_s)

    def x_of(at_s: float) -> float:
        return max(0.0, min(STRIP_WIDTH, (at_s - start_s) * scale))

    rests, bars = [], []
    for each in seen:
        top = each.lane * LANE_HEIGHT
        x = x_of(each.start_at)
        width = max(_BAR_WIDTH_MIN, x_of(each.end_at) - x)
        name = f"bar {each.kind}" + (" trouble" if each.failed else "")
        bars.append(Shape(x, top + 4, width, 32, name, each.title))
        until_s = None if each.floor_s is None else each.end_at + each.floor_s
        pending = each.rest_s is None and each.end_at == last_s and next_at is not None
        if pending and next_at is not None:
            until_s = next_at
        if until_s is None or until_s <= each.end_at:
            continue
        x, end_x = x + width, x_of(until_s)
        if end_x <= x:
            continue
        required = format_duration(until_s - each.end_at)
        name = "rest pending" if pending and next_at is not None and next_at > now_s else "rest"
        name += " early" if each.early else ""
        title = f"required: {required} ({each.source or 'due'})"
        rests.append(Shape(x, top + 14, end_x - x, 12, name, title))
    return rests, bars, end_s


def _columns(seen: Sequence[TimelineContact]) -> tuple[list[Shape], list[Shape], float, float]:
    """The delays as columns, their required minimums as ticks, the top of the scale, the width."""
    rested = [each for each in seen if each.rest_s is not None]
    usual = sorted(each.rest_s for each in rested if each.rest_s is not None)
    floors_s = [each.floor_s for each in rested if each.floor_s is not None]
    # A gap of an hour must not flatten the others: the scale ends at twice the median.
    most_s = max([2 * statistics.median(usual)] if usual else [1.0])
    top = nice(max([min(most_s, max(usual, default=1.0)), *floors_s]) * 1.02)
    step, columns, ticks = 12.0, list[Shape](), list[Shape]()
    for at, each in enumerate(rested):
        rest_s = max(0.0, each.rest_s or 0.0)
        height = COLUMNS_HEIGHT * min(1.0, rest_s / top)
        name = "column" + (" over" if rest_s > top else "") + (" early" if each.early else "")
        y = COLUMNS_HEIGHT - height
        columns.append(Shape(at * step + 2, y, step - 4, height, name, each.rest_title))
        if each.floor_s is not None:
            y = min(COLUMNS_HEIGHT - 1.5, COLUMNS_HEIGHT * (1 - min(1.0, each.floor_s / top)))
            ticks.append(Shape(at * step, y, step, 1.5, "floor", each.rest_title))
    return columns, ticks, top, step * max(_COLUMNS_MIN, len(rested))


def _summary(seen: Sequence[TimelineContact], breaches: int) -> str:
    rests = [each.rest_s for each in seen if each.rest_s is not None]
    known = [each for each in seen if each.rest_s is not None and each.floor_s is not None]
    sentence = f"The latest {len(seen)} requests" if len(seen) > 1 else "One request"
    if rests:
        sentence += f", {format_duration(max(0.0, min(rests)))}"
        if max(rests) > min(rests):
            sentence += f" to {format_duration(max(rests))}"
        sentence += " apart"
    sentence += "."
    early = sum(each.early for each in known)
    if breaches:
        sentence += f" {counted(breaches, 'request')} to this host began too early."
    elif early:
        sentence += (
            f" {early} began sooner than required at the time, because an operator or a new"
            " config has since shortened the delay."
        )
    elif known:
        sentence += f" None of the {len(known)} that could be compared began too early."
    return sentence
