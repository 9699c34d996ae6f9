"""Print the rows of a view as a table for people, or as JSON lines or CSV for programs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from rich.cells import cell_len

from crawler.cli.text import echo, echo_json, width
from crawler.config.units import format_duration
from crawler.explain.formatting import at, plain
from crawler.explain.site_text import csv_text
from policies.scope import SKIP_KEYS
from storage.store import Row

# The most useful columns, for tables; the other formats have all columns.
TABLE_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "visited": ("status", "depth", "body_bytes", "fetched_at", "url", "title"),
    "blocked": ("reason", "line", "rule", "withdrawn", "url", "referrer"),
    "failed": ("attempts", "last_at", "url", "error"),
    "queued": ("priority", "depth", "attempts", "due_at", "url"),
    "links": ("rel", "kind", "source", "target", "anchor"),
    "malformed": ("reason", "source", "href"),
    "fragments": ("found", "source", "target", "fragment"),
    "hosts": (
        "host", "visited", "queued", "blocked", "failed", "delay_s", "next_at", "paused",
        "delay_source",
    ),
    "robots": ("origin", "state", "status", "fetched_at", "expires_at", "retry_at", "body_bytes"),
    "skipped": ("count", "reason", "key"),
    "sitemaps": ("kind", "status", "urls", "body_bytes", "fetched_at", "url", "error"),
    "listings": ("lastmod_at", "changefreq", "priority", "url"),
}  # fmt: skip
_COLUMNS: Final = {**TABLE_COLUMNS, "seeds": ("state", "status", "priority", "url", "error")}
_SAMPLE_ROWS: Final = 200  # they determine the widths of a table; further rows are streamed
_GAP: Final = 2  # between columns
# The minimum widths of columns that may be wrapped. Other columns keep their width.
_WIDTH_MIN: Final[Mapping[str, int]] = {
    "url": 24, "origin": 24, "host": 16, "referrer": 16, "title": 14, "rule": 14, "error": 18,
    "delay_source": 14, "reason": 8, "key": 12, "source": 24, "target": 24, "anchor": 12,
    "href": 16, "fragment": 12,
}  # fmt: skip
_URL_WIDTH: Final = 36  # other columns are dropped to make this width possible
_ADDRESSES: Final = ("url", "origin", "host", "target")
# Columns that are dropped, in this order, if a table does not fit.
_DROPPED_FIRST: Final = (
    "referrer", "kind", "depth", "paused", "withdrawn", "body_bytes", "title", "delay_source",
    "priority", "expires_at", "last_at", "next_at", "fetched_at", "retry_at",
)  # fmt: skip
_KEPT_IF_YES: Final = ("paused", "withdrawn")  # dropped only if every row has "no"
_EMPTY: Final[Mapping[str, str]] = {
    "failed": "no URL has failed",
    "hosts": "no host is known",
    "robots": "no robots.txt is known",
    "skipped": "no URL was excluded",
    "queued": "no URL is queued",
    "sitemaps": "no sitemap was read",
    "listings": "no sitemap or feed that was read lists a URL in scope",
    "links": "no links are stored; to store them, set links = true in [storage]",
    "malformed": "no malformed links are stored; to store them, set links = true in [storage]",
    "fragments": "no fragments are stored; to store them, set fragments = true in [storage]",
}


def empty_view(view: str) -> str:
    """A sentence for a view without rows."""
    return _EMPTY.get(view, f"no URL was {view}")


async def write(view: str, rows: AsyncIterator[Row], how: str, *, empty: str = "") -> None:
    """Write every row in the format `table`, `jsonl` or `csv`. view: one of `VIEWS`, or
    "seeds". empty: what to print in place of a table without rows, if that is no empty view."""
    if how == "table":
        await _table(view, rows, empty or empty_view(view))
        return
    first = True
    async for row in rows:
        if how == "jsonl":
            echo_json(dict(row), readable=True)
        else:
            if first:
                echo(csv_text([row.keys()], line_end=""))
            echo(csv_text([row.values()], line_end=""))
        first = False


# ---------------------------------------------------------------- tables


async def _table(view: str, rows: AsyncIterator[Row], empty: str) -> None:
    columns = _COLUMNS[view]
    sample: list[list[str]] = []
    layout: Layout | None = None
    async for row in rows:
        cells = [_shown(view, column, row) for column in columns]
        if layout is not None:
            _echo(layout.lines(cells))
            continue
        sample.append(cells)
        if len(sample) == _SAMPLE_ROWS:
            layout = _begin(columns, sample)
    if layout is None:
        if not sample:
            echo(empty, err=True)
            return
        _begin(columns, sample)


def _begin(columns: Sequence[str], sample: Sequence[Sequence[str]]) -> Layout:
    layout = Layout.fitting(columns, sample, width())
    for line in layout.lines(columns):
        echo(line, bold=True)
    for cells in sample:
        _echo(layout.lines(cells))
    return layout


def _echo(lines: Iterable[str]) -> None:
    for line in lines:
        echo(line)


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table and their widths. If it is too wide for a terminal, less important
    columns are dropped, then long strings are wrapped; the URL gets the remaining width."""

    shown: tuple[int, ...]  # indices into the view's columns
    widths: tuple[int, ...]
    wraps: bool

    @classmethod
    def fitting(
        cls, columns: Sequence[str], sample: Sequence[Sequence[str]], room: int | None
    ) -> Layout:
        natural = [
            max(map(cell_len, cells)) for cells in zip_longest(columns, *sample, fillvalue="")
        ]
        shown = list(range(len(columns)))
        if room is None:
            return cls(tuple(shown), tuple(natural), wraps=False)
        for name in _DROPPED_FIRST:
            if _wanted(columns, natural, shown) <= room:
                break
            at = columns.index(name) if name in columns else None
            if at is not None and not (
                name in _KEPT_IF_YES and any(c[at] == "yes" for c in sample)
            ):
                shown.remove(at)
        widths = _widths(columns, natural, shown, room)
        return cls(tuple(shown), tuple(widths), wraps=True)

    def lines(self, cells: Sequence[str]) -> list[str]:
        """One row, on several lines if a cell is wrapped."""
        shown = [cells[index] for index in self.shown]
        if not self.wraps:
            return [_line(shown, self.widths)]
        wrapped = [wrap(cell, room) for cell, room in zip(shown, self.widths, strict=True)]
        return [_line(each, self.widths) for each in zip_longest(*wrapped, fillvalue="")]


def _wanted(columns: Sequence[str], natural: Sequence[int], shown: Sequence[int]) -> int:
    minimum = {**_WIDTH_MIN, "url": _URL_WIDTH}
    wanted = sum(min(natural[i], minimum.get(columns[i], natural[i])) for i in shown)
    return wanted + _GAP * (len(shown) - 1)


def _widths(
    columns: Sequence[str], natural: Sequence[int], shown: Sequence[int], room: int
) -> list[int]:
    widths = {i: min(natural[i], _WIDTH_MIN.get(columns[i], natural[i])) for i in shown}
    left = room - sum(widths.values()) - _GAP * (len(shown) - 1)
    texts = [i for i in shown if columns[i] in _WIDTH_MIN]
    # Half of the remaining width goes to the strings beside the URL, then the URL, then the others.
    texts.sort(key=lambda i: columns[i] in _ADDRESSES)
    shares = [left // 2 // max(1, len(texts) - 1)] * (len(texts) - 1) + [left]
    for i, share in [*zip(texts, shares, strict=False), *((i, left) for i in texts)]:
        more = max(0, min(natural[i] - widths[i], share, left))
        widths[i] += more
        left -= more
    return [widths[i] for i in shown]


def wrap(text: str, room: int) -> list[str]:
    """Lines of at most `room` columns, broken between words if possible."""
    lines, line = [], ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if cell_len(joined) <= room:
            line = joined
            continue
        if line:
            lines.append(line)
        line = ""
        for char in word:
            if line and cell_len(line + char) > room:
                lines.append(line)
                line = ""
            line += char
    return [*lines, line]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell + " " * (room - cell_len(cell)) for cell, room in zip(cells, widths, strict=True)
    ]
    return (" " * _GAP).join(padded).rstrip()


def _shown(view: str, column: str, row: Row) -> str:
    if view == "skipped" and column == "key":
        return SKIP_KEYS.get(str(row["reason"]), "")
    value = row.get(column)
    if column == "due_at":
        return _when(value)
    if value is None:
        return "-"
    return _FORMATS.get(column, _plainly)(value)


def _plainly(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else plain(str(value))


def _minute(value: object) -> str:
    return at(value)[:16] + "Z" if value else "-"


def _when(value: object) -> str:
    """A future time relative to now; "now" if it has passed."""
    left_s = value - time.time() if isinstance(value, int | float) else 0.0
    return f"in {format_duration(left_s)}" if left_s > 0 else "now"


def _yes(value: object) -> str:
    return "yes" if value else "no"


_FORMATS: Final[Mapping[str, Callable[[object], str]]] = {
    "fetched_at": _minute,
    "last_at": _minute,
    "lastmod_at": _minute,
    "next_at": _when,
    "expires_at": _when,
    "retry_at": _when,
    "withdrawn": _yes,
    "paused": _yes,
    "found": _yes,
}
