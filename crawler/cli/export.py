"""`courtly export`: a view as a file for other programs, also while a crawl runs."""

from __future__ import annotations

import sys
from contextlib import aclosing
from pathlib import Path

import click

from crawler.cli import interpreter
from crawler.cli.errors import stdout_needed
from crawler.cli.options import (
    Choice,
    config_option,
    db_option,
    existing_database,
    host_name,
    output_option,
)
from crawler.cli.text import bytes_out, echo
from crawler.cli.whole_output import finish_stdout, replacing

VIEWS = ("visited", "blocked", "failed", "links", "malformed", "fragments")


@click.command(short_help="Write what was visited, blocked or failed, or the links, as a file.")
@click.argument("view", type=Choice(VIEWS), metavar="VIEW")
@click.option(
    "--format",
    "how",
    type=Choice(["csv", "jsonl", "parquet"]),
    default="csv",
    show_default=True,
    help="In CSV no cell can start a formula; Parquet needs the extra `parquet`.",
)
@db_option
@config_option
@click.option("--host", metavar="H", help="Only rows of this host; a port does not count.")
@output_option
def export(
    view: str,
    how: str,
    db: str | None,
    config_file: Path | None,
    host: str | None,
    output: Path | None,
) -> None:
    """Write all rows of a view of the database, with all columns, in the order in which the URLs
    were met. A crawl may be writing the database meanwhile, and is not held up: each row is as it
    was when it was read.

    VIEW is one of visited, blocked, failed, links, malformed and fragments. Links, and those that
    are malformed, are kept where `[storage] links` is true; links with a fragment where
    `[storage] fragments` is true.
    """
    if output is None:
        stdout_needed()
        if how == "parquet" and sys.stdout.isatty():
            raise click.UsageError("Parquet is nothing to look at: name a file with --output.")
    if how == "parquet":
        _pyarrow_needed()
    name = None if host is None else host_name(host)
    path = existing_database(config_file, db)

    async def run() -> None:
        from crawler.app import looking_into
        from crawler.cli.rows import nothing_in
        from crawler.reports import exports

        # a generator left half-way must be closed before the connection it reads from
        async with (
            looking_into(path) as reader,
            aclosing(reader.iterate(view, host=name)) as rows,
        ):
            if output is None:
                count = await exports.write(view, rows, how, bytes_out())
                finish_stdout(fsync=True)
            else:
                with replacing(output) as out:
                    count = await exports.write(view, rows, how, out)
        if not count:
            echo(nothing_in(view), err=True)

    interpreter.run(run())


def _pyarrow_needed() -> None:
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise click.UsageError(
            "Parquet is written by pyarrow, which is not installed: "
            "pip install 'courtly[parquet]', or choose csv or jsonl."
        )
