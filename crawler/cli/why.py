"""`courtly why`: everything known of one URL or host, in words (law 8)."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler.cli.options import (
    config_option,
    configured,
    db_option,
    existing_database,
    host_name,
    known_host,
    user_agent_option,
)

if TYPE_CHECKING:
    from crawler.config import Config
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
    agent and dialect of --config, or for --user-agent.
    """
    path = existing_database(config_file, db)
    config = configured(config_file, db)
    if user_agent is not None:
        config = config.override({"crawl": {"user_agent": user_agent}}, where="--user-agent")
    asyncio.run(_why(path, config, what.strip()))


async def _why(path: Path, config: Config, what: str) -> None:
    from crawler.app import open_reader

    reader = open_reader(path)
    try:
        if "/" in what:
            await _of_url(reader, config, what)
        else:
            await _of_host(reader, config, what)
    finally:
        await reader.close()


async def _of_url(reader: Reader, config: Config, text: str) -> None:
    from crawler.cli import reasons
    from policies.scope import Scope
    from policies.url import SeedError, parse_seed

    try:
        url = parse_seed(text)
    except SeedError as error:
        raise click.UsageError(str(error).replace("the seed", "the URL", 1)) from None
    row = await reader.url(url)
    if row is None:  # perhaps it is known without the parameters that the config drops
        shorter = Scope(lambda host: config.site(host).scope).admit(url)
        if shorter != url and (row := await reader.url(shorter)):
            url = shorter
    now_s = time.time()
    click.secho(url, bold=True)
    if row is None:
        _say(("unknown to this database: no seed or link that was followed leads to it",))
    else:
        _say(reasons.of_url(row, now_s))
        host = await reader.host(str(row["host"]))
        if row["state"] == "queued" and host is not None:
            _say(reasons.waits(host, now_s))
    _say(await _verdict(reader, config, url, row))


async def _verdict(reader: Reader, config: Config, url: str, row: Row | None) -> list[str]:
    """The verdict: of a blocked URL by the copy it was made on, else by what is known now."""
    from crawler.cli import reasons
    from policies import robots
    from policies.access import Rules, standing
    from policies.url import host_of, origin_of, path_of, robots_url

    origin, host = origin_of(url), host_of(url)
    copy = await reader.robots_copy(origin)
    if copy is None:
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
    ring, files = row["contacts"], row["robots"]  # the view's `contacts` is their number
    async for counted in reader.iterate("hosts", host=slot, limit=1):
        row = counted
    click.secho(slot, bold=True)
    _say(reasons.of_host(row, now_s))
    _say(reasons.contacts(row, ring))
    for each in files if isinstance(files, list | tuple) else ():
        copy = await reader.robots_copy(each["origin"])
        rules = config.site(host_of(f"{each['origin']}/")).robots
        stands = None if copy is None else standing(copy, now_s=now_s, rules=rules)
        _say((reasons.of_robots(each, now_s), *reasons.without_rules(stands, now_s)))


def _say(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        click.echo(f"  {sentence}")
