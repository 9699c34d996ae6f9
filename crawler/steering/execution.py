"""Executes operators' commands: through the running crawl, or on a database that none has open.

Each command has one executor here. It checks what depends on the database, changes the database in
steps, and announces what it did.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from msgspec import structs

from crawler import operator_commands as commands
from crawler.clock import Clock
from crawler.config import Config, ConfigError, check_identity
from crawler.config.host_patterns import read_pattern
from crawler.explain.explanation import host_named, known_host
from crawler.operator_commands import Result
from crawler.processing.sitemaps import READ_AGAIN_S
from crawler.scheduling.seeding import seed_link
from crawler.steering.queue_waits import QueueReason
from policies.quarantine import QUARANTINED
from policies.retries import FailureCode
from policies.url import SeedError, parse_seed, without_userinfo
from storage.paging import ROWS_MAX, HostFilter
from storage.read_records import HostsWaiting, UrlFilter, UrlList
from storage.reader import Reader
from storage.store import SEEDS_AT_ONCE, Link, Row, Store

NAMES_SHOWN: Final = 20  # of the hosts in a result and in the log

_T = TypeVar("_T")


# Receives a command that has changed the crawl, its result, and whether it is complete.
Announcer = Callable[[commands.OperatorCommand[Any], Any, bool], None]


class Place(Protocol):
    """The crawl or the database in which commands are executed."""

    config: Config
    clock: Clock
    store: Store
    reader: Reader

    @property
    def announce(self) -> Announcer: ...

    @property
    def state(self) -> commands.CrawlState | None:
        """The state of the crawl that runs here; None if none does."""
        ...

    async def step(
        self,
        command: commands.OperatorCommand[Any],
        change: Callable[[], Awaitable[_T]],
        *,
        order: commands.OrderedCommand | None = None,
        announced: bool = True,
    ) -> _T:
        """Change the store in one durable step, to its end, and apply `command` to what is in
        memory. order: published to the other workers that share the crawl. announced: `change`
        returns the result of the command, which is announced."""
        ...

    async def add(self, links: Sequence[Link]) -> int:
        """Queue seeds and return how many are new."""
        ...

    async def reload(self, command: commands.Reload) -> commands.Reloaded:
        """Read the config again. Raises ConfigError."""
        ...

    def hosts_waiting(self, reason: QueueReason) -> HostsWaiting:
        """Return which hosts have queued URLs that wait for this."""
        ...


async def execute(command: commands.OperatorCommand[Result], place: Place) -> Result:
    """Execute a command, and return its result once it is durable and, in a running crawl, in
    effect. Raises InvalidCommandError, UnknownHost, ConfigError and StoreError."""
    result: Result = await EXECUTORS[type(command)](command, place)
    return result


# ---------------------------------------------------------------- the whole crawl


async def _set_paused(
    command: commands.PauseCrawl | commands.ResumeCrawl, place: Place
) -> commands.StateAnswer:
    paused = isinstance(command, commands.PauseCrawl)

    async def change() -> commands.StateAnswer:
        before = await place.store.paused()
        await place.store.set_paused(paused)
        return commands.StateAnswer(state=place.state, changed=before is not paused)

    if command.dry_run:
        changed = await place.reader.paused() is not paused
        return commands.StateAnswer(state=place.state, changed=changed, dry_run=True)
    return await place.step(command, change)


async def _reload(command: commands.Reload, place: Place) -> commands.Reloaded:
    work = partial(place.reload, command)
    if command.dry_run:
        return await place.step(command, work, announced=False)
    return await place.step(command, work, order=command)


# ---------------------------------------------------------------- hosts


async def _steer_hosts(command: commands.HostCommand, place: Place) -> commands.Controlled:
    """Change hosts in batches, between which the crawl commits."""
    rows = [await _known(place.reader, one) for one in command.names]
    names = list(dict.fromkeys(str(row["host"]) for row in rows))
    count, shown = 0, list[str]()
    complete = False
    try:
        async with aclosing(_pieces(command, names, place)) as found:
            async for piece in found:
                shown += piece[: NAMES_SHOWN - len(shown)]
                count += len(piece) if command.dry_run else await _steer(command, piece, place)
        complete = True
    finally:
        result = commands.Controlled(hosts=count, names=tuple(shown), dry_run=command.dry_run)
        if (count or complete) and not command.dry_run:
            place.announce(command, result, complete)
    if len(names) != 1:
        return result
    changed = command.setting
    slow_s = None if "clear_slow" in changed else changed.get("slow_s", rows[0]["slow_s"])
    paused = bool(changed.get("paused", rows[0]["paused"]))
    return structs.replace(result, host=names[0], paused=paused, slow_s=slow_s)


async def _steer(command: commands.HostCommand, hosts: Sequence[str], place: Place) -> int:
    """Change some hosts by their names in the store; return how many are known."""
    known = 0
    for at in range(0, len(hosts), commands.HOSTS_AT_ONCE):
        some = tuple(hosts[at : at + commands.HOSTS_AT_ONCE])
        batch: Any = structs.replace(
            command, host=None, hosts=some, pattern="", search="", state="", reason=""
        )
        change = partial(place.store.set_controls, some, **command.setting)
        known += await place.step(batch, change, order=batch, announced=False)
    return known


async def _pieces(
    command: commands.HostCommand, names: Sequence[str], place: Place
) -> AsyncGenerator[Sequence[str], None]:
    """The named hosts, or the selected ones, in order. Hosts may be changed meanwhile."""
    if not command.selects:
        yield names
        return
    pattern = pattern_of(command.pattern)
    state = command.state or str(HostFilter.ALL)
    if state not in tuple(HostFilter):
        raise commands.InvalidCommandError("state", f"must be one of {', '.join(HostFilter)}")
    check_reason(command.reason)
    waiting = place.hosts_waiting(QueueReason(command.reason)) if command.reason else None
    after: str | None = ""
    while after is not None:
        page = await place.reader.hosts_page(
            search=part_of_name(command.search),
            pattern="" if pattern == commands.ALL_HOSTS else pattern,
            state=state,
            waiting=waiting,
            limit=ROWS_MAX,
            after=after,
            now_s=place.clock.wall(),
        )
        if page.rows:
            yield [str(row["host"]) for row in page.rows]
        after = page.after


async def stored_name(reader: Reader, text: str) -> str:
    """The name under which the store has a host. Raises InvalidCommandError and UnknownHost."""
    return str((await _known(reader, text))["host"])


async def _known(reader: Reader, text: str) -> Row:
    name = host_name(text)
    row = await known_host(reader, name)
    if row is None:
        raise commands.UnknownHost(name)
    return row


def host_name(text: str) -> str:
    """A host in its normal form. Raises InvalidCommandError."""
    try:
        return host_named(text)
    except ValueError:
        raise commands.InvalidCommandError("host", "must be a host such as example.com") from None


def check_reason(reason: str) -> None:
    """Raises InvalidCommandError unless it is "" or a QueueReason."""
    if reason and reason not in tuple(QueueReason):
        raise commands.InvalidCommandError("reason", f"must be one of {', '.join(QueueReason)}")


def pattern_of(text: str) -> str:
    """A host pattern in canonical form; "" for none. Raises InvalidCommandError."""
    try:
        return read_pattern(text) if text else ""
    except ValueError as error:
        raise commands.InvalidCommandError("pattern", str(error)) from None


def part_of_name(search: str) -> str:
    """Return what to search for in stored names, which are ASCII: whole labels can be converted."""
    if not search.isascii():
        with suppress(ValueError):
            return host_named(search)
    return search


# ---------------------------------------------------------------- URLs


async def _add_seeds(command: commands.AddSeeds, place: Place) -> commands.SeedsAdded:
    links: dict[str, Link] = {}
    refused: list[commands.RefusedSeed] = []
    again_before = place.clock.wall() - READ_AGAIN_S
    for text in command.urls:
        try:
            url = parse_seed(text)
            if place.state is not None:  # else, the crawl that visits it checks it
                check_identity(place.config, [url])
        except (SeedError, ConfigError) as error:
            refused.append(commands.RefusedSeed(url=without_userinfo(text), reason=str(error)))
            continue
        links[url] = seed_link(
            place.config, url, priority=command.priority, again_before=again_before
        )

    async def change() -> commands.SeedsAdded:
        added, queued = 0, list(links.values())
        for at in range(0, len(queued), SEEDS_AT_ONCE):
            added += await place.add(queued[at : at + SEEDS_AT_ONCE])
        return result(added)

    def result(added: int) -> commands.SeedsAdded:
        known = len(command.urls) - len(refused) - added
        return commands.SeedsAdded(
            added=added, known=known, refused=tuple(refused), dry_run=command.dry_run
        )

    if command.dry_run:
        return result(len(links) - await _in_view(place.reader, list(links)))
    order = commands.scope_of_seeds(list(links)) if links else None
    return await place.step(command, change, order=order)


async def _in_view(reader: Reader, urls: Sequence[str]) -> int:
    """Return how many of these URLs would not be queued, because they are known."""
    starts = range(0, len(urls), SEEDS_AT_ONCE)
    return sum([len(await reader.known_urls(urls[at : at + SEEDS_AT_ONCE])) for at in starts])


async def _change_failed(command: commands.FailedCommand[Any], place: Place) -> Any:
    """Queue failed URLs again, or drop them."""
    if command.host is not None:
        command = structs.replace(command, host=await stored_name(place.reader, command.host))
    retries = isinstance(command, commands.RetryFailed)
    if command.dry_run:
        return command.counted(await _failed(place.reader, command, files=retries))
    change = place.store.retry_failed if retries else place.store.drop_failed

    async def changed() -> Any:
        return command.counted(await change(command.host, command.code))

    order = command if isinstance(command, commands.RetryFailed) else None
    return await place.step(command, changed, order=order)


async def _failed(reader: Reader, command: commands.FailedCommand[Any], *, files: bool) -> int:
    """How many URLs have failed. files: with quarantined robots.txt."""
    host, code = command.host, command.code
    wanted = UrlFilter(state=UrlList.FAILED, host=host, code=code or "")
    count = 0
    after: str | None = ""
    while after is not None:
        page = await reader.urls_page(wanted, limit=ROWS_MAX, after=after)
        count, after = count + len(page.rows), page.after
    if files and code in (None, FailureCode.QUARANTINED):
        async with aclosing(reader.iterate("robots", host=host)) as rows:
            count += sum([row["error"] == QUARANTINED async for row in rows])
    return count


Executor = Callable[[Any, Place], Awaitable[Any]]
EXECUTORS: Final[Mapping[type[commands.OperatorCommand[Any]], Executor]] = {
    commands.PauseCrawl: _set_paused,
    commands.ResumeCrawl: _set_paused,
    commands.PauseHosts: _steer_hosts,
    commands.ResumeHosts: _steer_hosts,
    commands.SlowHosts: _steer_hosts,
    commands.AddSeeds: _add_seeds,
    commands.RetryFailed: _change_failed,
    commands.DropFailed: _change_failed,
    commands.Reload: _reload,
}
