"""`courtly report`: what a database says about a site, for people and for CI."""

from __future__ import annotations

from pathlib import Path

import click

from crawler.cli import interpreter
from crawler.cli.errors import FAILED, stdout_needed
from crawler.cli.options import (
    Choice,
    config_option,
    configured,
    database_of,
    db_option,
    output_option,
)
from crawler.cli.text import write_out
from crawler.cli.whole_output import finish_stdout, replacing

REPORTS = ("broken", "robots", "duplicates", "politeness")


@click.command(
    short_help="Report broken links, what robots.txt forbade, duplicates, politeness.",
    epilog="Exit codes: 0 done, 1 a run-time failure, or `politeness` found a host that was "
    "hurried, 2 bad usage or config.",
)
@click.argument("report", type=Choice(REPORTS), metavar="REPORT")
@click.option(
    "--format",
    "how",
    type=Choice(["text", "html", "json"]),
    default="text",
    show_default=True,
    help="HTML is one file that needs nothing else.",
)
@db_option
@config_option
@output_option
def report(
    report: str, how: str, db: str | None, config_file: Path | None, output: Path | None
) -> None:
    """Read a database, also while a crawl writes it, and report one of:

    \b
    broken      each broken link, with the pages that link to it
    robots      what robots.txt forbade, by host and rule
    duplicates  pages with identical bodies, soft 404s among them
    politeness  each host's smallest rest and largest concurrency; with --config
                against its delays and limits
    """
    if output is None:
        stdout_needed()
    config = configured(config_file, db)
    path = database_of(config)

    async def run() -> bool:
        from crawler.app import looking_into
        from crawler.reports import findings
        from crawler.reports.base import Report
        from crawler.reports.politeness import politeness
        from crawler.reports.render import write

        async with looking_into(path) as reader:
            made: Report
            if report == "politeness":
                made = politeness(reader, config if config_file is not None else None)
            else:
                made = getattr(findings, report)(reader)
            if output is None:
                await write(made, how, write_out)
                finish_stdout(fsync=True)
            else:
                with replacing(output) as file:
                    await write(made, how, lambda text: file.write(text.encode("utf-8", "replace")))
            return made.broken_law()

    if interpreter.run(run()):
        raise SystemExit(FAILED)
