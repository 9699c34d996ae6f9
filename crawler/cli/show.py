"""`courtly show`: print a view of the database, even while a crawl is writing to it."""

from __future__ import annotations

from contextlib import aclosing

import click

from crawler.cli import process
from crawler.cli.options import (
    Choice,
    DatabaseOptions,
    database_options,
    format_option,
    host_option,
)
from crawler.cli.standard_streams import require_stdout

# The keys of storage.columns.VIEWS, which is too slow to import for --help; a test compares them.
VIEWS = (
    "visited", "blocked", "failed", "queued", "links", "hosts", "robots", "skipped", "sitemaps",
    "listings", "malformed", "fragments",
)  # fmt: skip


@click.command(short_help="Show pages by state, hosts, links, robots.txt files and sitemaps.")
@click.argument("view", type=Choice(VIEWS), metavar="VIEW")
@database_options
@host_option("Show only rows of this host. A port is ignored.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Show at most N rows.")
@format_option
def show(
    view: str, database: DatabaseOptions, host: str | None, limit: int | None, how: str
) -> None:
    """Show a view of the database. VIEW is one of:

    \b
    visited    pages that were fetched
    blocked    URLs that robots.txt disallows, and the rule
    failed     URLs that failed, and the error
    queued     URLs to be fetched
    hosts      hosts with their counts and delays
    robots     the robots.txt files
    skipped    how many URLs scope and limits excluded, by reason
    sitemaps   sitemaps and feeds that were read
    listings   what sitemaps and feeds say about URLs
    links      links between pages, if `[storage] links` is true
    malformed  malformed links, if `[storage] links` is true
    fragments  links with a fragment, if `[storage] fragments` is true
    """
    require_stdout()
    if host is not None and view == "skipped":
        raise click.UsageError("skipped URLs are counted for the whole crawl: omit --host.")
    location = database.location()

    async def write_view() -> None:
        from crawler.cli.view_table import write
        from crawler.databases import looking_into

        # The generator is closed before the reader if writing fails.
        async with (
            looking_into(location) as reader,
            aclosing(reader.iterate(view, host=host, limit=limit)) as rows,
        ):
            await write(view, rows, how)

    process.run(write_view())
