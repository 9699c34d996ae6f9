"""What the robots.txt of an origin says for this crawler, in sentences and quoted lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from crawler.config import Config
from crawler.config.units import format_duration
from crawler.explain.formatting import at, plain
from crawler.explain.robots_tester import KnownRobots, RobotsTester, UrlVerdict
from crawler.explain.site_text import SiteText
from crawler.mcp_server.answers import Answer, deciding
from policies.robots import DIALECTS, RobotsFile, Verdict
from policies.robots_state import next_due_at
from policies.url import host_of

LINES_SHOWN_MAX: Final = 100
LINE_CHARS_MAX: Final = 300
SITEMAPS_SHOWN_MAX: Final = 20


def add_verdict(
    answer: Answer, config: Config, known: KnownRobots, url: str, *, every_dialect: bool = False
) -> None:
    """Add whether robots.txt allows the URL, and the reason. `every_dialect`: and what crawlers
    that read robots.txt otherwise would decide. May take a second for a hostile file: to be called
    in a thread."""
    tester = RobotsTester(known, config.token(host_of(url)), config.site(host_of(url)).robots)
    result = tester.judge(url, config.site(host_of(url)).robots.dialect)
    if result is None:
        answer.say(f"No verdict: nothing is known of {known.where} yet.")
        return
    answer.say(f"Verdict: {_decided(result)}")
    answer.quote("Verdict", SiteText(result.reason))
    tokens = ", ".join(config.token(host_of(url)))
    answer.say(f"Read as the crawler `{tokens}` in the dialect {result.dialect}.")
    if result.verdict is not None and (delay_s := result.verdict.rules.crawl_delay_s) is not None:
        answer.say(f"It asks for {format_duration(delay_s)} between requests.")
    if every_dialect:
        others = {
            name: each.allowed
            for name, each in tester.judge_in_every(url).items()
            if each.allowed != result.allowed
        }
        answer.say(
            f"All {len(DIALECTS)} dialects agree."
            if not others
            else f"Decided otherwise by {', '.join(others)}; courtly obeys the dialect of its "
            "config."
        )


def add_report(answer: Answer, config: Config, known: KnownRobots, url: str) -> None:
    """Add the state of the robots.txt, the verdict on the URL, and the lines for this crawler."""
    answer.say(_state(known))
    if known.access.error:
        answer.quote("Error", SiteText(known.access.error))
    add_verdict(answer, config, known, url)
    if (body := known.access.body) is not None:
        file = RobotsFile(body)
        rules = config.site(host_of(url)).robots
        verdict = file.decide(url, agent=config.token(host_of(url)), dialect=rules.dialect)
        answer.quote_text(SiteText("\n".join(_quoted(file, verdict))))


def _decided(result: UrlVerdict) -> str:
    """The verdict in our own words."""
    if result.verdict is not None:
        return deciding(result.verdict)
    allowed = "Allowed" if result.allowed else "Disallowed"
    return f"{allowed}: there is no copy of robots.txt that decides (dialect {result.dialect})."


def _state(known: KnownRobots) -> str:
    access = known.access
    answer = f"status {access.status}" if access.status is not None else "no answer"
    size = "" if access.body is None else f", {len(access.body):,} bytes"
    read = access.copy_at or access.fetched_at
    when = "" if read is None else f", read at {at(read)}"
    due = next_due_at(access)
    again = "" if due is None else f"; it is read again after {at(due)}"
    return f"{known.where}: {answer}{size}{when}{again}."


def _quoted(file: RobotsFile, verdict: Verdict) -> Iterator[str]:
    """The lines of the groups for this crawler, with their numbers, and the sitemaps."""
    lines = file.lines
    numbers = [n for group in verdict.rules.chosen.groups for n in range(group.start, group.end)]
    shown = numbers[:LINES_SHOWN_MAX]
    deciding_line = verdict.line
    if deciding_line is not None and deciding_line - 1 not in shown:
        shown.append(deciding_line - 1)
    for n in shown:
        text = plain(lines[n].text)
        if not text.strip():
            continue
        short = text if len(text) <= LINE_CHARS_MAX else text[: LINE_CHARS_MAX - 1] + "…"
        yield f"{n + 1}: {short}{'   <- decides' if n + 1 == deciding_line else ''}"
    if len(numbers) > LINES_SHOWN_MAX:
        yield f"({len(numbers) - LINES_SHOWN_MAX:,} more lines)"
    quoted = {lines[n].value for n in shown}
    sitemaps = [sitemap for sitemap in file.sitemaps if sitemap not in quoted]
    for sitemap in sitemaps[:SITEMAPS_SHOWN_MAX]:
        yield f"Sitemap: {plain(sitemap)[:LINE_CHARS_MAX]}"
    if len(sitemaps) > SITEMAPS_SHOWN_MAX:
        yield f"({len(sitemaps) - SITEMAPS_SHOWN_MAX:,} more sitemaps)"
    for usage in file.usages[:SITEMAPS_SHOWN_MAX]:
        values = ", ".join(f"{key}={value}" for key, value in usage.values)
        yield f"{usage.field} for {plain(usage.path)}: {plain(values)}"[:LINE_CHARS_MAX]
