"""robots.txt files fetched politely, for `courtly robots check` and `lint`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

import click

from crawler.cli import screen
from crawler.config import Config, check_identity
from crawler.embedding.session import PoliteSession
from crawler.errors import FetchFailed
from crawler.telling.tester import Known
from policies.access import UNKNOWN
from policies.url import SeedError, origin_of, parse_seed, robots_url


def origin_to_ask(url: str) -> str:
    """The origin whose robots.txt governs a URL as given. Raises UsageError."""
    try:
        return origin_of(parse_seed(url))
    except SeedError as error:
        sentence = str(error).replace("the seed", "the URL", 1)
        raise click.UsageError(f"{sentence}; or name a file with --robots") from None


def fetch(config: Config, origins: Iterable[str]) -> dict[str, Known]:
    """The robots.txt of each origin, asked for once, at its host's turn, redirects followed.

    Of a host that cannot be connected to, nothing is known but the error. Raises ConfigError: law
    10 asks for a user agent with a contact before anybody beyond this machine is asked.
    """
    wanted = list(dict.fromkeys(origins))
    check_identity(config, [f"{origin}/" for origin in wanted])
    # A person waits: a host that cannot be connected to is not tried again here.
    config = config.override({"fetch": {"max_attempts": 1}})
    console = screen.console(err=True)
    if not console.is_terminal:
        return asyncio.run(_fetch(config, wanted))
    names = robots_url(wanted[0]) + (f" and {len(wanted) - 1} more" if wanted[1:] else "")
    with console.status(f"asking for {names}"):
        return asyncio.run(_fetch(config, wanted))


async def _fetch(config: Config, origins: list[str]) -> dict[str, Known]:
    async with PoliteSession(config=config) as session, asyncio.TaskGroup() as tasks:
        found = {origin: tasks.create_task(_one(session, origin)) for origin in origins}
    return {origin: task.result() for origin, task in found.items()}


async def _one(session: PoliteSession, origin: str) -> Known:
    error = ""
    try:
        access = await session.robots(f"{origin}/")
    except FetchFailed as failed:
        access, error = UNKNOWN, failed.failure.sentence
    return Known(
        where=robots_url(origin), access=access, now_s=time.time(), fetched=True, error=error
    )
