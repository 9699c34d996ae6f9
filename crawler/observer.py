"""Observe a crawl while it runs: the interface of its log, its metrics and its event stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVarTuple

from msgspec import Struct

from crawler.faults import contained
from policies.holds import Hold
from policies.retries import FailureCode
from storage.store import Outcome

_Args = TypeVarTuple("_Args")


class Contacted(Struct, frozen=True, kw_only=True):
    """One contact that has ended: a page, or one hop on the way to a robots.txt or a sitemap.

    url: the canonical URL requested. slot: the host (`host` of the hosts view).
    kind: "page", "robots" or "sitemap", as in the contacts of a host.
    status: of the response, or of a failure whose header arrived. None: there was no response.
    error, sentence: the code of a failure, and its description for people; None and "" for a
      complete response, and for a request cancelled when the crawl ended (`status` is None then).
    started_at: Unix seconds. elapsed_s: from the first packet to the last byte.
    latency_s: from the request to the end of the response header; None for failures.
    body_bytes: after decompression. wire_bytes: as received, with the header; 0 for failures.
    address: the IP address connected to; None if unknown.
    late_s: how long the request waited after its host's politeness delay was over, for a free
      request slot or for the crawler itself; never negative. A manual pause does not count.
    next_in_s: from the end of the contact until the host may be contacted again.
    rest_source: the origin of that delay in words: "politeness.delay", "Crawl-delay in robots.txt".
    """

    url: str
    slot: str
    kind: str
    status: int | None
    error: FailureCode | None
    sentence: str
    started_at: float
    elapsed_s: float
    latency_s: float | None
    body_bytes: int
    wire_bytes: int
    address: str | None
    late_s: float
    next_in_s: float
    rest_source: str


class Observer:
    """Base class of observers. Every method is called synchronously from the crawl: it must be
    cheap and must not block. An exception is logged, and the crawl continues."""

    def contacted(self, seen: Contacted) -> None:
        """A contact has ended; its outcome follows."""

    def settled(self, url: str, outcome: Outcome) -> None:
        """An outcome was recorded, and is not committed yet: a URL was visited, blocked, dropped or
        moved, it failed, or it was queued for a retry."""

    def gave_up(self, slot: str, origin: str, error: str, count: int) -> None:
        """No connection to an origin could be made: its `count` queued URLs failed together, with
        this error ("CODE: sentence"). Already committed; no `settled` follows for each URL."""

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None:
        """The store committed `outcomes` outcomes and `links` links within `elapsed_s`."""

    def hold_began(self, hold: Hold) -> None:
        """Trouble of the crawler's own machine or network stops the whole crawl."""

    def hold_ended(self, hold: Hold, elapsed_s: float) -> None:
        """This hold is over, after `elapsed_s`."""


class Observers(Observer):
    """Several observers as one, in the order given. An exception in one of them affects neither the
    others nor the crawl."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)
        self._contacted = [one.contacted for one in observers]  # called for every page
        self._settled = [one.settled for one in observers]

    def contacted(self, seen: Contacted) -> None:
        _call(self._contacted, seen)

    def settled(self, url: str, outcome: Outcome) -> None:
        _call(self._settled, url, outcome)

    def gave_up(self, slot: str, origin: str, error: str, count: int) -> None:
        _call([one.gave_up for one in self._observers], slot, origin, error, count)

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None:
        _call([one.committed for one in self._observers], elapsed_s, outcomes, links)

    def hold_began(self, hold: Hold) -> None:
        _call([one.hold_began for one in self._observers], hold)

    def hold_ended(self, hold: Hold, elapsed_s: float) -> None:
        _call([one.hold_ended for one in self._observers], hold, elapsed_s)


def _call(methods: Iterable[Callable[[*_Args], None]], *args: *_Args) -> None:
    for method in methods:
        try:
            method(*args)
        except Exception as error:  # noqa: BLE001
            contained(f"an observer's {method.__name__}", error)


def all_of(observers: Sequence[Observer]) -> Observer | None:
    """One observer for all of these; None for none, which costs nothing."""
    if len(observers) == 1 and isinstance(observers[0], Observers):
        return observers[0]
    return Observers(observers) if observers else None
