"""`courtly host`: list, pause, slow or resume hosts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from crawler.cli import process, running_crawl
from crawler.cli.options import (
    Choice,
    DatabaseOptions,
    database_options,
    format_option,
    host_name,
)
from crawler.cli.paging import rows_of_pages
from crawler.cli.standard_streams import require_stdout
from crawler.cli.text import say
from crawler.explain.formatting import counted

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable

    from crawler.steering.host_selection import HostSelection
    from storage.location import Location
    from storage.read_records import RowPage
    from storage.reader import Reader
    from storage.store import Row

_Command = TypeVar("_Command", bound=Callable[..., object])

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


@dataclass(frozen=True, slots=True)
class _Target:
    """The hosts that a command line means. state: "" for any."""

    names: Sequence[str]
    patterns: Sequence[str]
    state: str
    dry_run: bool


def _target_options(command: _Command) -> _Command:
    """Add HOST..., --all, --state and --dry-run, and pass them as `target`."""

    @wraps(command)
    def wrapper(
        hosts: tuple[str, ...], everything: bool, state: str | None, dry_run: bool, **others: Any
    ) -> object:
        return command(target=_target(hosts, everything, state or "", dry_run), **others)

    for option in (
        click.option("--dry-run", is_flag=True, help="Only print which hosts it would be."),
        click.option("--state", type=Choice(STATES[1:]), metavar="STATE",
                     help=f"Only hosts in this state: {', '.join(STATES[1:])}."),
        click.option("--all", "everything", is_flag=True, help="All known hosts."),
        click.argument("hosts", nargs=-1, metavar="HOST..."),
    ):  # fmt: skip
        wrapper = option(wrapper)
    return wrapper  # type: ignore[return-value]


def _target(hosts: Sequence[str], everything: bool, state: str, dry_run: bool) -> _Target:
    """Raises UsageError."""
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
    return _Target(names, read, state, dry_run)


@host.command(short_help="Stop contacting hosts.")
@_target_options
@database_options
def pause(target: _Target, database: DatabaseOptions) -> None:
    """Stop contacting hosts until they are resumed. Requests in flight are finished; their URLs
    stay queued."""
    done = _steer(database, target, "pause")
    if done.single:
        say(f"{done.single} is paused; run `courtly host resume {done.single}` to continue")
    else:
        say(done.sentence("is paused", "are paused", "paused"))


@host.command(short_help="Undo pause and slow.")
@_target_options
@database_options
def resume(target: _Target, database: DatabaseOptions) -> None:
    """Undo both `pause` and `slow`. A host that could not be connected to is tried again without
    waiting for the next attempt."""
    done = _steer(database, target, "resume")
    if done.single:
        say(f"{done.single} is resumed at its normal pace")
    else:
        say(done.sentence("is resumed", "are resumed", "resumed"))


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

    delay_s = _seconds(delay)
    done = _steer(database, target, "slow", delay_s)
    pace = f"a minimum delay of {format_duration(delay_s)}"
    longer = "a longer delay, such as a Crawl-delay, still applies"
    if done.single:
        say(f"{done.single} has {pace}; {longer}")
    else:
        say(done.sentence(f"has {pace}", f"have {pace}", f"given {pace}"))
        if done.count:
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
    from crawler.steering.control import checked_delay_s

    try:
        try:
            value = float(text)
        except ValueError:
            value = parse_duration_s(text)
        return checked_delay_s(value)
    except ValueError as error:
        raise click.UsageError(f"--delay: {error}") from None


# ---------------------------------------------------------------- carrying it out


@dataclass(frozen=True, slots=True)
class _Done:
    """The hosts that were, or would be, changed. single: the one that was named."""

    count: int
    names: Sequence[str]
    dry_run: bool
    single: str = ""

    def sentence(self, is_done: str, are_done: str, would: str) -> str:
        if not self.count:
            return "no known host matches: nothing changes"
        more = self.count - len(self.names)
        names = ", ".join(self.names) + (f" and {more:,} more" if more > 0 else "")
        verb = is_done if self.count == 1 else are_done
        verb = f"would be {would}" if self.dry_run else verb
        return f"{counted(self.count, 'host')} {verb}: {names}"


def _steer(
    database: DatabaseOptions, target: _Target, what: str, delay_s: float | None = None
) -> _Done:
    """Pause, resume or slow hosts through the running crawl, or else in the database. Raises
    UsageError for an unknown host, StoreRefused, StoreError."""
    location = database.location()
    count, names = 0, list[str]()
    requests: list[dict[str, object]] = [
        {"pattern": pattern, "state": target.state} for pattern in target.patterns
    ]
    if target.names:
        requests.insert(0, {"hosts": list(target.names)})
    common: dict[str, object] = {"dry_run": target.dry_run}
    if delay_s is not None:
        common["delay_s"] = delay_s
    for body in requests:
        answer = running_crawl.ask(location, "POST", f"/api/hosts/{what}", body={**body, **common})
        if answer is None:
            answer = process.run(_offline(location, body, what, delay_s, dry_run=target.dry_run))
        count += running_crawl.number(answer["hosts"])
        found = answer["names"]
        names += found if isinstance(found, list) else ()
    named = len(target.names) == 1 and not target.patterns and not target.dry_run
    return _Done(count, names[:NAMES_SHOWN], target.dry_run, names[0] if named else "")


async def _offline(
    location: Location,
    body: Mapping[str, object],
    what: str,
    delay_s: float | None,
    *,
    dry_run: bool,
) -> Mapping[str, object]:
    """As the running crawl would answer."""
    from crawler.offline_control import steer_hosts
    from crawler.steering.host_selection import PAUSED, RESUMED, HostSelection, HostSetting

    setting = {"pause": PAUSED, "resume": RESUMED}.get(what, HostSetting(slow_s=delay_s))
    hosts = body.get("hosts")
    if isinstance(hosts, list):
        known = [await running_crawl.known_name(location, name) for name in hosts]
        pieces: list[Sequence[str]] = [list(dict.fromkeys(known))]
    else:
        state = str(body["state"]) or "all"
        pieces = await _selected(location, HostSelection(pattern=str(body["pattern"]), state=state))
    names = [name for piece in pieces for name in piece]
    if names and not dry_run:
        await steer_hosts(location, names, setting)
    return {"hosts": len(names), "names": names[:NAMES_SHOWN]}


async def _selected(location: Location, selection: HostSelection) -> list[Sequence[str]]:
    from crawler.databases import looking_into
    from crawler.steering.host_selection import selected

    async with looking_into(location) as reader:
        return [piece async for piece in selected(reader, selection, now_s=time.time())]
