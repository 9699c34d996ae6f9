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

from crawler.clock import Clock
from crawler.config import Config, ConfigError
from crawler.config.host_patterns import read_pattern
from crawler.explain.explanation import host_named, known_host
from crawler.operator_commands import (
    ALL_HOSTS,
    HOSTS_AT_ONCE,
    AddSeeds,
    Controlled,
    CrawlState,
    DropFailed,
    FailedDropped,
    HostCommand,
    InvalidCommandError,
    OperatorCommand,
    OrderedCommand,
    PauseCrawl,
    PauseHosts,
    RefusedSeed,
    Reload,
    Reloaded,
    Result,
    ResumeCrawl,
    ResumeHosts,
    Retried,
    RetryFailed,
    SeedsAdded,
    SlowHosts,
    StateAnswer,
    UnknownHost,
    scope_of_seeds,
)
from crawler.processing.sitemaps import READ_AGAIN_S
from crawler.scheduling.seeding import seed_link
from crawler.steering.queue_holds import QueueReason
from policies.quarantine import QUARANTINED
from policies.retries import FailureCode
from policies.url import SeedError, parse_seed, without_userinfo
from storage.paging import ROWS_MAX, HostFilter
from storage.reader import HostsHeld, UrlFilter, UrlList
from storage.store import SEEDS_AT_ONCE, Link, Reader, Store

NAMES_SHOWN: Final = 20  # of the hosts in a result and in the log

_T = TypeVar("_T")


class Place(Protocol):
    """Where commands are executed."""

    @property
    def config(self) -> Config: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def store(self) -> Store: ...

    @property
    def reader(self) -> Reader: ...

    @property
    def state(self) -> CrawlState | None:
        """The state of the crawl that runs here; None if none does."""
        ...

    async def step(
        self,
        command: OperatorCommand[Any],
        change: Callable[[], Awaitable[_T]],
        *,
        order: OrderedCommand | None = None,
    ) -> _T:
        """Change the store in one durable step, to its end, and apply `command` to what is in
        memory. order: published to the other workers that share the crawl."""
        ...

    async def add(self, links: Sequence[Link]) -> int:
        """Queue seeds and return how many are new."""
        ...

    async def reload(self, command: Reload) -> Reloaded:
        """Read the config again. Raises ConfigError."""
        ...

    def check_seed(self, url: str) -> None:
        """Check that a seed may be contacted. Raises ConfigError."""
        ...

    def hosts_held(self, reason: QueueReason) -> HostsHeld:
        """Which hosts have queued URLs that wait for this."""
        ...

    def announce(
        self, command: OperatorCommand[Any], result: Any, *, complete: bool = True
    ) -> None:
        """A command has changed the crawl. complete: False if it was cut short."""
        ...


async def execute(command: OperatorCommand[Result], place: Place) -> Result:
    """Execute a command, and return its result once it is durable and, in a running crawl, in
    effect. Raises InvalidCommandError, UnknownHost, ConfigError and StoreError."""
    result: Result = await EXECUTORS[type(command)](command, place)
    return result


# ---------------------------------------------------------------- the whole crawl


async def _set_paused(command: PauseCrawl | ResumeCrawl, place: Place) -> StateAnswer:
    paused = isinstance(command, PauseCrawl)

    async def change() -> StateAnswer:
        before = await place.store.paused()
        await place.store.set_paused(paused)
        result = StateAnswer(state=place.state, changed=before is not paused)
        place.announce(command, result)
        return result

    return await place.step(command, change)


async def _reload(command: Reload, place: Place) -> Reloaded:
    async def change() -> Reloaded:
        result = await place.reload(command)
        if not command.dry_run:
            place.announce(command, result)
        return result

    return await place.step(command, change, order=None if command.dry_run else command)


# ---------------------------------------------------------------- hosts


async def _steer_hosts(command: HostCommand, place: Place) -> Controlled:
    """Change hosts in batches, between which the crawl commits."""
    names = dict.fromkeys([await stored_name(place.reader, one) for one in command.names])
    pieces = _selected(command, place) if command.selects else _once(list(names))
    count, shown = 0, list[str]()
    complete = False
    try:
        async with aclosing(pieces) as found:
            async for piece in found:
                shown += piece[: NAMES_SHOWN - len(shown)]
                count += len(piece) if command.dry_run else await _steer(command, piece, place)
        complete = True
    finally:
        result = Controlled(hosts=count, names=tuple(shown), dry_run=command.dry_run)
        if (count or complete) and not command.dry_run:
            place.announce(command, result, complete=complete)
    row = await place.reader.host(shown[0]) if len(names) == 1 else None
    if row is None:
        return result
    slow_s = row["slow_s"]
    return structs.replace(
        result,
        host=str(row["host"]),
        paused=bool(row["paused"]),
        slow_s=slow_s if isinstance(slow_s, float) else None,
    )


async def _steer(command: HostCommand, hosts: Sequence[str], place: Place) -> int:
    """Change some hosts by their names in the store; return how many are known."""
    known = 0
    setting = structs.asdict(command.setting)
    for at in range(0, len(hosts), HOSTS_AT_ONCE):
        some = tuple(hosts[at : at + HOSTS_AT_ONCE])
        batch: Any = structs.replace(
            command, host=None, hosts=some, pattern="", search="", state="", reason=""
        )
        change = partial(place.store.set_controls, some, **setting)
        known += await place.step(batch, change, order=batch)
    return known


async def _selected(command: HostCommand, place: Place) -> AsyncGenerator[Sequence[str], None]:
    """The names of the selected hosts, in order. Hosts may be changed meanwhile."""
    pattern = pattern_of(command.pattern)
    state = command.state or str(HostFilter.ALL)
    if state not in tuple(HostFilter):
        raise InvalidCommandError("state", f"must be one of {', '.join(HostFilter)}")
    check_reason(command.reason)
    held = place.hosts_held(QueueReason(command.reason)) if command.reason else None
    after: str | None = ""
    while after is not None:
        page = await place.reader.hosts_page(
            search=part_of_name(command.search),
            pattern="" if pattern == ALL_HOSTS else pattern,
            state=state,
            held=held,
            limit=ROWS_MAX,
            after=after,
            now_s=place.clock.wall(),
        )
        if page.rows:
            yield [str(row["host"]) for row in page.rows]
        after = page.after


async def _once(names: Sequence[str]) -> AsyncGenerator[Sequence[str], None]:
    yield names


async def stored_name(reader: Reader, text: str) -> str:
    """The name under which the store has a host. Raises InvalidCommandError and UnknownHost."""
    name = host_name(text)
    row = await known_host(reader, name)
    if row is None:
        raise UnknownHost(name)
    return str(row["host"])


def host_name(text: str) -> str:
    """A host in its normal form. Raises InvalidCommandError."""
    try:
        return host_named(text)
    except ValueError:
        raise InvalidCommandError("host", "must be a host such as example.com") from None


def check_reason(reason: str) -> None:
    """Raises InvalidCommandError unless it is "" or a QueueReason."""
    if reason and reason not in tuple(QueueReason):
        raise InvalidCommandError("reason", f"must be one of {', '.join(QueueReason)}")


def pattern_of(text: str) -> str:
    """A host pattern in canonical form; "" for none. Raises InvalidCommandError."""
    try:
        return read_pattern(text) if text else ""
    except ValueError as error:
        raise InvalidCommandError("pattern", str(error)) from None


def part_of_name(search: str) -> str:
    """What to search for in stored names, which are ASCII: whole labels can be converted."""
    if not search.isascii():
        with suppress(ValueError):
            return host_named(search)
    return search


# ---------------------------------------------------------------- URLs


async def _add_seeds(command: AddSeeds, place: Place) -> SeedsAdded:
    links: dict[str, Link] = {}
    refused: list[RefusedSeed] = []
    again_before = place.clock.wall() - READ_AGAIN_S
    for text in command.urls:
        try:
            url = parse_seed(text)
            place.check_seed(url)
        except (SeedError, ConfigError) as error:
            refused.append(RefusedSeed(url=without_userinfo(text), reason=str(error)))
            continue
        links[url] = seed_link(
            place.config, url, priority=command.priority, again_before=again_before
        )

    async def change() -> SeedsAdded:
        added, given = 0, list(links.values())
        for at in range(0, len(given), SEEDS_AT_ONCE):
            added += await place.add(given[at : at + SEEDS_AT_ONCE])
        known = len(command.urls) - len(refused) - added
        result = SeedsAdded(added=added, known=known, refused=tuple(refused))
        place.announce(command, result)
        return result

    order = scope_of_seeds(list(links)) if links else None
    return await place.step(command, change, order=order)


async def _retry_failed(command: RetryFailed, place: Place) -> Retried:
    command = structs.replace(command, host=await _one_host(command.host, place))
    if command.dry_run:
        count = await _failed(place.reader, command.host, command.code)
        if command.code in (None, FailureCode.QUARANTINED):
            count += await _quarantined_files(place.reader, command.host)
        return Retried(retried=count, dry_run=True)

    async def change() -> Retried:
        result = Retried(retried=await place.store.retry_failed(command.host, command.code))
        place.announce(command, result)
        return result

    return await place.step(command, change, order=command)


async def _drop_failed(command: DropFailed, place: Place) -> FailedDropped:
    command = structs.replace(command, host=await _one_host(command.host, place))
    if command.dry_run:
        count = await _failed(place.reader, command.host, command.code)
        return FailedDropped(dropped=count, dry_run=True)

    async def change() -> FailedDropped:
        result = FailedDropped(dropped=await place.store.drop_failed(command.host, command.code))
        place.announce(command, result)
        return result

    return await place.step(command, change)


async def _one_host(host: str | None, place: Place) -> str | None:
    return None if host is None else await stored_name(place.reader, host)


async def _failed(reader: Reader, host: str | None, code: str | None) -> int:
    """How many URLs have failed."""
    wanted = UrlFilter(state=UrlList.FAILED, host=host, code=code or "")
    count, after = 0, ""
    while True:
        page = await reader.urls_page(wanted, limit=ROWS_MAX, after=after)
        count += len(page.rows)
        if page.after is None:
            return count
        after = page.after


async def _quarantined_files(reader: Reader, host: str | None) -> int:
    """How many robots.txt files are quarantined."""
    async with aclosing(reader.iterate("robots", host=host)) as rows:
        return sum([row["error"] == QUARANTINED async for row in rows])


Executor = Callable[[Any, Place], Awaitable[Any]]
EXECUTORS: Final[Mapping[type[OperatorCommand[Any]], Executor]] = {
    PauseCrawl: _set_paused,
    ResumeCrawl: _set_paused,
    PauseHosts: _steer_hosts,
    ResumeHosts: _steer_hosts,
    SlowHosts: _steer_hosts,
    AddSeeds: _add_seeds,
    RetryFailed: _retry_failed,
    DropFailed: _drop_failed,
    Reload: _reload,
}
