"""Rows of a view on stdout: a table for eyes, JSON lines and CSV for programs."""

from __future__ import annotations

import csv
import io
import time
import unicodedata
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from crawler.cli.text import echo, echo_json, width
from crawler.config.units import format_duration
from crawler.reports.exports import cell_text
from crawler.telling.words import at, plain
from policies.scope import SKIP_KEYS
from storage.base import Row

# The columns of a table, those that a person looks for; the other formats have all of them.
TABLE_COLUMNS: Mapping[str, tuple[str, ...]] = {
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
_SAMPLE_ROWS = 200  # a table's widths come from these: the rest streams through
_GAP = 2  # between columns
# Texts may be folded, to no less than this; what is not here keeps its width.
_TEXT_LEAST: Mapping[str, int] = {
    "url": 24, "origin": 24, "host": 16, "referrer": 16, "title": 14, "rule": 14, "error": 18,
    "delay_source": 14, "reason": 8, "key": 12, "source": 24, "target": 24, "anchor": 12,
    "href": 16, "fragment": 12,
}  # fmt: skip
_URL_WANTED = 36  # for so much of it other columns go
_ADDRESSES = ("url", "origin", "host", "target")
# What goes, in this order, where a table does not fit.
_DROPPED_FIRST = (
    "referrer", "kind", "depth", "paused", "withdrawn", "body_bytes", "title", "delay_source",
    "priority", "expires_at", "last_at", "next_at", "fetched_at", "retry_at",
)  # fmt: skip
_TOLD_IF_YES = ("paused", "withdrawn")  # these go only if they are "no" everywhere
_NOTHING: Mapping[str, str] = {
    "failed": "nothing has failed",
    "hosts": "no host is known yet",
    "robots": "no robots.txt is known yet",
    "skipped": "nothing was left out",
    "queued": "nothing is queued",
    "sitemaps": "no sitemap was read",
    "listings": "no sitemap said more of a URL than its name",
    "links": "no links are kept: that takes `links = true` below [storage] in the config",
    "malformed": "no malformed links are kept: that takes `links = true` below [storage]"
    " in the config",
    "fragments": "no fragments are kept: that takes `fragments = true` below [storage]"
    " in the config",
}


def nothing_in(view: str) -> str:
    """What a view without rows means."""
    return _NOTHING.get(view, f"nothing was {view}")


async def write(view: str, rows: AsyncIterator[Row], how: str) -> None:
    """Write every row in the format `table`, `jsonl` or `csv`."""
    if how == "table":
        await _table(view, rows)
        return
    first = True
    async for row in rows:
        if how == "jsonl":
            echo_json(dict(row), readable=True)
        else:
            if first:
                echo(_csv(row.keys()))
            echo(_csv(row.values()))
        first = False


def _csv(values: object) -> str:
    line = io.StringIO()
    assert hasattr(values, "__iter__")
    csv.writer(line, lineterminator="").writerow([_cell(value) for value in values])
    return line.getvalue()


def _cell(value: object) -> object:
    """A cell that is a text stays one in a spreadsheet."""
    if not isinstance(value, str):
        return value
    return cell_text(plain(value))


# ---------------------------------------------------------------- tables


async def _table(view: str, rows: AsyncIterator[Row]) -> None:
    columns = TABLE_COLUMNS[view]
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
            echo(nothing_in(view), err=True)
            return
        _begin(columns, sample)


def _begin(columns: Sequence[str], sample: Sequence[Sequence[str]]) -> Layout:
    layout = Layout.fitting(columns, sample, width())
    for line in layout.lines(columns):
        echo(line, bold=True)  # plain where it is no terminal
    for cells in sample:
        _echo(layout.lines(cells))
    return layout


def _echo(lines: Iterable[str]) -> None:
    for line in lines:
        echo(line)


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns a table shows, and how wide. On a terminal it fits: first the columns go that
    say least, then texts are folded; the URL gets what is left. Elsewhere nothing is folded."""

    shown: tuple[int, ...]  # indices into the view's columns
    widths: tuple[int, ...]  # of those
    folds: bool

    @classmethod
    def fitting(
        cls, columns: Sequence[str], sample: Sequence[Sequence[str]], room: int | None
    ) -> Layout:
        natural = [
            max(map(_columns_of, cells)) for cells in zip_longest(columns, *sample, fillvalue="")
        ]
        shown = list(range(len(columns)))
        if room is None:
            return cls(tuple(shown), tuple(natural), folds=False)
        for name in _DROPPED_FIRST:
            if _wanted(columns, natural, shown) <= room:
                break
            at = columns.index(name) if name in columns else None
            if at is not None and not (
                name in _TOLD_IF_YES and any(c[at] == "yes" for c in sample)
            ):
                shown.remove(at)
        widths = _widths(columns, natural, shown, room)
        return cls(tuple(shown), tuple(widths), folds=True)

    def lines(self, cells: Sequence[str]) -> list[str]:
        """One row, on several lines if a cell is folded."""
        shown = [cells[index] for index in self.shown]
        if not self.folds:
            return [_line(shown, self.widths)]
        folded = [fold(cell, room) for cell, room in zip(shown, self.widths, strict=True)]
        return [_line(each, self.widths) for each in zip_longest(*folded, fillvalue="")]


def _wanted(columns: Sequence[str], natural: Sequence[int], shown: Sequence[int]) -> int:
    least = {**_TEXT_LEAST, "url": _URL_WANTED}
    wanted = sum(min(natural[i], least.get(columns[i], natural[i])) for i in shown)
    return wanted + _GAP * (len(shown) - 1)


def _widths(
    columns: Sequence[str], natural: Sequence[int], shown: Sequence[int], room: int
) -> list[int]:
    widths = {i: min(natural[i], _TEXT_LEAST.get(columns[i], natural[i])) for i in shown}
    left = room - sum(widths.values()) - _GAP * (len(shown) - 1)
    texts = [i for i in shown if columns[i] in _TEXT_LEAST]
    # half of what is left for the texts beside the URL, then the URL, then what still lacks room
    texts.sort(key=lambda i: columns[i] in _ADDRESSES)
    shares = [left // 2 // max(1, len(texts) - 1)] * (len(texts) - 1) + [left]
    for i, share in [*zip(texts, shares, strict=False), *((i, left) for i in texts)]:
        more = max(0, min(natural[i] - widths[i], share, left))
        widths[i] += more
        left -= more
    return [widths[i] for i in shown]


def fold(text: str, room: int) -> list[str]:
    """Lines of at most so many columns, broken between words where there are any."""
    lines, line = [], ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if _columns_of(joined) <= room:
            line = joined
            continue
        if line:
            lines.append(line)
        line = ""
        for char in word:
            if line and _columns_of(line + char) > room:
                lines.append(line)
                line = ""
            line += char
    return [*lines, line]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell + " " * (room - _columns_of(cell)) for cell, room in zip(cells, widths, strict=True)
    ]
    return (" " * _GAP).join(padded).rstrip()


def _columns_of(text: str) -> int:
    """Columns on a terminal: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _shown(view: str, column: str, row: Row) -> str:
    if view == "skipped" and column == "key":
        return SKIP_KEYS.get(str(row["reason"]), "")
    value = row.get(column)
    if column == "due_at":
        return _when(value)
    if value is None:
        return "-"
    return _WORDS.get(column, _plainly)(value)


def _plainly(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else plain(str(value))


def _minute(value: object) -> str:
    return at(value)[:16] + "Z" if value else "-"


def _when(value: object) -> str:
    """A time to come, from now: what has come is "now"."""
    left_s = value - time.time() if isinstance(value, int | float) else 0.0
    return f"in {format_duration(left_s)}" if left_s > 0 else "now"


def _yes(value: object) -> str:
    return "yes" if value else "no"


_WORDS: Mapping[str, Callable[[object], str]] = {
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
