"""`courtly retry`: queue failed URLs again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from crawler.cli import process, running_crawl
from crawler.cli.options import Choice, DatabaseOptions, database_options, host_option
from crawler.cli.text import echo
from crawler.explain.formatting import counted

if TYPE_CHECKING:
    from storage.location import Location


@click.command(short_help="Queue failed URLs again.")
@click.argument("what", type=Choice(["failed", "quarantined"]), metavar="WHAT")
@host_option("Retry only the URLs of this host.")
@database_options
def retry(what: str, host: str | None, database: DatabaseOptions) -> None:
    """Queue failed URLs again. WHAT is `failed` for all of them, or `quarantined` for those,
    including robots.txt files, whose fetch was cut off twice because the process died.

    A running crawl fetches them when their hosts permit; otherwise the next crawl does."""
    code = None if what == "failed" else what
    location = database.location()
    given = {"host": host, "code": code}
    body: dict[str, object] = {key: value for key, value in given.items() if value is not None}
    answer = running_crawl.ask(location, "POST", "/api/retry", body=body)
    if answer is None:
        count, runs = process.run(_retry_in(location, host, code))
    else:
        count, runs = running_crawl.number(answer["retried"]), True
    fetched_by = "the running crawl will fetch" if runs else f"run courtly crawl{database} to fetch"
    if not count:
        of_host = "" if host is None else f" of {host}"
        echo(f"no URL{of_host} {'has failed' if code is None else f'is {code}'}")
        return
    them = "it" if count == 1 else "them"
    echo(f"{counted(count, f'{what} URL')} queued again: {fetched_by} {them}")


async def _retry_in(location: Location, host: str | None, code: str | None) -> tuple[int, bool]:
    """Return how many URLs the database has queued again, and whether workers run on it."""
    from crawler.databases import looking_into
    from crawler.offline_control import retry_failed

    if host is not None:
        await running_crawl.known_name(location, host)
    async with looking_into(location) as reader:
        runs = bool(await reader.workers())
    return await retry_failed(location, host, code), runs
