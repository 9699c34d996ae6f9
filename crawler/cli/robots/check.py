"""`courtly robots check`: from URLs to verdicts, each by the robots.txt that governs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import click

from crawler.cli.errors import FAILED, tell
from crawler.cli.robots.as_json import as_json
from crawler.cli.robots.files import read
from crawler.cli.text import echo_json
from crawler.config import Config
from crawler.telling.tester import Judge, Judgement, Known
from crawler.telling.words import plain
from policies import robots
from policies.url import host_of, unparsed_shown, without_userinfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the options say; empty: as the config has it for the URL's host."""

    config: Config
    agents: tuple[str, ...]
    dialects: tuple[str, ...]
    every: bool  # a table of all dialects


def check(asked: Asked, urls: Sequence[str], file: str | None, *, json_lines: bool) -> None:
    """Print a verdict on each URL. UsageError before anything is fetched; SystemExit(1) at the end
    where a robots.txt could not be asked for."""
    urls = [without_userinfo(url) for url in urls]
    if file is None:
        found = _fetched(asked, urls)
    else:
        for url in urls:
            if "://" not in url and not url.startswith("/"):
                raise click.UsageError(no_url(url))
        known = read(file)
        found = [(url, known) for url in urls]
    judges: dict[tuple[str, tuple[str, ...]], Judge] = {}
    silent = 0
    for number, (url, known) in enumerate(found):
        host = _host(url)
        agents = asked.agents or asked.config.token(host)
        rules = asked.config.site(host).robots
        judge = judges.get((known.where, agents))
        if judge is None:
            judge = judges[known.where, agents] = Judge(known, agents, rules)
        judgement = judge.judge(url, asked.dialects or rules.dialect)
        if judgement is None:
            silent += 1
            _without_verdict(url, known, json_lines=json_lines)
        elif json_lines:
            answer = as_json(url, judge, judgement, judge.judge_in_every(url))
            echo_json(answer)
        else:
            _show(asked, url, judge, judgement, first=not number)
    if silent:
        raise SystemExit(FAILED)


def no_url(text: str) -> str:
    """Why a text cannot be judged by a file."""
    shown = unparsed_shown(text)[1:-1]
    return f'"{shown}" is neither a URL such as https://example.com/a nor a path such as /a'


def _fetched(asked: Asked, urls: Sequence[str]) -> list[tuple[str, Known]]:
    from crawler.cli.robots.fetch import fetch, origin_to_ask  # loads what the network needs

    origins = [origin_to_ask(url) for url in urls]
    known = fetch(asked.config, origins)
    return [(url, known[origin]) for url, origin in zip(urls, origins, strict=True)]


def _host(url: str) -> str:
    """The host of a URL as given, for the config's rules; "" where it has none."""
    from policies.url import canonical

    known = canonical(url)
    return host_of(known) if known else ""


def _without_verdict(url: str, known: Known, *, json_lines: bool) -> None:
    error = f"{known.where} could not be asked for: {known.error}"
    if json_lines:
        echo_json({"url": url, "error": error})
    else:
        tell(f"{plain(url)}: no verdict; {plain(error)}")


def _show(asked: Asked, url: str, judge: Judge, judgement: Judgement, *, first: bool) -> None:
    from crawler.cli.robots import view as robots_view

    view = robots_view.View()
    if not first:
        view.line()
    every = judge.judge_in_every(url)
    if asked.every:
        first_of = asked.dialects or asked.config.site(_host(url)).robots.dialect
        view.table(url, judge, every, first_of[0] if first_of else robots.SLURP.name)
    else:
        view.verdict(url, judge, judgement, every)
