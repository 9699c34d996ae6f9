"""`courtly retry`: queue failed URLs again."""

from __future__ import annotations

from pathlib import Path

import click

from crawler.cli import process, running_crawl
from crawler.cli.options import Choice, DatabaseOptions, database_options, host_option
from crawler.cli.text import echo
from crawler.explain.formatting import counted


@click.command(short_help="Queue failed URLs again.")
@click.argument("what", type=Choice(["failed", "quarantined"]), metavar="WHAT")
@host_option("Retry only the URLs of this host.")
@database_options
def retry(what: str, host: str | None, database: DatabaseOptions) -> None:
    """Queue failed URLs again. WHAT is `failed` for all of them, or `quarantined` for those,
    including robots.txt files, whose fetch was cut off twice because the process died.

    A running crawl fetches them when their hosts permit; otherwise the next crawl does."""
    code = None if what == "failed" else what
    path = database.path()
    given = {"host": host, "code": code}
    body: dict[str, object] = {key: value for key, value in given.items() if value is not None}
    answer = running_crawl.ask(path, "POST", "/api/retry", body=body)
    if answer is None:
        count = process.run(_retry_offline(path, host, code))
        fetched_by = f"run courtly crawl{database} to fetch"
    else:
        count = running_crawl.number(answer["retried"])
        fetched_by = "the running crawl will fetch"
    if not count:
        of_host = "" if host is None else f" of {host}"
        echo(f"no URL{of_host} {'has failed' if code is None else f'is {code}'}")
        return
    them = "it" if count == 1 else "them"
    echo(f"{counted(count, f'{what} URL')} queued again: {fetched_by} {them}")


async def _retry_offline(path: Path, host: str | None, code: str | None) -> int:
    from crawler.offline_control import retry_failed

    if host is not None:
        await running_crawl.known_name(path, host)
    return await retry_failed(path, host, code)
