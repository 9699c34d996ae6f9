"""`courtly seeds`: list the seeds of a crawl, and add some."""

from __future__ import annotations

from contextlib import aclosing
from itertools import islice
from typing import TYPE_CHECKING

import click

from crawler.cli import process, running_crawl
from crawler.cli.exit_codes import MISUSED, print_problems
from crawler.cli.options import (
    Choice,
    DatabaseOptions,
    database_options,
    dry_run_option,
    format_option,
)
from crawler.cli.paging import rows_of_pages
from crawler.cli.standard_streams import require_stdout
from crawler.cli.text import say
from crawler.explain.formatting import counted, plain

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable

    from storage.read_records import RowPage
    from storage.reader import Reader
    from storage.store import Row

# Those of `crawler.daemon.api.url_lists`, which is too slow to import; a test compares them.
STATES = ("queued", "visited", "blocked", "failed", "sitemap", "skipped")


@click.group(short_help="List the seeds of a crawl, or add some.")
def seeds() -> None:
    """List the seeds of a crawl, or add seeds to a running crawl, or to a database for its next
    crawl."""


@seeds.command("list", short_help="List the seeds with their states.")
@click.option(
    "--state",
    type=Choice(STATES),
    metavar="STATE",
    help=f"Only seeds in this state: {', '.join(STATES)}.",
)
@click.option("--search", default="", metavar="TEXT", help="Only seeds whose URL contains this.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="List at most N seeds.")
@format_option
@database_options
def list_seeds(
    state: str | None, search: str, limit: int | None, how: str, database: DatabaseOptions
) -> None:
    """List the seeds, those added last first: whether each was visited, with its status, is
    queued or blocked, or failed, and why. `sitemap`: it was read as one; `skipped`: scope excludes
    it by now, or an operator dropped it."""
    require_stdout()
    location = database.location()

    async def write_seeds() -> None:
        from crawler.cli.view_table import write
        from crawler.databases import looking_into

        async with (
            looking_into(location) as reader,
            aclosing(_seeds(reader, search, state or "", limit)) as rows,
        ):
            empty = "no seed matches" if state or search else "there are no seeds"
            await write("seeds", rows, how, empty=empty)

    process.run(write_seeds())


def _seeds(reader: Reader, text: str, state: str, limit: int | None) -> AsyncGenerator[Row, None]:
    def page(count: int, after: str) -> Awaitable[RowPage]:
        return reader.seeds_page(text=text, state=state, limit=count, after=after)

    return rows_of_pages(page, limit)


@seeds.command(short_help="Queue URLs as seeds.")
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option(
    "--priority",
    type=float,
    default=0.0,
    show_default=True,
    metavar="N",
    help="URLs with a higher priority are fetched first, within their host.",
)
@dry_run_option
@database_options
def add(urls: tuple[str, ...], priority: float, dry_run: bool, database: DatabaseOptions) -> None:
    """Queue URLs as seeds. A URL is absolute, @FILE with one URL per line, or @- for such lines
    on standard input. If one of them is invalid, none is queued.

    A running crawl starts with them immediately. They extend the scope of the crawl like any seed.
    """
    from crawler.config import from_dict, seeds_of
    from crawler.operator_commands import SEEDS_MAX, AddSeeds

    config = database.config()
    left = iter(seeds_of(from_dict({}), urls, stdin=True))
    added, known, refused = 0, 0, list[str]()
    while batch := tuple(islice(left, SEEDS_MAX)):
        with running_crawl.refusals():
            command = AddSeeds(urls=batch, priority=priority, dry_run=dry_run)
        done = running_crawl.carry_out(config, command).result
        added, known = added + done.added, known + done.known
        refused += [f"{one.url}: {one.reason}" for one in done.refused]
    already = f", {known:,} already known" if known else ""
    done_to = "would be queued" if dry_run else "queued"
    say(f"{counted(added, 'new seed')} {done_to}{already}")
    for sentence in refused:
        print_problems(plain(sentence))
    if refused:
        raise SystemExit(MISUSED)
