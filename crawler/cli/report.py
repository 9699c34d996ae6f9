"""`courtly report`: reports on a site, for people and for CI."""

from __future__ import annotations

from pathlib import Path

import click

from crawler.cli import process
from crawler.cli.atomic_file import replacing
from crawler.cli.exit_codes import FAILED
from crawler.cli.options import (
    Choice,
    DatabaseOptions,
    database_options,
    existing_database,
    output_option,
)
from crawler.cli.standard_streams import flush_stdout, require_stdout
from crawler.cli.text import write_out

REPORTS = ("broken", "robots", "duplicates", "politeness")


@click.command(
    short_help="Report broken links, disallowed URLs, duplicates or politeness.",
    epilog="Exit codes: 0 done, 1 failure at run time, or `politeness` found a violation, "
    "2 bad usage or config.",
)
@click.argument("report", type=Choice(REPORTS), metavar="REPORT")
@click.option(
    "--format",
    "how",
    type=Choice(["text", "html", "json"]),
    default="text",
    show_default=True,
    help="HTML is a single self-contained file.",
)
@database_options
@output_option
def report(report: str, how: str, database: DatabaseOptions, output: Path | None) -> None:
    """Read a database, even while a crawl is writing to it. REPORT is one of:

    \b
    broken      broken links, with the pages that contain them
    robots      URLs that robots.txt disallowed, by host and rule
    duplicates  pages with identical bodies, including soft 404s
    politeness  each host's shortest delay and highest concurrency, and,
                if --config is given, compared with its limits
    """
    if output is None:
        require_stdout()
    config = database.config()
    location = existing_database(config)

    async def write_report() -> bool:
        from crawler.databases import looking_into
        from crawler.reports.broken import BrokenLinks
        from crawler.reports.findings import Disallowed, Duplicates
        from crawler.reports.formats import write
        from crawler.reports.politeness_audit import PolitenessAudit
        from crawler.reports.report_sections import Report

        async with looking_into(location) as reader:
            made: Report
            match report:
                case "broken":
                    made = BrokenLinks(reader)
                case "robots":
                    made = Disallowed(reader)
                case "duplicates":
                    made = Duplicates(reader)
                case _:
                    made = PolitenessAudit(reader, config if database.config_file else None)
            if output is None:
                await write(made, how, write_out)
                flush_stdout(fsync=True)
            else:
                with replacing(output) as file:
                    await write(made, how, lambda text: file.write(text.encode("utf-8", "replace")))
            return made.politeness_violated

    if process.run(write_report()):
        raise SystemExit(FAILED)
