"""`courtly why`: explain the state of a URL or host."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from crawler.cli import process
from crawler.cli.options import (
    DatabaseOptions,
    database_options,
    existing_database,
    host_name,
    user_agent_option,
    with_options,
)
from crawler.cli.standard_streams import require_stdout
from crawler.cli.text import echo, say

if TYPE_CHECKING:
    from crawler.config import Config
    from crawler.explain.explanation import ExplainContext, Explanation
    from storage.location import Location
    from storage.reader import Reader
    from storage.store import Row


@click.command(short_help="Explain the state of a URL or host.")
@click.argument("what", metavar="URL|HOST")
@database_options
@user_agent_option
def why(what: str, database: DatabaseOptions, user_agent: str | None) -> None:
    """Explain the state of a URL (why it is in that state, the verdict of robots.txt, what it is
    waiting for) or of a host (when it may be contacted next, its delay and the reason for it, its
    robots.txt).

    For a blocked URL, the verdict is by the copy of robots.txt that blocked it, even if the file
    has changed since; for other URLs, by the latest copy. The verdict uses the user agent and
    dialect of --config if it is given, and of the latest crawl otherwise; --user-agent replaces the
    user agent. Scope and limits are those of --config, applied to the seeds in the database.
    """
    require_stdout()
    config = database.config()
    location = existing_database(config)
    from crawler.explain.explanation import ExplainContext

    asked = ExplainContext(
        config=with_options(config, user_agent=user_agent, allow=()),
        again=str(database),
        default=database.config_file is None,
        named=user_agent is not None,
    )
    process.run(_why(location, asked, what.strip()))


async def _why(location: Location, asked: ExplainContext, what: str) -> None:
    from crawler.databases import looking_into
    from crawler.scheduling.robots_identity import reading

    async with looking_into(location) as reader:
        if asked.default and (known := await reading(reader)):
            if asked.named:
                del known["token"]
            config = asked.config.override({"robots": known}, where="the database")
            asked = replace(asked, config=config)
        if "/" in what:
            await _explain_url(reader, asked, what, location)
        else:
            await _explain_host(reader, asked.config, what, location)


async def _explain_url(
    reader: Reader, asked: ExplainContext, text: str, location: Location | None = None
) -> None:
    from crawler.explain.explanation import explain_url
    from policies.url import SeedError

    def waits(host: Row) -> str:
        return _activity(location, str(host["host"]))

    try:
        explained = await explain_url(reader, asked, text, now_s=time.time(), waits=waits)
    except SeedError as error:
        raise click.UsageError(str(error).replace("the seed", "the URL", 1)) from None
    _print(explained)


async def _explain_host(
    reader: Reader, config: Config, text: str, location: Location | None = None
) -> None:
    from crawler.explain.explanation import explain_host, known_host

    name = host_name(text)
    row = await known_host(reader, name)
    waits = "" if row is None else _activity(location, str(row["host"]))
    _print(await explain_host(reader, config, name, now_s=time.time(), waits=waits))


def _activity(location: Location | None, host: str) -> str:
    """The activity of a host in the running crawl; "" without a crawl or its socket, or if it is
    not crawling that host."""
    from crawler.daemon import control_client
    from crawler.daemon.problem import Problem
    from storage.location import FileLocation

    if not isinstance(location, FileLocation):
        return ""
    try:
        answer = control_client.ask(location.path, "GET", "/api/host", query={"host": host})
    except (control_client.NobodyAnswersError, Problem):
        return ""
    now = answer.get("now")
    if not isinstance(now, dict):
        return ""
    return str(answer["wait_reason"] or now["state"])


def _print(explained: Explanation) -> None:
    echo(explained.name, bold=True)
    for sentence in explained.sentences:
        say(f"  {sentence}")
