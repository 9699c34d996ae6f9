"""`courtly crawl --fail-on`: an exit code of its own if a crawl ends with certain URLs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from crawler.cli import process
from crawler.cli.exit_codes import FAILED, FOUND, print_problems
from crawler.explain.formatting import counted

if TYPE_CHECKING:
    from crawler.events import Summary
    from storage.location import Location

KINDS: Final = ("broken", "failed", "blocked", "queued")


def fail(kinds: Sequence[str], summary: Summary, location: Location, *, options: str) -> None:
    """Print a sentence for each of `kinds` of which there are URLs.

    The counts are those of the whole database. options: those that name the database, for suggested
    commands. Raises SystemExit(3) if there were any, otherwise SystemExit(1) if the crawl ended
    because of a problem of this machine or its network, so that URLs were not requested.
    """
    counts = {"failed": summary.failed, "blocked": summary.blocked, "queued": summary.queued}
    problems = []
    for kind in dict.fromkeys(kinds):
        if kind == "broken":
            if found := process.run(_broken(location)):
                problems.append(f"--fail-on broken: {found} courtly report broken{options}")
        elif count := counts[kind]:
            verb = "is" if count == 1 else "are"
            problems.append(
                f"--fail-on {kind}: {counted(count, 'URL')} {verb} {kind}: "
                f"courtly show {kind}{options}"
            )
    if problems:
        print_problems(*problems)
        raise SystemExit(FOUND)
    if summary.held:
        print_problems(f"--fail-on: the crawl is not complete: {summary.held[0].sentence}")
        raise SystemExit(FAILED)


async def _broken(location: Location) -> str:
    """The result of the report on broken links; "" if there are none."""
    from contextlib import aclosing

    from crawler.databases import looking_into
    from crawler.reports.broken import BrokenLinks

    async with looking_into(location) as reader:
        report = BrokenLinks(reader)
        async with aclosing(report.sections()) as sections:
            async for _ in sections:
                pass
        return report.result.removesuffix(".") + ":" if report.found_anything else ""
