"""`courtly why`: everything known of one URL or host, in words (law 8)."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler.cli import interpreter
from crawler.cli.errors import stdout_needed
from crawler.cli.options import (
    as_given,
    config_option,
    configured,
    database_of,
    db_option,
    host_name,
    user_agent_option,
)
from crawler.cli.text import echo, say

if TYPE_CHECKING:
    from crawler.config import Config
    from crawler.telling.explain import Asked, Explained
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
    from crawler.telling.explain import Asked

    asked = Asked(
        config=config, again=given, default=config_file is None, named=user_agent is not None
    )
    interpreter.run(_why(path, asked, what.strip()))


async def _why(path: Path, asked: Asked, what: str) -> None:
    from crawler.app import looking_into
    from crawler.politeness.reading import reading

    async with looking_into(path) as reader:
        if asked.default and (known := await reading(reader)):
            if asked.named:
                del known["token"]
            config = asked.config.override({"robots": known}, where="the database")
            asked = replace(asked, config=config)
        if "/" in what:
            await _of_url(reader, asked, what, path)
        else:
            await _of_host(reader, asked.config, what, path)


async def _of_url(reader: Reader, asked: Asked, text: str, path: Path | None = None) -> None:
    from crawler.telling.explain import explain_url
    from policies.url import SeedError

    def waits(host: Row) -> str:
        return _living(path, str(host["host"]))

    try:
        told = await explain_url(reader, asked, text, now_s=time.time(), waits=waits)
    except SeedError as error:
        raise click.UsageError(str(error).replace("the seed", "the URL", 1)) from None
    _show(told)


async def _of_host(reader: Reader, config: Config, text: str, path: Path | None = None) -> None:
    from crawler.telling.explain import explain_host, known_host

    name = host_name(text)
    row = await known_host(reader, name)
    waits = "" if row is None else _living(path, str(row["host"]))
    _show(await explain_host(reader, config, name, now_s=time.time(), waits=waits))


def _living(path: Path | None, host: str) -> str:
    """What a host is doing in the crawl that holds the database, if one does and holds the host."""
    from crawler.daemon import client
    from crawler.daemon.problem import Problem

    if path is None:
        return ""
    try:
        answer = client.ask(path, "GET", "/api/host", query={"host": host})
    except (client.NobodyAnswersError, Problem):
        return ""
    now = answer.get("now")
    if not isinstance(now, dict):
        return ""
    return str(answer["wait_reason"] or now["state"])


def _show(told: Explained) -> None:
    echo(told.name, bold=True)
    for sentence in told.sentences:
        say(f"  {sentence}")
