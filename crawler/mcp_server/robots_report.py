"""What the robots.txt of an origin says for this crawler, in sentences and quoted lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from crawler.config import Config
from crawler.config.units import format_duration
from crawler.explain.formatting import at, plain
from crawler.explain.robots_tester import KnownRobots, RobotsTester, UrlVerdict
from crawler.mcp_server.site_text import marked
from policies.robots import DIALECTS, RobotsFile, Verdict
from policies.robots_state import next_due_at
from policies.url import host_of, origin_of

LINES_SHOWN_MAX: Final = 100
LINE_CHARS_MAX: Final = 300
SITEMAPS_SHOWN_MAX: Final = 20


def verdict_sentences(
    config: Config, known: KnownRobots, url: str, *, every_dialect: bool = False
) -> list[str]:
    """Whether robots.txt allows the URL, and the reason. `every_dialect`: and what crawlers that
    read robots.txt otherwise would decide. May take a second for a hostile file: to be called in a
    thread."""
    tester = RobotsTester(known, config.token(host_of(url)), config.site(host_of(url)).robots)
    result = tester.judge(url, config.site(host_of(url)).robots.dialect)
    if result is None:
        return [f"No verdict: nothing is known of {known.where} yet."]
    found = [f"Verdict: {plain(result.reason)}", *_read_as(config, url, result)]
    if result.verdict is not None:
        found += _details(result.verdict)
    if every_dialect:
        others = {
            name: each.allowed
            for name, each in tester.judge_in_every(url).items()
            if each.allowed != result.allowed
        }
        found.append(
            f"All {len(DIALECTS)} dialects agree."
            if not others
            else f"Decided otherwise by {', '.join(others)}; courtly obeys the dialect of its "
            "config."
        )
    return found


def robots_report(config: Config, known: KnownRobots, url: str) -> str:
    """The state of the robots.txt, the verdict on the URL, and the lines for this crawler."""
    parts = [_state(known), *verdict_sentences(config, known, url)]
    if (body := known.access.body) is not None:
        file = RobotsFile(body)
        rules = config.site(host_of(url)).robots
        verdict = file.decide(url, agent=config.token(host_of(url)), dialect=rules.dialect)
        parts.append(marked("\n".join(_quoted(file, verdict)), origin_of(url)))
    return "\n".join(parts)


def _state(known: KnownRobots) -> str:
    access = known.access
    answer = f"status {access.status}" if access.status is not None else "no answer"
    size = "" if access.body is None else f", {len(access.body):,} bytes"
    read = access.copy_at or access.fetched_at
    when = "" if read is None else f", read at {at(read)}"
    due = next_due_at(access)
    again = "" if due is None else f"; it is read again after {at(due)}"
    error = f" ({plain(access.error)})" if access.error else ""
    return f"{known.where}: {answer}{error}{size}{when}{again}."


def _read_as(config: Config, url: str, result: UrlVerdict) -> Iterator[str]:
    tokens = ", ".join(config.token(host_of(url)))
    yield f"Read as the crawler `{tokens}` in the dialect {result.dialect}."


def _details(verdict: Verdict) -> Iterator[str]:
    if (delay_s := verdict.rules.crawl_delay_s) is not None:
        yield f"It asks for {format_duration(delay_s)} between requests."


def _quoted(file: RobotsFile, verdict: Verdict) -> Iterator[str]:
    """The lines of the groups for this crawler, with their numbers, and the sitemaps."""
    lines = file.lines
    numbers = [n for group in verdict.rules.chosen.groups for n in range(group.start, group.end)]
    shown = numbers[:LINES_SHOWN_MAX]
    deciding = verdict.line
    if deciding is not None and deciding - 1 not in shown:
        shown.append(deciding - 1)
    for n in shown:
        text = plain(lines[n].text)
        if not text.strip():
            continue
        short = text if len(text) <= LINE_CHARS_MAX else text[: LINE_CHARS_MAX - 1] + "…"
        yield f"{n + 1}: {short}{'   <- decides' if n + 1 == deciding else ''}"
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
