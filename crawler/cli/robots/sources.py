"""The robots.txt that a command works on: from a file, standard input, or a polite fetch."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler.explain.robots_tester import KnownRobots
from policies.robots_state import UNKNOWN, RobotsState
from policies.url import SeedError, origin_of, parse_seed, robots_url

if TYPE_CHECKING:
    from crawler.config import Config
    from crawler.embedding.session import PoliteSession

FILE_BYTES_MAX = 16_000_000  # more is not read; only the first 500 KiB of a robots.txt count
STDIN = "-"


def read(file: str) -> KnownRobots:
    """Read a robots.txt from a path or, for `-`, from standard input. Raises UsageError."""
    try:
        if file == STDIN:
            body = sys.stdin.buffer.read(FILE_BYTES_MAX)
        else:
            with Path(file).open("rb") as stream:
                body = stream.read(FILE_BYTES_MAX)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise click.UsageError(f"cannot read {file}: {why}") from None
    now_s = time.time()
    known = RobotsState(
        status=200, body=body, copy_at=now_s, fetched_at=now_s, expires_at=now_s + 1
    )
    return KnownRobots(where=file, access=known, now_s=now_s, fetched=False)


def listed(urls: Iterable[str], *, stdin_is_robots: bool) -> list[str]:
    """Replace `@FILE` by the lines of a file, and `@-` or `-` by those of standard input, without
    blank lines and comments. The URLs are not changed. Raises UsageError."""
    from crawler.config import lines_of

    found: list[str] = []
    for text in urls:
        if not text.startswith("@") and text != STDIN:
            found.append(text)
            continue
        name = text.removeprefix("@").strip()
        if name == STDIN and stdin_is_robots:
            raise click.UsageError(
                "standard input cannot be both robots.txt and the list of URLs: name a file"
            )
        lines = lines_of(None if name == STDIN else Path(name))
        if not lines:
            where = "standard input" if name == STDIN else name
            raise click.UsageError(f"{where} contains no URL")
        found += lines
    return found


def fetch(config: Config, urls: Iterable[str]) -> list[KnownRobots]:
    """Fetch the robots.txt that governs each URL, once per origin, following redirects.

    If a host cannot be connected to, only the error is known. Raises UsageError for an invalid URL,
    and ConfigError if the user agent lacks the contact that requests to other machines require.
    """
    import asyncio

    from crawler.cli.safe_console import safe_console
    from crawler.config import check_identity

    origins = [_origin(url) for url in urls]
    wanted = list(dict.fromkeys(origins))
    check_identity(config, [f"{origin}/" for origin in wanted])
    # Report errors immediately instead of retrying: the user is waiting.
    config = config.override({"fetch": {"max_attempts": 1}})
    console = safe_console(err=True)
    if console.is_terminal:
        names = robots_url(wanted[0]) + (f" and {len(wanted) - 1} more" if wanted[1:] else "")
        with console.status(f"fetching {names}"):
            found = asyncio.run(_fetch_all(config, wanted))
    else:
        found = asyncio.run(_fetch_all(config, wanted))
    return [found[origin] for origin in origins]


def _origin(url: str) -> str:
    try:
        return origin_of(parse_seed(url))
    except SeedError as error:
        sentence = str(error).replace("the seed", "the URL", 1)
        raise click.UsageError(f"{sentence}; or name a file with --robots") from None


async def _fetch_all(config: Config, origins: list[str]) -> dict[str, KnownRobots]:
    import asyncio

    from crawler.embedding.session import PoliteSession

    async with (
        PoliteSession(config=config.without_database()) as session,
        asyncio.TaskGroup() as tasks,
    ):
        found = {origin: tasks.create_task(_fetch(session, origin)) for origin in origins}
    return {origin: task.result() for origin, task in found.items()}


async def _fetch(session: PoliteSession, origin: str) -> KnownRobots:
    from crawler.errors import FetchFailed

    error = ""
    try:
        access = await session.robots(f"{origin}/")
    except FetchFailed as failed:
        access, error = UNKNOWN, failed.failure.sentence
    return KnownRobots(
        where=robots_url(origin), access=access, now_s=time.time(), fetched=True, error=error
    )


def name_of(known: KnownRobots) -> str:
    """The path or URL of the robots.txt, or "standard input"."""
    return "standard input" if known.where == STDIN else known.where
