"""`courtly retry`: another chance for what failed."""

from __future__ import annotations

from pathlib import Path

import click

from crawler.cli import interpreter, living
from crawler.cli.options import (
    Choice,
    as_given,
    config_option,
    db_option,
    existing_database,
    host_name,
)
from crawler.cli.text import echo
from crawler.telling.words import counted


@click.command(short_help="Queue failed URLs again.")
@click.argument("what", type=Choice(["failed", "quarantined"]), metavar="WHAT")
@click.option("--host", metavar="H", help="Only the URLs of this host.")
@db_option
@config_option
def retry(what: str, host: str | None, db: str | None, config_file: Path | None) -> None:
    """Queue failed URLs again. WHAT is `failed`, for all of them, or `quarantined`, for those that
    were in flight when the process died, twice, robots.txt included.

    A crawl that runs on the database asks for them when their turn comes, else the next one
    does."""
    code = None if what == "failed" else what
    name = None if host is None else host_name(host)
    path = existing_database(config_file, db)

    count, by_crawl = _retry(path, name, code)
    if not count:
        done = "has failed" if code is None else f"is {code}"
        echo(f"no URL {done}" if name is None else f"no URL of {name} {done}")
        return
    who = "the crawl that runs" if by_crawl else f"courtly crawl{as_given(config_file, db)}"
    echo(
        f"{counted(count, f'{what} URL')} queued again: "
        f"{who} asks for {'it' if count == 1 else 'them'}"
    )


def _retry(path: Path, host: str | None, code: str | None) -> tuple[int, bool]:
    """How many were queued again, and whether by a crawl that runs. Raises UsageError for a host
    that the database does not know."""
    given = {"host": host, "code": code}
    body: dict[str, object] = {key: value for key, value in given.items() if value is not None}
    answer = living.ask(path, "POST", "/api/retry", body=body)
    if answer is None:
        return interpreter.run(_directly(path, host, code)), False
    count = answer["retried"]
    return (count if isinstance(count, int) else 0), True


async def _directly(path: Path, host: str | None, code: str | None) -> int:
    from crawler.by_hand import retry_failed

    if host is not None:
        await living.known_name(path, host)
    return await retry_failed(path, host, code)
