"""`courtly robots check`: the verdict on each URL by the robots.txt that governs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from crawler.cli.exit_codes import FAILED, FOUND, print_problems
from crawler.cli.robots.sources import STDIN, fetch, listed, read
from crawler.cli.text import echo, echo_json
from crawler.config import Config
from crawler.explain.formatting import counted, plain
from crawler.explain.robots_tester import RobotsTester, UrlVerdict
from policies.url import canonical, host_of, unparsed_shown, without_userinfo


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """The options of the command. Without agents or dialects, the config's for each host apply."""

    config: Config
    agents: tuple[str, ...]
    dialects: tuple[str, ...]
    all_dialects: bool  # print a table of all dialects
    as_json: bool
    expected: bool | None  # whether every URL is to be allowed; None: no matter


def check(urls: Sequence[str], file: str | None, options: CheckOptions) -> None:
    """Print the verdict on each URL, by `file` or by the robots.txt of its origin.

    Raises UsageError before anything is fetched, and finally SystemExit: with code 1 if a
    robots.txt could not be requested, otherwise with code 3 if a verdict is not the expected one.
    """
    urls = [without_userinfo(url) for url in listed(urls, stdin_is_robots=file == STDIN)]
    if file is None:
        found = fetch(options.config, urls)
    else:
        for url in urls:
            if "://" not in url and not url.startswith("/"):
                raise click.UsageError(invalid_url(url))
        found = [read(file)] * len(urls)
    testers: dict[tuple[str, tuple[str, ...]], RobotsTester] = {}
    missing = False
    unexpected = shown = 0
    for url, known in zip(urls, found, strict=True):
        url_canonical = canonical(url)
        host = host_of(url_canonical) if url_canonical else ""
        agents = options.agents or options.config.token(host)
        rules = options.config.site(host).robots
        dialects = options.dialects or rules.dialect
        tester = testers.get((known.where, agents))
        if tester is None:
            tester = testers[known.where, agents] = RobotsTester(known, agents, rules)
        result = tester.judge(url, dialects)
        if result is None:
            missing = True
            error = f"{known.where} could not be requested: {known.error}"
            if options.as_json:
                echo_json({"url": url, "error": error})
            else:
                print_problems(f"{plain(url)}: no verdict; {plain(error)}")
            continue
        by_dialect = tester.judge_in_every(url)
        differs = options.expected is not None and any(
            each.allowed != options.expected
            for each in (result, *(by_dialect.values() if options.all_dialects else ()))
        )
        unexpected += differs
        if options.as_json:
            echo_json(as_json(url, tester, result, by_dialect))
        elif differs or options.expected is None:
            from crawler.cli.robots.verdict_view import VerdictView  # with rich, slow to import

            view = VerdictView()
            if shown:
                view.line()
            shown += 1
            if options.all_dialects:
                view.table(url, tester, by_dialect, dialects[0])
            else:
                view.verdict(url, tester, result, by_dialect)
    if unexpected:
        opposite = "disallowed" if options.expected else "allowed"
        where = " in some dialect" if options.all_dialects else ""
        verb = "is" if unexpected == 1 else "are"
        of = counted(len(urls), "URL")
        print_problems(f"--expect: {unexpected:,} of {of} {verb} {opposite}{where}")
    elif options.expected is not None and not missing and not options.as_json:
        verb = "is" if len(urls) == 1 else "are"
        answer = "allowed" if options.expected else "disallowed"
        where = " in every dialect" if options.all_dialects else ""
        echo(f"{counted(len(urls), 'URL')} {verb} {answer}{where}, as expected.")
    if missing:
        raise SystemExit(FAILED)
    if unexpected:
        raise SystemExit(FOUND)


def invalid_url(text: str) -> str:
    """Return why no verdict is possible."""
    shown = unparsed_shown(text)[1:-1]
    return f'"{shown}" is neither a URL such as https://example.com/a nor a path such as /a'


def as_json(
    url: str, tester: RobotsTester, result: UrlVerdict, by_dialect: Mapping[str, UrlVerdict]
) -> dict[str, object]:
    """The verdict on one URL; docs/robots.md describes the keys."""
    verdict = result.verdict
    deciding = verdict.deciding if verdict else None
    return {
        "url": url,
        "allowed": result.allowed,
        "rule": result.rule,
        "line": result.line,
        "dialect": result.dialect,
        "agent": list(tester.agents),
        "reason": result.reason,
        "robots": tester.known.where,
        "state": result.state,
        "status": tester.known.access.status if tester.known.fetched else None,
        "group": verdict.group if verdict else None,
        "group_lines": list(verdict.group_lines) if verdict else [],
        "span": list(verdict.span) if verdict and verdict.span else None,
        "length": deciding.octets if deciding else None,
        "compared": verdict.compared if verdict else None,
        "noindex": bool(verdict and verdict.noindex),
        "losers": [
            {"rule": rule.quote, "line": rule.line, "length": rule.octets}
            for rule in (verdict.losers if verdict else ())
        ],
        "crawl_delay_s": verdict.rules.crawl_delay_s if verdict else None,
        "relied_on": list(verdict.relied_on) if verdict else [],
        "ours": list(verdict.ours) if verdict else [],
        "dialects": {
            name: {"allowed": each.allowed, "rule": each.rule, "line": each.line}
            for name, each in by_dialect.items()
        },
    }
