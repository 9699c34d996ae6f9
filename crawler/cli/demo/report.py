"""What `courtly demo` shows at its end: a crawl's database, read aloud."""

from __future__ import annotations

import itertools
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from crawler.cli.summary import as_text
from crawler.cli.text import wrapped
from crawler.events import Summary
from policies.url import host_of, path_of
from storage.base import Reader, Row

URLS_PER_RULE = 4  # shown; the rest is counted


async def show(console: Console, reader: Reader, summary: Summary, *, db: Path) -> None:
    """Print what was visited, blocked and failed, any crawl's summary, and what to try next."""
    await _visited(console, reader, summary)
    blocked = [row async for row in _rows(reader, "blocked")]
    _blocked(console, blocked)
    console.print()
    text = as_text(summary, again=f" --db {db}", blocked=False)
    console.print(Text(wrapped(text, console.width)), soft_wrap=True)
    _next(console, db, _example(blocked))


async def _visited(console: Console, reader: Reader, summary: Summary) -> None:
    table = _table("host", ">visited", ">blocked", ">failed", ">queued", ">rest", "because of")
    async for row in _rows(reader, "hosts"):
        delay_s = row["delay_s"]
        table.add_row(
            *(str(row[name]) for name in ("host", "visited", "blocked", "failed", "queued")),
            f"{delay_s:.2g} s" if isinstance(delay_s, float | int) and delay_s else "",
            str(row["delay_source"] or ""),
        )
    _section(console, f"Visited: {summary.visited} pages", table)
    async for row in _rows(reader, "sitemaps"):
        console.print(f"  {_short(str(row['url']))}, a sitemap, listed {row['urls']} of them.")


def _blocked(console: Console, rows: Sequence[Row]) -> None:
    table = _table("URL", "rule of robots.txt", ">line", "")

    def rule(row: Row) -> tuple[str, ...]:
        return tuple(str(row[name] or "") for name in ("robots_url", "line", "reason", "rule"))

    for _, alike in itertools.groupby(sorted(rows, key=rule), key=rule):
        group = list(alike)
        for row in group[:URLS_PER_RULE]:
            table.add_row(
                _short(str(row["url"])), str(row["rule"] or ""), str(row["line"] or ""), _note(row)
            )
        if len(group) > URLS_PER_RULE:
            table.add_row(f"… and {len(group) - URLS_PER_RULE} more by this rule", "", "", "")
    _section(console, f"Blocked: {len(rows)} URLs", table)
    if withdrawn := sum(1 for row in rows if row["withdrawn"]):
        console.print(
            f"  {withdrawn} of them had been fetched while their robots.txt could not be had.\n"
            "  When it came it was obeyed at once, and they were withdrawn."
        )


def _note(row: Row) -> str:
    if row["withdrawn"]:
        return "withdrawn"
    return "redirects to it" if row["reason"] == "redirect" else ""


def _next(console: Console, db: Path, url: str | None) -> None:
    console.print()
    console.print("What to try next", style="bold")
    courtly = command_here()
    lines = [("the whole list", f"{courtly} show blocked --db {db}")]
    if url:
        lines.append(("why one of them is not visited", f"{courtly} why '{url}' --db {db}"))
    own = 'crawl https://example.com/ --user-agent "mybot/1.0 (+https://example.org/bot)"'
    lines.append(("a crawl of your own; say who you are", f"{courtly} {own}"))
    for purpose, command in lines:
        console.print(f"  # {purpose}", style="dim")
        # whole on one line of its own, so that it can be copied
        console.print(Text(f"  {command}", style="cyan"), soft_wrap=True)
    console.print()
    console.print(Text(f"The database is kept: {db}"), soft_wrap=True)


def command_here() -> str:
    """How the command is called from where we are: as it was, if its bare name leads nowhere."""
    called = sys.argv[0]
    if shutil.which("courtly") or Path(called).name != "courtly":
        return "courtly"
    return shlex.quote(called)


def _example(rows: Sequence[Row]) -> str | None:
    """A URL worth asking `why` about: one that had been fetched first, if there is one."""
    ranked = sorted(rows, key=lambda row: (not row["withdrawn"], row["reason"] != "robots"))
    return str(ranked[0]["url"]) if ranked else None


def _section(console: Console, title: str, table: Table) -> None:
    console.print()
    console.print(title, style="bold")
    if table.row_count:
        console.print(table)


def _table(*columns: str) -> Table:
    """A column whose name begins with ">" is of numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")
    table.padding = (0, 2, 0, 0)
    for name in columns:
        number = name.startswith(">")
        table.add_column(
            name.removeprefix(">"),
            justify="right" if number else "left",
            no_wrap=number or name == "host",
            overflow="fold",
        )
    return table


def _short(url: str) -> str:
    """Without the scheme and the port, which are alike everywhere on the demo's web."""
    return f"{host_of(url)}{path_of(url)}"


async def _rows(reader: Reader, view: str) -> AsyncIterator[Row]:
    async for row in reader.iterate(view):
        yield row
