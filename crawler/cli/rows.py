"""Rows of a view on stdout: a table for eyes, JSON lines and CSV for programs."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sys
import time
import unicodedata
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import zip_longest

import click

from crawler.cli.text import at, plain
from crawler.config.units import say_duration
from policies.scope import SKIP_KEYS
from storage.base import Row

# The columns of a table, those that a person looks for; the other formats have all of them.
TABLE_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "visited": ("status", "depth", "body_bytes", "fetched_at", "url", "title"),
    "blocked": ("reason", "line", "rule", "withdrawn", "url", "referrer"),
    "failed": ("attempts", "last_at", "url", "error"),
    "queued": ("priority", "depth", "attempts", "due_at", "url"),
    "hosts": (
        "host", "visited", "queued", "blocked", "failed", "delay_s", "next_at", "paused",
        "delay_source",
    ),
    "robots": ("origin", "state", "status", "fetched_at", "expires_at", "retry_at", "body_bytes"),
    "skipped": ("count", "reason", "key"),
}  # fmt: skip
_SAMPLE_ROWS = 200  # a table's widths come from these: the rest streams through
_CELL_LEAST = 8  # columns are cut no shorter to fit a terminal
_FORMULA = re.compile(
    r"[=+\-@\t\r＝＋－＠]"
)  # what a spreadsheet would compute (OWASP, CSV injection)
_TERMINAL = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


async def write(view: str, rows: AsyncIterator[Row], how: str) -> None:
    """Write every row in the format `table`, `jsonl` or `csv`."""
    if how == "table":
        await _table(view, rows)
        return
    first = True
    async for row in rows:
        if how == "jsonl":
            click.echo(_json(row))
        else:
            if first:
                click.echo(_csv(row.keys()))
            click.echo(_csv(row.values()))
        first = False


def _json(row: Row) -> str:
    """One line; what a terminal would obey is escaped, everything else readable."""
    text = json.dumps(dict(row), ensure_ascii=False)
    return _TERMINAL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _csv(values: object) -> str:
    line = io.StringIO()
    assert hasattr(values, "__iter__")
    csv.writer(line, lineterminator="").writerow([_cell(value) for value in values])
    return line.getvalue()


def _cell(value: object) -> object:
    """A cell that is a text stays one in a spreadsheet."""
    if not isinstance(value, str):
        return value
    value = plain(value)
    return f"'{value}" if _FORMULA.match(value.lstrip()) else value


# ---------------------------------------------------------------- tables


async def _table(view: str, rows: AsyncIterator[Row]) -> None:
    columns = TABLE_COLUMNS[view]
    sample: list[list[str]] = []
    widths: list[int] | None = None
    async for row in rows:
        cells = [_shown(view, column, row) for column in columns]
        if widths is not None:
            click.echo(_line(cells, widths))
            continue
        sample.append(cells)
        if len(sample) == _SAMPLE_ROWS:
            widths = _begin(columns, sample)
    if widths is None:
        if not sample:
            click.echo(
                f"nothing is {view}" if view not in ("hosts", "robots") else "none", err=True
            )
            return
        _begin(columns, sample)


def _begin(columns: Sequence[str], sample: Sequence[Sequence[str]]) -> list[int]:
    widths = [max(map(_width, cells)) for cells in zip_longest(columns, *sample, fillvalue="")]
    if sys.stdout.isatty():
        widths = _fit(widths, shutil.get_terminal_size().columns)
        click.secho(_line(columns, widths), bold=True)
    else:
        click.echo(_line(columns, widths))
    for cells in sample:
        click.echo(_line(cells, widths))
    return widths


def _fit(widths: Sequence[int], room: int) -> list[int]:
    """Cut the widest columns to one width so that all fit, but never below what still says much."""
    room -= 2 * (len(widths) - 1)
    cap = max(widths)
    while cap > _CELL_LEAST and sum(min(width, cap) for width in widths) > room:
        cap -= 1
    return [min(width, cap) for width in widths]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    on_terminal = sys.stdout.isatty()
    shown = [
        _cut(cell, width) if on_terminal else cell
        for cell, width in zip(cells, widths, strict=True)
    ]
    padded = [
        cell + " " * (width - _width(cell)) for cell, width in zip(shown, widths, strict=True)
    ]
    return "  ".join(padded).rstrip()


def _width(text: str) -> int:
    """Columns on a terminal: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    kept = ""
    for char in text:
        if _width(kept + char) > width - 1:
            break
        kept += char
    return kept + "…"


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
    return f"in {say_duration(left_s)}" if left_s > 0 else "now"


def _yes(value: object) -> str:
    return "yes" if value else "no"


_WORDS: Mapping[str, Callable[[object], str]] = {
    "fetched_at": _minute,
    "last_at": _minute,
    "next_at": _when,
    "expires_at": _when,
    "retry_at": _when,
    "withdrawn": _yes,
    "paused": _yes,
}
