"""The results of `courtly demo`, from the database of its crawl."""

from __future__ import annotations

import itertools
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from crawler.cli.crawl_summary import as_text
from crawler.cli.text import wrapped
from crawler.events import Summary
from policies.url import host_of, path_of
from storage.reader import Reader
from storage.store import Row

URLS_PER_RULE = 4  # shown; the others are counted


async def show(console: Console, reader: Reader, summary: Summary, *, db: Path) -> None:
    """Print visited and blocked pages, the summary of the crawl, and commands to try."""
    await _visited(console, reader, summary)
    blocked = [row async for row in reader.iterate("blocked")]
    _blocked(console, blocked)
    console.print()
    text = as_text(summary, options=f" --db {db}", blocked=False)
    console.print(Text(wrapped(text, console.width)), soft_wrap=True)
    _next_steps(console, db, blocked)


async def _visited(console: Console, reader: Reader, summary: Summary) -> None:
    table = _table("host", ">visited", ">blocked", ">failed", ">queued", ">delay", "because of")
    async for row in reader.iterate("hosts"):
        delay_s = row["delay_s"]
        table.add_row(
            *(str(row[name]) for name in ("host", "visited", "blocked", "failed", "queued")),
            f"{delay_s:.2g} s" if isinstance(delay_s, float | int) and delay_s else "",
            str(row["delay_source"] or ""),
        )
    _section(console, f"Visited: {summary.visited} pages", table)
    async for row in reader.iterate("sitemaps"):
        if row["urls"]:
            console.print(f"  The sitemap {_short(row)} listed {row['urls']} of them.")


def _blocked(console: Console, rows: Sequence[Row]) -> None:
    table = _table("URL", "rule in robots.txt", ">line", "")

    def rule(row: Row) -> tuple[str, ...]:
        return tuple(str(row[name] or "") for name in ("robots_url", "line", "reason", "rule"))

    for _, same_rule in itertools.groupby(sorted(rows, key=rule), key=rule):
        group = list(same_rule)
        for row in group[:URLS_PER_RULE]:
            note = "redirects to it" if row["reason"] == "redirect" else ""
            note = "withdrawn" if row["withdrawn"] else note
            table.add_row(_short(row), str(row["rule"] or ""), str(row["line"] or ""), note)
        if len(group) > URLS_PER_RULE:
            table.add_row(f"… and {len(group) - URLS_PER_RULE} more by this rule", "", "", "")
    _section(console, f"Blocked: {len(rows)} URLs", table)
    if withdrawn := sum(1 for row in rows if row["withdrawn"]):
        console.print(
            f"  {withdrawn} of them had been fetched while robots.txt was unavailable. They were\n"
            "  withdrawn as soon as it arrived and disallowed them."
        )


def _next_steps(console: Console, db: Path, blocked: Sequence[Row]) -> None:
    console.print("\nWhat to try next", style="bold")
    courtly = command_name()
    commands = [("List all blocked URLs.", f"{courtly} show blocked --db {db}")]
    # Preferably explain a page that had been fetched and was withdrawn.
    ranked = sorted(blocked, key=lambda row: (not row["withdrawn"], row["reason"] != "robots"))
    if ranked:
        commands.append(("Explain one of them.", f"{courtly} why '{ranked[0]['url']}' --db {db}"))
    own = 'crawl https://example.com/ --user-agent "mybot/1.0 (+https://example.org/bot)"'
    commands.append(("Crawl a site, and identify yourself.", f"{courtly} {own}"))
    for purpose, command in commands:
        console.print(f"  # {purpose}", style="dim")
        # On one line, so that it can be copied.
        console.print(Text(f"  {command}", style="cyan"), soft_wrap=True)
    console.print(Text(f"\nThe database is kept: {db}"), soft_wrap=True)


def command_name() -> str:
    """The command as it was called, if it is not in the search path."""
    called = sys.argv[0]
    if shutil.which("courtly") or Path(called).name != "courtly":
        return "courtly"
    return shlex.quote(called)


def _section(console: Console, title: str, table: Table) -> None:
    console.print(f"\n{title}", style="bold")
    if table.row_count:
        console.print(table)


def _table(*columns: str) -> Table:
    """A table. Columns of numbers have names that begin with ">"."""
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


def _short(row: Row) -> str:
    """The URL without the scheme and the port, which are the same for all pages."""
    url = str(row["url"])
    return f"{host_of(url)}{path_of(url)}"
