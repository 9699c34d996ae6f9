"""Commands on a database that a crawl may hold: it is asked through its socket, and where there is
none the database is opened."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click


def ask(
    database: Path, method: str, route: str, *, body: Mapping[str, object] | None = None
) -> Mapping[str, object] | None:
    """What the crawl that holds the database answers; None: nobody holds it, or has a socket. What
    it refuses is raised as bad usage, or as a failure."""
    from crawler.daemon import client
    from crawler.daemon.problem import Problem

    try:
        return client.ask(database, method, route, body=body)
    except client.NobodyAnswersError:
        return None
    except Problem as problem:
        kind = click.UsageError if problem.status < 500 else click.ClickException
        raise kind(problem.detail) from None


async def known_name(database: Path, host: str) -> str:
    """The host as the database names it. Raises UsageError for one it does not know, StoreError."""
    from crawler.app import looking_into
    from crawler.telling.explain import known_host

    async with looking_into(database) as reader:
        row = await known_host(reader, host)
    if row is None:
        raise click.UsageError(f"{host} is unknown to {database}: no URL of it was ever queued")
    return str(row["host"])
