"""`courtly export`: write a view to a file, even while a crawl is running."""

from __future__ import annotations

import sys
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path

import click

from crawler.cli import process
from crawler.cli.atomic_file import replacing
from crawler.cli.options import (
    Choice,
    DatabaseOptions,
    database_options,
    host_option,
    output_option,
)
from crawler.cli.output_format import chosen_format
from crawler.cli.standard_streams import flush_stdout, require_stdout
from crawler.cli.text import bytes_out, echo

SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
VIEWS = ("visited", "blocked", "failed", "links", "malformed", "fragments")


@click.command(short_help="Export visited, blocked or failed URLs, or links, to a file.")
@click.argument("view", type=Choice(VIEWS), metavar="VIEW")
@click.option(
    "--format",
    "given",
    type=Choice(["csv", "jsonl", "parquet"]),
    help="In CSV, cells that look like formulas are quoted. Parquet requires the extra `parquet`.  "
    "[default: by the suffix of --output, else csv]",
)
@database_options
@host_option("Export only rows of this host. A port is ignored.")
@output_option
def export(
    view: str, given: str | None, database: DatabaseOptions, host: str | None, output: Path | None
) -> None:
    """Export all rows and columns of a view of the database, in the order in which the URLs were
    discovered. A crawl that is writing to the database is not blocked: each row is exported as it
    was when it was read.

    VIEW is one of visited, blocked, failed, links, malformed and fragments. Links and malformed
    links are stored if `[storage] links` is true, links with a fragment if `[storage] fragments` is
    true.
    """
    how = chosen_format(given, output, SUFFIXES, default="csv")
    if output is None:
        require_stdout()
        if how == "parquet" and sys.stdout.isatty():
            raise click.UsageError("Parquet is a binary format: name a file with --output.")
    if how == "parquet" and find_spec("pyarrow") is None:
        raise click.UsageError(
            "Parquet requires pyarrow, which is not installed: "
            "run pip install 'courtly[parquet]', or choose csv or jsonl."
        )
    location = database.location()

    async def write_view() -> None:
        from crawler.cli.view_table import empty_view
        from crawler.databases import looking_into
        from crawler.reports import exports

        # The generator is closed before the reader if writing fails.
        async with (
            looking_into(location) as reader,
            aclosing(reader.iterate(view, host=host)) as rows,
        ):
            if output is None:
                count = await exports.write(view, rows, how, bytes_out())
                flush_stdout(fsync=True)
            else:
                with replacing(output) as out:
                    count = await exports.write(view, rows, how, out)
        if not count:
            echo(empty_view(view), err=True)

    process.run(write_view())
