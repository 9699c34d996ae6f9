"""Commands of operators to a crawl, as values, with their results.

A command checks itself when it is built, so an invalid one does not exist. It is the JSON body of
its HTTP route, the argument of `Control.execute` and, once it names hosts as the store does, an
order to the other workers that share the crawl. `crawler.steering.execution` executes all of them;
`crawler.command_table` has their names.

Results are public, as they are the JSON of the HTTP API: fields may be added, and none is renamed
or removed.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct, structs

from policies.url import canonical
from storage.store import Order

SLOW_S_MAX: Final = 30 * 86_400.0  # the longest delay an operator may set; a longer one is a pause
HOSTS_AT_ONCE: Final = 200  # in one order, and in one transaction
HOSTS_NAMED_MAX: Final = 1_000  # in one command; a pattern may cover more
SEEDS_MAX: Final = 10_000  # in one command
SEED_BYTES_MAX: Final = 65_536  # beyond any `scope.max_url_bytes`; an error message would repeat it
SEEDS_NAMED_MAX: Final = 100  # in one order; of more, all seeds are read from the store instead

ALL_HOSTS: Final = "*"
_ALL_STATES: Final = "all"

Text = Annotated[str, Meta(max_length=10_000)]
Name = Annotated[str, Meta(min_length=1, max_length=1_000)]
# No number from outside is unbounded; the commands check the narrower ranges.
Number = Annotated[float, Meta(ge=-1e15, le=1e15)]
Json = Annotated[object, Meta(extra_json_schema={"description": "Any JSON value."})]


class InvalidCommandError(ValueError):
    """A value of a command is wrong. field: its name. too_large: it exceeds a limit of one command,
    and several commands could do it."""

    def __init__(self, field: str, message: str, *, too_large: bool = False) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message
        self.too_large = too_large


class UnknownHost(LookupError):  # noqa: N818 - named for the condition, like the others
    """Raised for a host of which no URL was ever queued."""

    def __init__(self, host: str) -> None:
        super().__init__(f'unknown host "{host}": no URL on this host has ever been queued')
        self.host = host


# ---------------------------------------------------------------- results


class CrawlState(enum.StrEnum):
    """The state of a crawl as a whole."""

    RUNNING = "running"  # URLs make progress, or wait for their hosts
    PAUSED = "paused"  # by an operator: no requests are started
    HELD = "held"  # by a problem of our own machine or network: only probes are sent
    IDLE = "idle"  # no URL can make progress: it waits for seeds, retries or a robots.txt
    STOPPING = "stopping"  # requests in flight end, none begins


class Answer(Struct, frozen=True, kw_only=True):
    """The result of a command. `dry_run`: nothing was changed; it is what would have happened."""

    dry_run: bool = False


class StateAnswer(Answer, frozen=True, kw_only=True):
    """The result of pausing or resuming the crawl: its state now (null: no crawl runs), and whether
    the command changed anything."""

    state: CrawlState | None
    changed: bool


class Controlled(Answer, frozen=True, kw_only=True):
    """The result of pausing, resuming or slowing hosts: how many hosts this concerned, and the
    first of them; of a single host that was named, its settings now."""

    hosts: int
    names: tuple[str, ...]
    host: str | None = None
    paused: bool | None = None
    slow_s: float | None = None


class RefusedSeed(Struct, frozen=True, kw_only=True):
    """A URL that was refused as a seed, unchanged, with the reason in a sentence."""

    url: str
    reason: str


class SeedsAdded(Answer, frozen=True, kw_only=True):
    """The result of adding seeds: how many URLs are `added` to the queue, how many were `known`
    already or repeated, and which are `refused`."""

    added: int
    known: int
    refused: tuple[RefusedSeed, ...]


class Retried(Answer, frozen=True, kw_only=True):
    """The result of retrying failed URLs: how many are queued again."""

    retried: int


class FailedDropped(Answer, frozen=True, kw_only=True):
    """The result of dropping failed URLs: how many."""

    dropped: int


class Reloaded(Answer, frozen=True, kw_only=True):
    """The result of reloading the config: what changed, or would change, one sentence each.
    `restart`: changes in the file that take effect after a restart only. `warnings`: settings that
    are valid but probably unintended."""

    changes: tuple[str, ...]
    restart: tuple[str, ...]
    warnings: tuple[str, ...]


# ---------------------------------------------------------------- commands

Result = TypeVar("Result")


class OperatorCommand(
    Struct,
    Generic[Result],
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """A command whose execution has this result. Unknown keys are refused: a misspelt key must not
    mean its default. `dry_run`: change nothing, and say what the command would do."""

    dry_run: bool = False

    def logged(self, result: Result) -> Mapping[str, object]:
        """Return what the log and the event stream say of the command, besides its name."""
        return {}


class PauseCrawl(OperatorCommand[StateAnswer], frozen=True, kw_only=True):
    """Send no request, for pages or robots.txt, until the crawl is resumed; requests in flight end.
    Durable: a daemon that is started on the database stays paused, until it is resumed or until
    `courtly crawl` runs there."""


class ResumeCrawl(OperatorCommand[StateAnswer], frozen=True, kw_only=True):
    """Send requests again. Hosts that were paused individually stay paused."""


class HostCommand(OperatorCommand[Controlled], frozen=True, kw_only=True):
    """A command about hosts: one `host`, several `hosts`, or all known hosts that fulfil all
    conditions. `pattern`: as in `[site."…"]`; "*" is all hosts. `search`: part of a name. `state`:
    of a list of hosts. `reason`: what holds their queued URLs. Hosts that are discovered later do
    not count. If a name is unknown, nothing changes."""

    host: Name | None = None
    hosts: tuple[Name, ...] = ()
    pattern: Text = ""
    search: Text = ""
    state: Text = ""
    reason: Text = ""

    def __post_init__(self) -> None:
        ways = (self.host is not None, bool(self.hosts), self.selects)
        if sum(ways) > 1:
            what = 'use only one of "host", "hosts" and conditions such as "pattern"'
            raise InvalidCommandError("host", what)
        if not any(ways):
            what = "name one host, several hosts, or conditions such as a pattern"
            raise InvalidCommandError("host", what)
        if len(self.hosts) > HOSTS_NAMED_MAX:
            what = f"at most {HOSTS_NAMED_MAX:,} in one request; use a pattern"
            raise InvalidCommandError("hosts", what, too_large=True)
        if self.state == _ALL_STATES and not (self.pattern or self.search or self.reason):
            what = 'is no condition; for all hosts, use the pattern "*"'
            raise InvalidCommandError("state", what)

    @property
    def setting(self) -> Mapping[str, Any]:
        """The controls that it sets for a host: the arguments of `Store.set_controls`."""
        raise NotImplementedError

    @property
    def selects(self) -> bool:
        """Whether it is about all hosts that fulfil conditions, instead of named ones."""
        return bool(self.pattern or self.search or self.state or self.reason)

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts it names."""
        return self.hosts if self.host is None else (self.host,)

    @property
    def selection(self) -> str:
        """Its conditions in words."""
        conditions = []
        if self.pattern not in ("", ALL_HOSTS):
            conditions.append(f'matching "{self.pattern}"')
        if self.search:
            conditions.append(f'containing "{self.search.lower()}"')
        if self.state not in ("", _ALL_STATES):
            conditions.append(f"in the state {self.state}")
        if self.reason:
            conditions.append(f"held by {self.reason}")
        return f"hosts {' and '.join(conditions)}" if conditions else "all hosts"

    def logged(self, result: Controlled) -> Mapping[str, object]:
        slow_s = self.setting.get("slow_s")
        values = {} if slow_s is None else {"delay_s": slow_s}
        if not self.selects and result.hosts == 1:
            return {"host": result.names[0], **values}
        values |= {"hosts": result.hosts, "names": list(result.names)}
        return {**values, "selection": self.selection} if self.selects else values


class PauseHosts(HostCommand, frozen=True, kw_only=True):
    """Send no request to these hosts, robots.txt and redirects included, until they are resumed."""

    @property
    def setting(self) -> Mapping[str, Any]:
        return {"paused": True}


class ResumeHosts(HostCommand, frozen=True, kw_only=True):
    """Undo both the pause and the delay of these hosts, and try those again that could not be
    connected to."""

    @property
    def setting(self) -> Mapping[str, Any]:
        return {"paused": False, "clear_slow": True}


class SlowHosts(HostCommand, frozen=True, kw_only=True):
    """Wait at least `delay_s` between requests to a host, counted from the end of the last one. A
    longer delay from another source stands."""

    delay_s: Number

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.delay_s <= SLOW_S_MAX:  # false for NaN, too
            raise InvalidCommandError("delay_s", f"must be 0 to {SLOW_S_MAX:,.0f} seconds")

    @property
    def setting(self) -> Mapping[str, Any]:
        return {"slow_s": self.delay_s}


class AddSeeds(OperatorCommand[SeedsAdded], frozen=True, kw_only=True):
    """Queue seeds, which widen the scope. Invalid URLs are refused individually, and so are seeds
    beyond loopback without a contact in the user agent; the others are queued."""

    urls: tuple[str, ...]
    priority: Number = 0.0

    def __post_init__(self) -> None:
        if not self.urls:
            raise InvalidCommandError("urls", "must name at least one URL")
        if len(self.urls) > SEEDS_MAX:
            what = f"at most {SEEDS_MAX:,} in one request"
            raise InvalidCommandError("urls", what, too_large=True)
        for number, url in enumerate(self.urls):
            if len(url) > SEED_BYTES_MAX:
                what = f"is longer than {SEED_BYTES_MAX:,} characters"
                raise InvalidCommandError(f"urls[{number}]", what, too_large=True)
        if not math.isfinite(self.priority):
            raise InvalidCommandError("priority", "must be a finite number")

    def logged(self, result: SeedsAdded) -> Mapping[str, object]:
        return {"added": result.added, "known": result.known, "refused": len(result.refused)}


class FailedCommand(OperatorCommand[Result], Generic[Result], frozen=True, kw_only=True):
    """A command about failed URLs: of a `host`, with a failure `code`, or all."""

    host: Name | None = None
    code: Name | None = None

    def counted(self, urls: int) -> Result:
        """The result for so many URLs."""
        raise NotImplementedError

    def logged(self, result: Result) -> Mapping[str, object]:
        found: dict[str, object] = msgspec.to_builtins(result)
        del found["dry_run"]  # only what was changed is logged
        return {"host": self.host, "code": self.code, **found}


class RetryFailed(FailedCommand[Retried], frozen=True, kw_only=True):
    """Queue failed URLs again, as if never tried: of a host, with a failure code, or all."""

    def counted(self, urls: int) -> Retried:
        return Retried(retried=urls, dry_run=self.dry_run)


class DropFailed(FailedCommand[FailedDropped], frozen=True, kw_only=True):
    """Take failed URLs out of view: of a host, with a failure code, or all. They count as skipped,
    and a later link or seed queues them again."""

    def counted(self, urls: int) -> FailedDropped:
        return FailedDropped(dropped=urls, dry_run=self.dry_run)


class Reload(OperatorCommand[Reloaded], frozen=True, kw_only=True):
    """Read the config again and apply it immediately, to waiting hosts as well; each worker that
    shares the crawl its own file."""

    def logged(self, result: Reloaded) -> Mapping[str, object]:
        return {"changes": list(result.changes)}


# ---------------------------------------------------------------- orders between workers


class WidenScope(Struct, frozen=True, kw_only=True):
    """Scope is relative to these URLs (canonical), too, which are seeds, or where the redirects of
    one ended. None: to all seeds of the store."""

    urls: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if any(canonical(url) != url for url in self.urls or ()):
            raise InvalidCommandError("urls", "contains a seed that is not a canonical URL")


OrderedCommand = PauseHosts | ResumeHosts | SlowHosts | RetryFailed | Reload | WidenScope

# Of what one worker changes in a shared crawl, all others apply these to what they hold in memory.
# The store has changed before. Whether the whole crawl is paused is no order: each pulse tells.
_ORDERS: Final[Mapping[str, type[OrderedCommand]]] = {
    "host_pause": PauseHosts,
    "host_resume": ResumeHosts,
    "host_slow": SlowHosts,
    "retry": RetryFailed,
    "reload": Reload,
    "seeds": WidenScope,
}
_VERBS: Final = {kind: verb for verb, kind in _ORDERS.items()}


class InvalidOrderError(ValueError):
    """An order that this version cannot carry out; the message says why."""


def scope_of_seeds(urls: list[str] | tuple[str, ...]) -> WidenScope:
    """The order that follows new seeds."""
    return WidenScope(urls=tuple(urls) if len(urls) <= SEEDS_NAMED_MAX else None)


def encode(command: OrderedCommand) -> Order:
    """The order as it is stored."""
    return Order(verb=_VERBS[type(command)], body=msgspec.to_builtins(command))


def decode(order: Order) -> OrderedCommand:
    """Check an order that was read from a store. Unknown keys, of a newer version, are ignored.
    Raises InvalidOrderError."""
    try:
        kind = _ORDERS[order.verb]
        known = {one.encode_name for one in structs.fields(kind)}
        body = {key: value for key, value in order.body.items() if key in known}
        return msgspec.convert(body, kind)
    except (KeyError, msgspec.ValidationError) as error:
        raise InvalidOrderError(f'invalid order "{order.verb[:50]}": {error}') from None
