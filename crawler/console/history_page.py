"""The history: what was counted over time, and what happened to the crawl, on one time axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from aiohttp import web
from msgspec import structs

from crawler.console import charts
from crawler.console.drawing import Axis, Chart
from crawler.console.history_axis import GLYPHS, bands, glyphs, ticks, words_of
from crawler.console.rendering import PageHandlers
from crawler.daemon.api.history_view import LATEST_S, SPANS, HistoryMark, HistoryPoint
from crawler.daemon.http.request_types import HistoryParams, read_query
from crawler.daemon.problem import invalid
from crawler.explain.site_text import csv_text
from storage.history import MarkKind

# Name, label, seconds, and the length of a step.
RANGES: Final = (
    ("1h", "1 h", 3_600, 60),
    ("6h", "6 h", 21_600, 120),
    ("24h", "24 h", 86_400, 300),
    ("7d", "7 days", 604_800, 3_600),
    ("90d", "90 days", 7_776_000, 21_600),
)
MARKS_SHOWN: Final = 100  # in the table
_AROUND_S: Final = 1_800  # from a mark, the link in its row shows as much on both sides
_COLUMNS: Final = HistoryPoint.__struct_fields__
KIND_WORDS: Final = {
    MarkKind.START: "start",
    MarkKind.STOP: "stop",
    MarkKind.RELOAD: "reload",
    MarkKind.PAUSE: "pause",
    MarkKind.RESUME: "resumption",
    MarkKind.HOLD: "hold",
    MarkKind.TROUBLE: "trouble",
}
_PILLS: Final = {
    MarkKind.HOLD: "bad",
    MarkKind.TROUBLE: "bad",
    MarkKind.PAUSE: "wait",
    MarkKind.START: "good",
}


class HistoryPage(PageHandlers):
    """Handlers of the page and of its download."""

    async def history(self, request: web.Request) -> web.Response:
        """`span`: one of RANGES. `to`: its end in Unix seconds, if it is not now."""
        now_s = self.renderer.clock.wall()
        (name, _, span_s, step_s), given = _wanted(request.query)
        fixed = given is not None and given < now_s - step_s
        to_s = given if fixed and given is not None else now_s
        axis = Axis(from_s=max(0.0, to_s - span_s), to_s=to_s)
        found = await self.operations.history.history(from_=axis.from_s, to=to_s, step=step_s)
        shown = bands(axis, found.points, found.marks)
        signs, marked = glyphs(shown), ticks(axis)
        spans = [one.shape for one in shown if one.shape.width]
        until_s = to_s if fixed else None
        later_s = to_s + span_s
        exact = {"from": str(int(axis.from_s)), "to": str(int(to_s) + 1), "step": str(step_s)}
        values = {
            "axis": axis,
            "ticks": marked,
            "under": [*spans, *(tick.line for tick in marked)],
            "over": [one.shape for one in shown if not one.shape.width],
            "glyphs": signs,
            "glyph_rows": max((row for _, row in signs), default=0) + 1,
            "kinds": [(kind, GLYPHS[kind], word) for kind, word in KIND_WORDS.items()],
            "charts": _charts(axis, found.points),
            "recorded": bool(found.points),
            "span": name,
            "spans": [(one, label, _link(one, until_s)) for one, label, *_ in RANGES],
            "earlier": _link(name, to_s - span_s),
            "later": _link(name, later_s if later_s < now_s else None) if fixed else "",
            "fixed": fixed,
            "step_s": step_s,
            "rows": [_row(mark, to_s) for mark in found.marks[: -MARKS_SHOWN - 1 : -1]],
            "more": max(0, len(found.marks) - MARKS_SHOWN),
            "as_csv": f"/history.csv?{urlencode(exact)}",
            "as_json": f"/api/history?{urlencode(exact)}",
        }
        return await self.page(request, "history", values)

    async def as_csv(self, request: web.Request) -> web.Response:
        """The points of GET /api/history."""
        wanted = read_query(request.query.items(), HistoryParams)
        found = await self.operations.history.history(**structs.asdict(wanted))
        rows = ([getattr(one, name) for name in _COLUMNS] for one in found.points)
        text = csv_text([_COLUMNS, *rows])
        headers = {"Content-Disposition": 'attachment; filename="history.csv"'}
        return web.Response(text=text, content_type="text/csv", headers=headers)


def _charts(axis: Axis, points: Sequence[HistoryPoint]) -> list[Chart]:
    return [
        charts.responses(axis, points),
        charts.durations(
            axis,
            points,
            name="latency",
            label="Latency: time until the response header",
            note="Time from a request to the end of the response header,",
        ),
        charts.durations(
            axis,
            points,
            name="lateness",
            label="Lateness: from the end of the delay to the request",
            note="Time from the end of a host's delay to its next request,",
        ),
        charts.failures(axis, points),
        charts.queued(axis, points),
    ]


def _row(mark: HistoryMark, to_s: float) -> dict[str, object]:
    """One mark in the table. to_s: the end of the span, after which it may last."""
    is_span = mark.kind in SPANS or mark.kind is MarkKind.START
    ended_at = to_s if mark.ended_at is None else mark.ended_at
    return {
        "mark": mark,
        "word": KIND_WORDS[mark.kind],
        "glyph": GLYPHS[mark.kind],
        "pill": _PILLS.get(mark.kind, ""),
        "link": _link("1h", mark.at + _AROUND_S),
        "lasts_s": round(max(0.0, ended_at - mark.at)) if is_span else None,
        "lasting": mark.ended_at is None,
        "words": _details(mark),
    }


def _details(mark: HistoryMark) -> str:
    match mark.kind:
        case MarkKind.START if not mark.clean:
            return "This process ended without a stop: it was killed, or it crashed."
        case MarkKind.START:
            return "The crawl was paused." if mark.reason == "paused" else ""
        case MarkKind.STOP:
            return "After an error, which is in the log." if mark.reason == "error" else ""
        case MarkKind.RELOAD:
            return mark.sentence or "no changes"
        case MarkKind.HOLD:
            return mark.sentence or mark.reason
        case MarkKind.TROUBLE:
            return words_of(mark)
    return ""


def _link(span: str, to_s: float | None) -> str:
    query = {"span": span} if to_s is None else {"span": span, "to": str(int(to_s))}
    return f"/history?{urlencode(query)}"


def _wanted(query: Mapping[str, str]) -> tuple[tuple[str, str, int, int], float | None]:
    """One of RANGES, and its end in Unix seconds, None for now. Raises Problem (422)."""
    if "from" in query:
        raise invalid("from", "this page takes `span` and `to`; /history.csv takes `from` and `to`")
    ranges = {one[0]: one for one in RANGES}
    name = query.get("span") or RANGES[0][0]
    if name not in ranges:
        raise invalid("span", f"must be one of {', '.join(ranges)}")
    text = query.get("to", "")
    try:
        to_s = float(text) if text else None
    except ValueError:
        to_s = math.nan
    if to_s is not None and not 0 < to_s <= LATEST_S:
        raise invalid("to", "must be a time in Unix seconds")
    return ranges[name], to_s
