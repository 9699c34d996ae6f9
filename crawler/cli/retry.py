"""`courtly retry` and `courtly drop`: queue failed URLs again, or forget them."""

from __future__ import annotations

import click

from crawler.cli import running_crawl
from crawler.cli.options import (
    Choice,
    DatabaseOptions,
    database_options,
    dry_run_option,
    host_option,
)
from crawler.cli.text import echo
from crawler.explain.formatting import counted

_code_option = click.option(
    "--code",
    metavar="CODE",
    help="Only URLs that failed with this code, such as timeout: the word before the colon.",
)


@click.command(short_help="Queue failed URLs again.")
@click.argument("what", type=Choice(["failed", "quarantined"]), metavar="WHAT")
@host_option("Retry only the URLs of this host.")
@_code_option
@dry_run_option
@database_options
def retry(
    what: str, host: str | None, code: str | None, dry_run: bool, database: DatabaseOptions
) -> None:
    """Queue failed URLs again. WHAT is `failed` for all of them, or `quarantined` for those,
    including robots.txt files, whose fetch was cut off twice because the process died.

    A running crawl fetches them when their hosts permit; otherwise the next crawl does. If there
    are none, the exit code is 0."""
    if what == "quarantined":
        if code is not None:
            raise click.UsageError("--code: omit it with `quarantined`, which is a code")
        code = what
    from crawler.operator_commands import RetryFailed

    command = RetryFailed(host=host, code=code, dry_run=dry_run)
    done = running_crawl.carry_out(database.existing(), command)
    count = done.result.retried
    if not count:
        _say_none(host, code)
    elif dry_run:
        echo(f"{counted(count, f'{what} URL')} would be queued again")
    else:
        fetched_by = (
            "the running crawl will fetch" if done.runs else f"run courtly crawl{database} to fetch"
        )
        them = "it" if count == 1 else "them"
        echo(f"{counted(count, f'{what} URL')} queued again: {fetched_by} {them}")


@click.command(short_help="Forget failed URLs.")
@click.argument("what", type=Choice(["failed"]), metavar="WHAT")
@host_option("Drop only the URLs of this host.")
@_code_option
@dry_run_option
@database_options
def drop(
    what: str, host: str | None, code: str | None, dry_run: bool, database: DatabaseOptions
) -> None:
    """Drop failed URLs: they count as skipped, and only a later link or seed queues them again.
    WHAT is `failed`. If there are none, the exit code is 0."""
    from crawler.operator_commands import DropFailed

    command = DropFailed(host=host, code=code, dry_run=dry_run)
    count = running_crawl.carry_out(database.existing(), command).result.dropped
    if count:
        echo(f"{counted(count, f'{what} URL')} {'would be ' if dry_run else ''}dropped")
    else:
        _say_none(host, code)


def _say_none(host: str | None, code: str | None) -> None:
    of_host = "" if host is None else f" of {host}"
    with_code = "" if code is None else f" with the code {code}"
    quarantined = code == "quarantined"
    echo(f"no URL{of_host} {'is quarantined' if quarantined else f'has failed{with_code}'}")
