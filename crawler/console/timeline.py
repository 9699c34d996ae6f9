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
from crawler.console.drawing import HEIGHT, WIDTH, Axis, Chart, Shape, height_of, nice
from crawler.console.filters import iso
from crawler.daemon.monitoring.recent_contacts import STARTS_ALIKE_S, RequiredDelay
from crawler.daemon.responses import ContactRow
from crawler.explain.formatting import counted

LANE_HEIGHT: Final = 40.0
STRIP_CONTACTS_MAX: Final = 24
_COLUMNS_MIN: Final = 24  # the width of the drawing, so that few columns stay narrow
_LULL_TIMES: Final = 20  # a gap of this many times the median begins a new strip…
_LULL_S: Final = 60.0  # …if it is at least this long
_COLUMN_STEP: Final = 12.0
_FLOOR_HEIGHT: Final = 1.5
_BAR_WIDTH_MIN: Final = 3.6  # keeps a contact of a millisecond visible
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Both drawings; no columns if no delay is over. `contacts` are newest first."""

    contacts: Sequence[TimelineContact]
    strip: Chart
    columns: Chart | None
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
    shapes, end_s = _strip(strip, next_at, now_s, delay_s)
    cut = next_at is not None and next_at > end_s + 1 and next_at > now_s
    end = f"… until {iso(next_at)[11:19]}" if cut and next_at else iso(end_s)[11:19]
    lanes, summary = 1 + max(each.lane for each in strip), _summary(seen, breaches)
    return Timeline(
        contacts=tuple(reversed(seen)),
        strip=Chart(
            name=f"lanes-{lanes}",
            summary=f"Requests over time, each followed by the required delay. {summary}",
            shapes=shapes,
            height=LANE_HEIGHT * lanes,
            ends=(iso(strip[0].start_at)[11:19], f"{end} UTC"),
        ),
        columns=_columns([each for each in seen if each.rest_s is not None], summary),
        summary=summary,
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
) -> tuple[list[Shape], float]:
    """The required delays, then the contacts; and the end of the strip."""
    start_s, last_s = seen[0].start_at, max(each.end_at for each in seen)
    end_s = last_s
    if next_at is not None and next_at > last_s:
        span_s = max(last_s - start_s, delay_s, 1.0)
        end_s = min(next_at, last_s + span_s * _NEXT_SHARE / (1 - _NEXT_SHARE))
    end_s = max(end_s, start_s + 0.001)
    # With room for a bar at the end.
    span_s = (end_s - start_s) * WIDTH / (WIDTH - _BAR_WIDTH_MIN)
    axis = Axis(from_s=start_s, to_s=start_s + span_s)
    rests, bars = list[Shape](), list[Shape]()
    for each in seen:
        top = each.lane * LANE_HEIGHT
        x = axis.x(each.start_at)
        width = max(_BAR_WIDTH_MIN, axis.x(each.end_at) - x)
        name = f"bar {each.kind}" + (" trouble" if each.failed else "")
        bars.append(Shape(name, x, top + 4, width, 32, each.title))
        until_s = None if each.floor_s is None else each.end_at + each.floor_s
        pending = each.rest_s is None and each.end_at == last_s and next_at is not None
        if pending and next_at is not None:
            until_s = next_at
        if until_s is None or until_s <= each.end_at:
            continue
        x, end_x = x + width, axis.x(until_s)
        if end_x <= x:
            continue
        required = format_duration(until_s - each.end_at)
        name = "rest pending" if pending and next_at is not None and next_at > now_s else "rest"
        name += " early" if each.early else ""
        title = f"required: {required} ({each.source or 'due'})"
        rests.append(Shape(name, x, top + 14, end_x - x, 12, title))
    return [*rests, *bars], end_s


def _columns(rested: Sequence[TimelineContact], summary: str) -> Chart | None:
    """The delays as columns, their required minimums as lines; None without any."""
    if not rested:
        return None
    usual = [each.rest_s for each in rested if each.rest_s is not None]
    floors_s = [each.floor_s for each in rested if each.floor_s is not None]
    # A gap of an hour must not flatten the others: the scale ends at twice the median.
    top = nice(max([min(2 * statistics.median(usual), max(usual)), *floors_s]) * 1.02)
    columns, floors = list[Shape](), list[Shape]()
    for at, each in enumerate(rested):
        x, rest_s = at * _COLUMN_STEP, max(0.0, each.rest_s or 0.0)
        name = "column" + (" over" if rest_s > top else "") + (" early" if each.early else "")
        y = height_of(min(rest_s, top), top)
        columns.append(Shape(name, x + 2, y, _COLUMN_STEP - 4, HEIGHT - y, each.rest_title))
        if each.floor_s is not None:
            y = min(HEIGHT - _FLOOR_HEIGHT, height_of(min(each.floor_s, top), top))
            floors.append(Shape("floor", x, y, _COLUMN_STEP, _FLOOR_HEIGHT, each.rest_title))
    return Chart(
        name="delays",
        summary=f"Each delay as a column, its required minimum as a line. {summary}",
        shapes=[*columns, *floors],
        width=_COLUMN_STEP * max(_COLUMNS_MIN, len(rested)),
        top=format_duration(top),
        middle=format_duration(top / 2),
        ends=("oldest delay first",),
    )


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
