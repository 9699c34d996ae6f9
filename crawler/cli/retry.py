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
from crawler.telling.words import counted


@click.command(short_help="Queue failed URLs again.")
@click.argument("what", type=Choice(["failed"]), metavar="failed")
@click.option("--host", metavar="H", help="Only the URLs of this host.")
@db_option
@config_option
def retry(what: str, host: str | None, db: str | None, config_file: Path | None) -> None:
    """Queue failed URLs again. A crawl that runs on the database asks for them when their turn
    comes, else the next one does."""
    del what  # so far there is nothing else to retry
    name = None if host is None else host_name(host)
    path = existing_database(config_file, db)

    count, by_crawl = _retry(path, name)
    if not count:
        click.echo("no URL has failed" if name is None else f"no URL of {name} has failed")
        return
    who = "the crawl that runs" if by_crawl else f"courtly crawl{as_given(config_file, db)}"
    click.echo(
        f"{counted(count, 'failed URL')} queued again: "
        f"{who} asks for {'it' if count == 1 else 'them'}"
    )


def _retry(path: Path, host: str | None) -> tuple[int, bool]:
    """How many were queued again, and whether by a crawl that runs. Raises UsageError for a host
    that the database does not know."""
    body: dict[str, object] = {} if host is None else {"host": host}
    answer = living.ask(path, "POST", "/api/retry", body=body)
    if answer is None:
        return interpreter.run(_directly(path, host)), False
    count = answer["retried"]
    return (count if isinstance(count, int) else 0), True


async def _directly(path: Path, host: str | None) -> int:
    from crawler.by_hand import retry_failed

    if host is not None:
        await living.known_name(path, host)
    return await retry_failed(path, host)
