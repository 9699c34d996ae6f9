"""`courtly retry` and `courtly drop`: queue failed URLs again, or forget them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from crawler.cli import process, running_crawl
from crawler.cli.options import Choice, DatabaseOptions, database_options, host_option
from crawler.cli.text import echo
from crawler.explain.formatting import counted

if TYPE_CHECKING:
    from storage.location import Location

_code_option = click.option(
    "--code",
    metavar="CODE",
    help="Only URLs that failed with this code, such as timeout: the word before the colon.",
)


@click.command(short_help="Queue failed URLs again.")
@click.argument("what", type=Choice(["failed", "quarantined"]), metavar="WHAT")
@host_option("Retry only the URLs of this host.")
@_code_option
@database_options
def retry(what: str, host: str | None, code: str | None, database: DatabaseOptions) -> None:
    """Queue failed URLs again. WHAT is `failed` for all of them, or `quarantined` for those,
    including robots.txt files, whose fetch was cut off twice because the process died.

    A running crawl fetches them when their hosts permit; otherwise the next crawl does. If there
    are none, the exit code is 0."""
    if what == "quarantined":
        if code is not None:
            raise click.UsageError("--code: omit it with `quarantined`, which is a code")
        code = what
    from crawler.offline_control import retry_failed

    count, runs = _carried_out(database, "retry", "retried", retry_failed, host, code)
    if not count:
        _say_none(host, code)
        return
    fetched_by = "the running crawl will fetch" if runs else f"run courtly crawl{database} to fetch"
    them = "it" if count == 1 else "them"
    echo(f"{counted(count, f'{what} URL')} queued again: {fetched_by} {them}")


@click.command(short_help="Forget failed URLs.")
@click.argument("what", type=Choice(["failed"]), metavar="WHAT")
@host_option("Drop only the URLs of this host.")
@_code_option
@database_options
def drop(what: str, host: str | None, code: str | None, database: DatabaseOptions) -> None:
    """Drop failed URLs: they count as skipped, and only a later link or seed queues them again.
    WHAT is `failed`. If there are none, the exit code is 0."""
    from crawler.offline_control import drop_failed

    count, _ = _carried_out(database, "drop", "dropped", drop_failed, host, code)
    if count:
        echo(f"{counted(count, f'{what} URL')} dropped")
    else:
        _say_none(host, code)


def _say_none(host: str | None, code: str | None) -> None:
    of_host = "" if host is None else f" of {host}"
    with_code = "" if code is None else f" with the code {code}"
    quarantined = code == "quarantined"
    echo(f"no URL{of_host} {'is quarantined' if quarantined else f'has failed{with_code}'}")


def _carried_out(
    database: DatabaseOptions,
    what: str,
    counted_as: str,
    offline: Callable[[Location, str | None, str | None], Awaitable[int]],
    host: str | None,
    code: str | None,
) -> tuple[int, bool]:
    """Run a command in the running crawl, or else in the database; return how many URLs it
    concerned, and whether a crawl runs."""
    location = database.location()
    given = {"host": host, "code": code}
    body: dict[str, object] = {key: value for key, value in given.items() if value is not None}
    answer = running_crawl.ask(location, "POST", f"/api/{what}", body=body)
    if answer is not None:
        return running_crawl.number(answer[counted_as]), True
    return process.run(_in_database(location, offline, host, code))


async def _in_database(
    location: Location,
    offline: Callable[[Location, str | None, str | None], Awaitable[int]],
    host: str | None,
    code: str | None,
) -> tuple[int, bool]:
    """As `_carried_out`; workers may run on a database on a server."""
    from crawler.databases import looking_into

    if host is not None:
        await running_crawl.known_name(location, host)
    async with looking_into(location) as reader:
        runs = bool(await reader.workers())
    return await offline(location, host, code), runs
