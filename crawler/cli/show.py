"""`courtly show`: the views of a database, beside a crawl that may be writing it."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import click

from crawler.cli import interpreter
from crawler.cli.errors import stdout_needed
from crawler.cli.options import Choice, config_option, db_option, existing_database, host_name

# As storage.rows.VIEWS, which is too heavy to import for --help; a test compares them.
VIEWS = (
    "visited", "blocked", "failed", "queued", "links", "hosts", "robots", "skipped", "sitemaps",
    "listings", "malformed", "fragments",
)  # fmt: skip


@click.command(short_help="Show what was visited, blocked, failed or queued, and the hosts.")
@click.argument("view", type=Choice(VIEWS), metavar="VIEW")
@db_option
@config_option
@click.option("--host", metavar="H", help="Only rows of this host; a port does not count.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="So many rows at most.")
@click.option(
    "--format",
    "how",
    type=Choice(["table", "jsonl", "csv"]),
    default="table",
    show_default=True,
    help="A table has the columns that say most and fit; jsonl and csv have all.",
)
def show(
    view: str,
    db: str | None,
    config_file: Path | None,
    host: str | None,
    limit: int | None,
    how: str,
) -> None:
    """Show what a crawl has visited, blocked (and by which rule), failed or queued; its hosts, the
    robots.txt files it knows, how many URLs were left out for which reason (skipped), the sitemaps
    and feeds it has read, what those say of URLs (listings), and the links of its pages and
    those that are malformed where `[storage] links` is true, and those with a fragment where
    `[storage] fragments` is.

    VIEW is one of visited, blocked, failed, queued, links, hosts, robots, skipped, sitemaps,
    listings, malformed and fragments.
    """
    stdout_needed()
    if host is not None and view == "skipped":
        raise click.UsageError("what was skipped is counted for the whole crawl: leave out --host.")
    name = None if host is None else host_name(host)
    path = existing_database(config_file, db)

    async def run() -> None:
        from crawler.app import looking_into
        from crawler.cli.rows import write

        # a generator left half-way must be closed before the connection it reads from
        async with (
            looking_into(path) as reader,
            aclosing(reader.iterate(view, host=name, limit=limit)) as rows,
        ):
            await write(view, rows, how)

    interpreter.run(run())
