"""Orders: what one worker changes in a crawl that it shares, for all others to apply as well.

Whoever gives an order has changed the store first: an order makes the others obey what is stored
already (a paused host, new seeds), in whatever they hold in memory. Whether the whole crawl is
paused is no order: each pulse tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from policies.url import canonical
from storage.store import Order

SLOW_S_MAX: Final = 30 * 86_400.0  # the longest delay an operator may set; a longer one is a pause
HOSTS_AT_ONCE: Final = 200  # in one order, and in one transaction
SEEDS_NAMED_MAX: Final = 100  # in one order; of more, all seeds are read from the store instead


class SteerHosts(Struct, frozen=True, kw_only=True, tag_field="verb", tag="hosts"):
    """Pause, slow or resume hosts, as by `Store.set_controls`."""

    slots: tuple[str, ...]
    paused: bool | None = None
    slow_s: float | None = None
    clear_slow: bool = False


class AddSeeds(Struct, frozen=True, kw_only=True, tag_field="verb", tag="seeds"):
    """Scope is relative to these URLs (canonical), too, which are seeds, or where the redirects of
    one ended. None: to all seeds of the store."""

    urls: tuple[str, ...] | None = None


class RetryFailed(Struct, frozen=True, kw_only=True, tag_field="verb", tag="retry"):
    """Failed URLs were queued again, as by `Store.retry_failed`."""

    host: str | None = None
    code: str | None = None


class Reload(Struct, frozen=True, kw_only=True, tag_field="verb", tag="reload"):
    """Read the config again; each worker its own file."""


Command: TypeAlias = SteerHosts | AddSeeds | RetryFailed | Reload


class InvalidOrderError(ValueError):
    """An order that this version cannot carry out; the message says why."""


def seeds_added(urls: list[str] | tuple[str, ...]) -> AddSeeds:
    return AddSeeds(urls=tuple(urls) if len(urls) <= SEEDS_NAMED_MAX else None)


def encode(command: Command) -> Order:
    """The order as it is stored."""
    body = msgspec.to_builtins(command)
    return Order(verb=body.pop("verb"), body=body)


def decode(order: Order) -> Command:
    """Check an order that was read from a store. Unknown keys, of a newer version, are ignored.
    Raises InvalidOrderError."""
    try:
        command: Command = msgspec.convert(_tagged(order), Command)
    except msgspec.ValidationError as error:
        raise InvalidOrderError(f'invalid order "{order.verb[:50]}": {error}') from None
    match command:
        case SteerHosts(slow_s=float(slow_s)) if not 0 <= slow_s <= SLOW_S_MAX:
            raise InvalidOrderError(f"invalid order: a delay of {slow_s:g} s")
        case AddSeeds(urls=tuple(urls)) if any(canonical(url) != url for url in urls):
            raise InvalidOrderError("invalid order: a seed that is not a canonical URL")
    return command


def _tagged(order: Order) -> Mapping[str, object]:
    return {**order.body, "verb": order.verb}
