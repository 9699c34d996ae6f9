"""`courtly report`: reports on a site, for people and for CI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler.cli import process
from crawler.cli.atomic_file import replacing
from crawler.cli.exit_codes import FAILED, FOUND
from crawler.cli.options import (
    Choice,
    DatabaseOptions,
    database_options,
    existing_database,
    output_option,
)
from crawler.cli.output_format import chosen_format
from crawler.cli.standard_streams import flush_stdout, require_stdout
from crawler.cli.text import write_out

if TYPE_CHECKING:
    from crawler.reports.report_sections import Report

SUFFIXES = {".txt": "text", ".html": "html", ".htm": "html", ".json": "json"}
REPORTS = ("broken", "robots", "duplicates", "politeness")


@click.command(
    short_help="Report broken links, disallowed URLs, duplicates or politeness.",
    epilog="Exit codes: 0 done, 1 failure at run time, or `politeness` found a violation, "
    "2 bad usage or config, 3 `--fail`, and the report found something.",
)
@click.argument("report", type=Choice(REPORTS), metavar="REPORT")
@click.option(
    "--format",
    "given",
    type=Choice(["text", "html", "json"]),
    help="HTML is a single self-contained file.  [default: by the suffix of --output, else text]",
)
@click.option(
    "--fail",
    is_flag=True,
    help="Exit with code 3 if the report finds something: a broken link, a disallowed URL or "
    "identical bodies.",
)
@database_options
@output_option
def report(
    report: str,
    given: str | None,
    fail: bool,
    database: DatabaseOptions,
    output: Path | None,
) -> None:
    """Read a database, even while a crawl is writing to it. REPORT is one of:

    \b
    broken      broken links, with the pages that contain them
    robots      URLs that robots.txt disallowed, by host and rule
    duplicates  pages with identical bodies, including soft 404s
    politeness  each host's shortest delay and highest concurrency, and,
                if --config is given, compared with its limits
    """
    how = chosen_format(given, output, SUFFIXES, default="text")
    if fail and report == "politeness":
        raise click.UsageError(
            "--fail: not for `politeness`, which exits with code 1 if it finds a violation"
        )
    if output is None:
        require_stdout()
    config = database.config()
    location = existing_database(config)

    async def write_report() -> Report:
        from crawler.databases import looking_into
        from crawler.reports.broken import BrokenLinks
        from crawler.reports.findings import Disallowed, Duplicates
        from crawler.reports.formats import write
        from crawler.reports.politeness_audit import PolitenessAudit

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
            return made

    written = process.run(write_report())
    if written.politeness_violated:
        raise SystemExit(FAILED)
    if fail and written.found_anything:
        raise SystemExit(FOUND)
