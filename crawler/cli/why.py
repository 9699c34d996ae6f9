"""`courtly why`: everything known of one URL or host, in words (law 8)."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler.cli.errors import stdout_needed
from crawler.cli.options import (
    as_given,
    config_option,
    configured,
    database_of,
    db_option,
    host_name,
    known_host,
    user_agent_option,
)
from crawler.cli.text import counted, say

if TYPE_CHECKING:
    from crawler.config import Config
    from policies.scope import Scope
    from storage.base import Reader, Row


@click.command(short_help="Say all that is known of a URL or a host.")
@click.argument("what", metavar="URL|HOST")
@db_option
@config_option
@user_agent_option
def why(what: str, db: str | None, config_file: Path | None, user_agent: str | None) -> None:
    """Say all that is known of a URL (its state and the reason, the verdict of robots.txt, what it
    waits for) or of a host (its clock, its rest and where that comes from, its robots.txt).

    The verdict on a blocked URL is made from the copy of robots.txt that it was blocked by, also
    where the file has changed since; on other URLs from the latest copy. It is made for the user
    agent and dialect of --config, else as the latest crawl read robots.txt, or for --user-agent.
    What scope and limits say is judged by --config, too, and by the seeds that the database has.
    """
    stdout_needed()
    config = configured(config_file, db)
    path = database_of(config)
    if user_agent is not None:
        config = config.override({"crawl": {"user_agent": user_agent}}, where="--user-agent")
    given = as_given(config_file, db)
    asked = Asked(
        config=config, again=given, default=config_file is None, named=user_agent is not None
    )
    asyncio.run(_why(path, asked, what.strip()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the options say."""

    config: Config
    again: str = ""  # the options that name database and config, for what is suggested
    default: bool = False  # no config was given: the crawl's own may judge otherwise
    named: bool = False  # a user agent was given

    @property
    def whose(self) -> str:
        return "the default config" if self.default else "this config"


async def _why(path: Path, asked: Asked, what: str) -> None:
    from crawler.app import open_reader, reading

    reader = open_reader(path)
    try:
        if asked.default and (known := await reading(reader)):
            if asked.named:
                del known["token"]
            config = asked.config.override({"robots": known}, where="the database")
            asked = replace(asked, config=config)
        if "/" in what:
            await _of_url(reader, asked, what)
        else:
            await _of_host(reader, asked.config, what)
    finally:
        await reader.close()


async def _of_url(reader: Reader, asked: Asked, text: str) -> None:
    from crawler.cli import reasons
    from policies.url import SeedError, host_of, parse_seed

    config = asked.config
    try:
        url = parse_seed(text)
    except SeedError as error:
        raise click.UsageError(str(error).replace("the seed", "the URL", 1)) from None
    row = await reader.url(url)
    if row is None:  # perhaps it is known without the parameters that the config drops
        shorter = (await _scope(reader, config)).admit(url)
        if shorter != url and (row := await reader.url(shorter)):
            url = shorter
    now_s = time.time()
    click.secho(url, bold=True)
    if row is None:
        _say(("unknown to this database: no seed or link that was followed leads to it",))
        _say(await _left_out(reader, asked, url, None))
        host = await known_host(reader, host_of(url))
    else:
        _say(reasons.of_url(row, now_s, again=asked.again))
        host = await reader.host(str(row["host"]))
        if row["state"] == "queued" and host is not None:
            held = await _left_out(reader, asked, url, row) or _full(asked, host)
            _say(held)
            if asked.default or not held:
                _say(reasons.waits(host, now_s))
    _say(await _verdict(reader, config, url, row, host))


async def _scope(reader: Reader, config: Config) -> Scope:
    """The scope by this config, around the seeds that the database has and those of the config."""
    from crawler.config import ConfigError, seeds_of
    from policies.scope import Scope

    scope = Scope(lambda host: config.site(host).scope, max_depth=config.crawl.max_depth)
    seeds = list(await reader.seeds())
    with contextlib.suppress(ConfigError):  # a file of seeds that is gone is no matter here
        seeds += seeds_of(config)
    for seed in seeds:
        scope.add_root(seed)
    return scope


async def _left_out(reader: Reader, asked: Asked, url: str, row: Row | None) -> list[str]:
    """Whether scope, judged by the config at hand, does not want this URL (queued, or unknown)."""
    from crawler.cli import reasons
    from policies.url import host_of

    depth = row["depth"] if row is not None else 0
    scope = await _scope(reader, asked.config)
    skip = scope.judge(
        url,
        host=host_of(url),
        depth=depth if isinstance(depth, int) else 0,
        seed=row is not None and not row.get("referrer"),
    )
    if skip is not None:
        told = reasons.left_out(skip, asked.whose)
        return [f"{told}; the crawl's own is named with --config" if asked.default else told]
    return [] if row is not None else [f"{asked.whose} lets it in, if a link leads to it"]


def _full(asked: Asked, host: Row) -> list[str]:
    """Whether its host has had all the pages that the config at hand grants it."""
    most = asked.config.site(str(host["host"])).scope.max_pages_per_host
    visited = host["visited"]
    if not isinstance(visited, int) or visited < most:
        return []
    granted = f"{asked.whose} grants it {most:,.0f} (scope.max_pages_per_host)"
    return [f"held back: its host has had {counted(visited, 'page')}, and {granted}"]


async def _verdict(
    reader: Reader, config: Config, url: str, row: Row | None, host_row: Row | None
) -> list[str]:
    """The verdict: of a blocked URL by the copy it was made on, else by what is known now."""
    from crawler.cli import reasons
    from policies import robots
    from policies.access import Rules, standing
    from policies.url import host_of, origin_of, path_of, robots_url

    origin, host = origin_of(url), host_of(url)
    copy = await reader.robots_copy(origin)
    if copy is None or (copy.status is None and not copy.failures):
        if reasons.out_of_reach(host_row, row):
            return [reasons.no_connection(origin)]
        return [f"{robots_url(origin)}: not asked for yet"]
    now_s = time.time()
    known = {each["origin"]: each async for each in reader.iterate("robots", host=host)}
    lines = [reasons.of_robots(known[origin], now_s)] if origin in known else []
    rules = config.site(host).robots
    blocked = row if row is not None and row["state"] == "blocked" else None
    if blocked is not None and str(blocked["dialect"]) in robots.DIALECTS:
        rules = dataclasses.replace(rules, dialect=(str(blocked["dialect"]),))
    tokens = config.token(host)
    whose = f"for the token {', '.join(tokens)}"
    body = None if blocked is None else await reader.robots_body(url)
    if blocked is not None and body is not None:
        file = robots.parse(body)
        if blocked["reason"] == "redirect":  # judged was the URL at the end, by its own file
            return [*lines, *reasons.of_line(file, blocked)]
        verdict = file.decide(path_of(url), agent=tokens, dialect=rules.dialect)
        if verdict.line != blocked["line"]:
            lines += reasons.of_line(file, blocked)
            whose += " (not the one it was blocked for)"
        elif body != copy.body:
            lines.append("robots.txt has changed since; the copy that this was judged by says:")
        lines.append(f"{whose}: {verdict}")
        if body == copy.body:
            return lines
        whose = "the copy there is now says"
    stands = standing(copy, now_s=now_s, rules=rules)
    if not isinstance(stands, Rules):
        return lines + reasons.without_rules(stands, now_s)
    verdict = robots.parse(stands.body).decide(path_of(url), agent=tokens, dialect=rules.dialect)
    return [*lines, f"{whose}: {verdict}"]


async def _of_host(reader: Reader, config: Config, text: str) -> None:
    from crawler.cli import reasons
    from policies.access import standing
    from policies.url import host_of

    name = host_name(text)
    row = await known_host(reader, name)
    if row is None:
        click.secho(name, bold=True)
        _say(("unknown to this database: no URL of this host was ever queued",))
        return
    now_s = time.time()
    slot = str(row["host"])
    files = row["robots"] if isinstance(row["robots"], list | tuple) else ()
    (counts,) = [each async for each in reader.iterate("hosts", host=slot)]
    click.secho(slot, bold=True)
    _say(reasons.of_host(row, now_s))
    _say(reasons.contacts(counts, row["contacts"]))  # the view's are their number
    if not files and reasons.out_of_reach(row):
        _say(("robots.txt: no connection could be made to ask for it",))
    for each in files:
        copy = await reader.robots_copy(each["origin"])
        rules = config.site(host_of(f"{each['origin']}/")).robots
        stands = None if copy is None else standing(copy, now_s=now_s, rules=rules)
        _say((reasons.of_robots(each, now_s), *reasons.without_rules(stands, now_s)))


def _say(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        say(f"  {sentence}")
