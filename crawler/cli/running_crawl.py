"""Requests to the crawl that has a database open, through its Unix socket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from storage.location import Location


def ask(
    database: Location, method: str, route: str, *, body: Mapping[str, object] | None = None
) -> Mapping[str, object] | None:
    """The answer of the running crawl; None if no crawl runs or it has no socket, as with
    PostgreSQL. Raises UsageError if it rejects the request, and ClickException if it fails."""
    from crawler.daemon.problem import Problem

    try:
        return request(database, method, route, body=body)
    except Problem as problem:
        kind = click.UsageError if problem.status < 500 else click.ClickException
        raise kind(problem.detail) from None


def request(
    database: Location, method: str, route: str, *, body: Mapping[str, object] | None = None
) -> Mapping[str, object] | None:
    """As `ask`, but raises Problem."""
    from crawler.daemon import control_client
    from storage.location import FileLocation

    if not isinstance(database, FileLocation):
        return None
    try:
        return control_client.ask(database.path, method, route, body=body)
    except control_client.NobodyAnswersError:
        return None


async def known_name(database: Location, host: str) -> str:
    """The host's name in the database. Raises UsageError for an unknown host, and StoreError."""
    from crawler.databases import looking_into
    from crawler.explain.explanation import known_host

    async with looking_into(database) as reader:
        row = await known_host(reader, host)
    if row is None:
        raise click.UsageError(
            f"{host} is unknown to {database}: no URL on this host has ever been queued"
        )
    return str(row["host"])


def number(value: object) -> int:
    """A count in an answer."""
    return value if isinstance(value, int) else 0
