"""The time axis that the charts of the history share, and what happened to the crawl on it.

Text on the axis is in a drawing that is not stretched, at percentages of its width.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from crawler.config.units import format_duration
from crawler.console.drawing import HEIGHT, WIDTH, Axis, Shape, moment
from crawler.daemon.api.history_view import SPANS, HistoryMark, HistoryPoint
from storage.history import MarkKind

_TICKS: Final = (600, 3_600, 10_800, 86_400, 14 * 86_400)
_TICKS_WANTED: Final = 9
_EDGE: Final = 0.04  # labels as near to an edge would be cut
_BAND_WIDTH_MIN: Final = 1.5
_STRIPE_HEIGHT: Final = 4.0  # of a trouble, along the top
_TITLE_CHARS: Final = 500  # of several marks at one place
_GLYPH_PERCENT: Final = 3.0  # the width of a glyph and its margin on a narrow screen
_GLYPH_ROWS: Final = 3
GLYPHS: Final = {
    MarkKind.START: "▲",
    MarkKind.STOP: "■",
    MarkKind.RELOAD: "◆",
    MarkKind.PAUSE: "‖",
    MarkKind.RESUME: "▶",
    MarkKind.HOLD: "✕",
    MarkKind.TROUBLE: "!",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A time on the axis. at: percent of the width. line: in the grid of each chart."""

    at: float
    label: str
    line: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A span, or a moment if it is a line, in all charts. `kind`: a MarkKind, or "gap"."""

    kind: str
    at: float  # percent
    glyph: str
    shape: Shape


def ticks(axis: Axis) -> list[Tick]:
    """Round times, not too near to the edges."""
    span_s = axis.to_s - axis.from_s
    step_s = next((each for each in _TICKS if span_s / each <= _TICKS_WANTED), _TICKS[-1])
    first = math.ceil((axis.from_s + _EDGE * span_s) / step_s)
    last = math.floor((axis.to_s - _EDGE * span_s) / step_s)
    return [
        Tick(
            at=axis.percent(at_s),
            label=time_label(at_s, axis.days),
            line=Shape("grid", axis.x(at_s), height=HEIGHT),
        )
        for at_s in (number * step_s for number in range(first, last + 1))
    ]


def time_label(at_s: float, days: bool) -> str:
    found = datetime.fromtimestamp(at_s, UTC)
    return f"{found.day} {found:%b}" if days else f"{found:%H:%M}"


def bands(axis: Axis, points: Sequence[HistoryPoint], marks: Iterable[HistoryMark]) -> list[Band]:
    """Times without a crawl, pauses, holds and troubles as bands, everything else as lines.
    Several marks of a kind at the same place are one."""
    found: dict[tuple[str, float, float], Band] = {}
    for from_s, to_s in gaps(axis, points):
        words = f"no crawl ran for {format_duration(round(to_s - from_s))}"
        _add(found, axis, "gap", from_s, to_s, words)
    for mark in marks:
        is_span = mark.kind in SPANS
        to_s = mark.at if not is_span else axis.to_s if mark.ended_at is None else mark.ended_at
        _add(found, axis, mark.kind.value, mark.at, to_s, words_of(mark), is_span=is_span)
    return list(found.values())


def _add(
    found: dict[tuple[str, float, float], Band],
    axis: Axis,
    kind: str,
    from_s: float,
    to_s: float,
    words: str,
    *,
    is_span: bool = True,
) -> None:
    x = round(axis.x(from_s), 1)
    width = max(_BAND_WIDTH_MIN, round(axis.x(to_s) - x, 1)) if is_span else 0.0
    x = min(x, WIDTH - width)
    title = f"{moment(max(from_s, 0.0))} UTC: {words}"
    if (same := found.get((kind, x, width))) is not None:
        before = same.shape.title
        title = before if len(before) > _TITLE_CHARS else f"{before}; {title}"
    name = f"band-{kind}" if is_span else f"at-{kind}"
    height = _STRIPE_HEIGHT if kind == MarkKind.TROUBLE else HEIGHT
    found[kind, x, width] = Band(
        kind=kind,
        at=axis.percent(from_s),
        glyph=GLYPHS[MarkKind(kind)] if kind != "gap" else "",
        shape=Shape(name, x, 0.0, width, height, title),
    )


def glyphs(found: Iterable[Band]) -> list[tuple[Band, int]]:
    """The bands with a sign above the charts, and its row: 0 is the upper one, and those that would
    overlap are in others. Of many in one place, some are left out: the table has all."""
    free_at = [-math.inf] * _GLYPH_ROWS  # percent, by row
    placed: list[tuple[Band, int]] = []
    for band in sorted(found, key=lambda one: one.at):
        row = next((n for n, at in enumerate(free_at) if band.at >= at), None)
        if not band.glyph or row is None:
            continue
        free_at[row] = band.at + _GLYPH_PERCENT
        placed.append((band, row))
    return placed


def words_of(mark: HistoryMark) -> str:
    """Return what happened, in a few words."""
    match mark.kind:
        case MarkKind.START:
            return "started" + (", paused" if mark.reason == "paused" else "")
        case MarkKind.STOP:
            return "stopped" + (" after an error" if mark.reason == "error" else "")
        case MarkKind.RELOAD:
            return "config reloaded"
        case MarkKind.PAUSE:
            return "paused" + (f" by {mark.by}" if mark.by else "")
        case MarkKind.RESUME:
            return "resumed" + (f" by {mark.by}" if mark.by else "")
        case MarkKind.TROUBLE:
            return f"{mark.reason}: {mark.sentence}"
    return f"on hold: {mark.sentence or mark.reason}"


def gaps(axis: Axis, points: Sequence[HistoryPoint]) -> list[tuple[float, float]]:
    """Times that no point covers."""
    found: list[tuple[float, float]] = []
    at_s = axis.from_s
    for point in points:
        if point.at > at_s:
            found.append((at_s, float(point.at)))
        at_s = max(at_s, float(point.at + point.step_s))
    if at_s < axis.to_s:
        found.append((at_s, axis.to_s))
    return found
