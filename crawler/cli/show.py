"""`courtly show`: the views of a database, beside a crawl that may be writing it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from crawler.cli.options import config_option, db_option, existing_database, host_name

# As storage.rows.VIEWS, which is too heavy to import for --help; a test compares them.
VIEWS = ("visited", "blocked", "failed", "queued", "hosts", "robots", "skipped")


@click.command(short_help="Show what was visited, blocked, failed or queued, and the hosts.")
@click.argument("view", type=click.Choice(VIEWS))
@db_option
@config_option
@click.option("--host", metavar="H", help="Only rows of this host.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="So many rows at most.")
@click.option(
    "--format",
    "how",
    type=click.Choice(["table", "jsonl", "csv"]),
    default="table",
    show_default=True,
    help="A table has the main columns, the others have all.",
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
    robots.txt files it knows, and how many URLs were left out for which reason.
    """
    if host is not None and view == "skipped":
        raise click.UsageError("what was skipped is counted for the whole crawl: leave out --host.")
    name = None if host is None else host_name(host)
    path = existing_database(config_file, db)

    async def run() -> None:
        from crawler.app import open_reader
        from crawler.cli.rows import write

        reader = open_reader(path)
        try:
            await write(view, reader.iterate(view, host=name, limit=limit), how)
        finally:
            await reader.close()

    asyncio.run(run())
