"""`courtly host`: list, pause, slow or resume hosts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from crawler.cli import process, running_crawl
from crawler.cli.options import (
    Choice,
    DatabaseOptions,
    database_options,
    dry_run_option,
    format_option,
    host_name,
)
from crawler.cli.paging import rows_of_pages
from crawler.cli.standard_streams import require_stdout
from crawler.cli.text import say
from crawler.explain.formatting import counted

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable

    from crawler.operator_commands import Controlled, HostCommand
    from storage.read_records import RowPage
    from storage.reader import Reader
    from storage.store import Row

_Command = TypeVar("_Command", bound=Callable[..., object])
_Target = Sequence[Mapping[str, Any]]

# storage.paging.HostFilter and HOST_SORTS, which are too slow to import for --help; a test compares
# them.
STATES = ("all", "queued", "waiting", "paused", "slowed", "backing-off", "failing", "done")
SORTS = (
    "host", "queued", "visited", "blocked", "failed", "body_bytes", "delay_s", "next_at",
    "backoff_until", "contacts", "smallest_rest_s", "latency_s", "connect_failures", "breaches",
)  # fmt: skip
NAMES_SHOWN = 20


@click.group(short_help="List, pause, slow or resume hosts.")
def host() -> None:
    """List, pause, slow or resume hosts. A setting is stored in the database, and applies
    immediately to a running crawl.

    HOST is a name, or a pattern with `*` as in the config: '*.example.com' is example.com and all
    its subdomains. A pattern covers the hosts that are known now; for those that are discovered
    later, use a [site] table of the config. If no known host matches, nothing changes, and the exit
    code is 0; an unknown name is an error."""


def _target_options(command: _Command) -> _Command:
    """Add HOST..., --all, --state and --dry-run, and pass them as `target`."""

    @wraps(command)
    def wrapper(
        hosts: tuple[str, ...], everything: bool, state: str | None, dry_run: bool, **others: Any
    ) -> object:
        return command(target=_target(hosts, everything, state or "", dry_run), **others)

    for option in (
        dry_run_option,
        click.option("--state", type=Choice(STATES[1:]), metavar="STATE",
                     help=f"Only hosts in this state: {', '.join(STATES[1:])}."),
        click.option("--all", "everything", is_flag=True, help="All known hosts."),
        click.argument("hosts", nargs=-1, metavar="HOST..."),
    ):  # fmt: skip
        wrapper = option(wrapper)
    return wrapper  # type: ignore[return-value]


def _target(hosts: Sequence[str], everything: bool, state: str, dry_run: bool) -> _Target:
    """The fields of each HostCommand that the command line means. Raises UsageError."""
    from crawler.config.host_patterns import read_pattern

    if everything and hosts:
        raise click.UsageError("--all: omit the names of hosts")
    if not (hosts or everything or state):
        raise click.UsageError("missing argument 'HOST': name hosts, or use --all or --state")
    patterns = [text for text in hosts if "*" in text]
    names = [host_name(text) for text in hosts if "*" not in text]
    if names and state:
        raise click.UsageError("--state: can be combined with patterns, not with names of hosts")
    try:
        read = [read_pattern(text) for text in patterns]
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if not hosts:
        read = ["*"]
    named = [{"hosts": tuple(names), "dry_run": dry_run}] if names else []
    return [*named, *({"pattern": one, "state": state, "dry_run": dry_run} for one in read)]


@host.command(short_help="Stop contacting hosts.")
@_target_options
@database_options
def pause(target: _Target, database: DatabaseOptions) -> None:
    """Stop contacting hosts until they are resumed. Requests in flight are finished; their URLs
    stay queued."""
    from crawler.operator_commands import PauseHosts

    done = _steer(database, target, PauseHosts)
    if done.host:
        say(f"{done.host} is paused; run `courtly host resume {done.host}` to continue")
    else:
        say(_sentence(done, "is paused", "are paused", "paused"))


@host.command(short_help="Undo pause and slow.")
@_target_options
@database_options
def resume(target: _Target, database: DatabaseOptions) -> None:
    """Undo both `pause` and `slow`. A host that could not be connected to is tried again without
    waiting for the next attempt."""
    from crawler.operator_commands import ResumeHosts

    done = _steer(database, target, ResumeHosts)
    if done.host:
        say(f"{done.host} is resumed at its normal pace")
    else:
        say(_sentence(done, "is resumed", "are resumed", "resumed"))


@host.command(short_help="Increase the delay of hosts.")
@_target_options
@click.option(
    "--delay",
    required=True,
    metavar="S",
    help='Minimum delay after each contact: seconds, or with a unit: "5m". A longer delay, such as '
    "a Crawl-delay, still applies.",
)
@database_options
def slow(target: _Target, delay: str, database: DatabaseOptions) -> None:
    """Wait at least the given delay after each contact with a host, until it is resumed."""
    from crawler.config.units import format_duration
    from crawler.operator_commands import SlowHosts

    delay_s = _seconds(delay)
    done = _steer(database, target, SlowHosts, delay_s=delay_s)
    pace = f"a minimum delay of {format_duration(delay_s)}"
    longer = "a longer delay, such as a Crawl-delay, still applies"
    if done.host:
        say(f"{done.host} has {pace}; {longer}")
    else:
        say(_sentence(done, f"has {pace}", f"have {pace}", f"given {pace}"))
        if done.hosts:
            say(longer)


@host.command("list", short_help="List hosts, those with most queued URLs first.")
@click.option("--search", default="", metavar="TEXT", help="Only hosts whose name contains TEXT.")
@click.option(
    "--state", type=Choice(STATES), default="all", show_default=True, metavar="STATE",
    help=f"Only hosts in this state: {', '.join(STATES[1:])}.",
)  # fmt: skip
@click.option(
    "--sort", type=Choice((*SORTS, *(f"-{sort}" for sort in SORTS))), default="-queued",
    show_default=True, metavar="COLUMN", help="The column to sort by; -COLUMN: largest first.",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="List at most N hosts.")
@format_option
@database_options
def list_hosts(
    search: str, state: str, sort: str, limit: int | None, how: str, database: DatabaseOptions
) -> None:
    """List hosts with their counts and delays, as `courtly show hosts` does, filtered and
    sorted."""
    require_stdout()
    location = database.location()

    async def write_hosts() -> None:
        from crawler.cli.view_table import write
        from crawler.databases import looking_into

        async with (
            looking_into(location) as reader,
            aclosing(_rows(reader, search, state, sort, limit)) as rows,
        ):
            filtered = search or state != "all"
            await write("hosts", rows, how, empty="no host matches" if filtered else "")

    process.run(write_hosts())


def _rows(
    reader: Reader, search: str, state: str, sort: str, limit: int | None
) -> AsyncGenerator[Row, None]:
    def page(count: int, after: str) -> Awaitable[RowPage]:
        return reader.hosts_page(
            search=search, state=state, sort=sort, limit=count, after=after, now_s=time.time()
        )

    return rows_of_pages(page, limit)


def _seconds(text: str) -> float:
    """The value of --delay. Raises UsageError."""
    from crawler.config.units import parse_duration_s

    with contextlib.suppress(ValueError):
        return float(text)
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise click.UsageError(f"--delay: {error}") from None


# ---------------------------------------------------------------- carrying it out


def _sentence(done: Controlled, is_done: str, are_done: str, would: str) -> str:
    if not done.hosts:
        return "no known host matches: nothing changes"
    more = done.hosts - len(done.names)
    names = ", ".join(done.names) + (f" and {more:,} more" if more > 0 else "")
    verb = is_done if done.hosts == 1 else are_done
    verb = f"would be {would}" if done.dry_run else verb
    return f"{counted(done.hosts, 'host')} {verb}: {names}"


def _steer(
    database: DatabaseOptions, target: _Target, kind: type[HostCommand], **values: Any
) -> Controlled:
    """Pause, resume or slow hosts; `host` of the result is the one that was named. Raises
    UsageError for an unknown host, StoreRefused, StoreError."""
    from crawler.operator_commands import Controlled

    config = database.existing()
    with running_crawl.refusals():
        commands = [kind(**fields, **values) for fields in target]
    done = [running_crawl.carry_out(config, command).result for command in commands]
    names = [name for one in done for name in one.names]
    single = len(done) == 1 and len(commands[0].hosts) == 1 and not commands[0].dry_run
    return Controlled(
        hosts=sum(one.hosts for one in done),
        names=tuple(names[:NAMES_SHOWN]),
        dry_run=commands[0].dry_run,
        host=names[0] if single else None,
    )
