"""Watching a crawl from inside: what its log, its metrics and its plots are told, as it happens.

Plain synchronous calls out of the middle of the crawl: what is called must be cheap and must not
wait. What it raises is logged, and the crawl continues. Where nobody watches, nothing is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from crawler.faults import contained
from policies.holds import Hold
from policies.retries import FailureCode
from storage.store import Outcome


class Contacted(Struct, frozen=True, kw_only=True):
    """One contact that has ended: a page, or one hop on the way to a robots.txt or a sitemap.

    url: what was asked for; canonical. slot: the held host (`host` of the hosts view).
    kind: "page", "robots" or "sitemap", as in the ring of contacts.
    status: of the answer; also of a failure whose header came. None: there was no answer.
    error, sentence: of a failure, for people in the sentence; None and "" for a whole answer, and
      for a contact broken off because the crawl was told to leave (then `status` is None, too).
    started_at: Unix seconds. elapsed_s: first packet to last byte.
    latency_s: from the request to the end of the answer's header; None for failures.
    body_bytes: after decompression. wire_bytes: as received, header included; 0 for failures.
    address: connected to; None if unknown.
    late_s: how long after it first could have begun, by its host's clock and its own work, it began
      (limits on requests in flight, and our own slowness); never negative. Time paused by hand does
      not count.
    next_in_s: from the end of the contact until the host may be contacted again.
    rest_source: where that rest comes from, in words: "politeness.delay", "slowed by hand", …
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


class Observer(Protocol):
    """Somebody who watches one crawl. Every method returns at once."""

    def contacted(self, seen: Contacted) -> None:
        """A contact has ended; its outcome follows."""
        ...

    def settled(self, url: str, outcome: Outcome) -> None:
        """An outcome was recorded: a URL visited, blocked, failed, queued for another try, dropped
        or moved. It is not committed yet."""
        ...

    def gave_up(self, slot: str, origin: str, error: str, count: int) -> None:
        """An origin could not be connected to: its `count` queued URLs failed in bulk, with this
        error ("CODE: sentence"). There is no `settled` for each of them. Committed."""
        ...

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None:
        """The store took a commit of so many outcomes and links; it took so long."""
        ...

    def hold_began(self, hold: Hold) -> None:
        """Trouble of our own holds the whole crawl: no request begins."""
        ...

    def hold_ended(self, hold: Hold, elapsed_s: float) -> None:
        """This hold is over; it lasted so long."""
        ...


class Fanout:
    """Observers as one, in the order given. What one of them raises stops neither the others nor
    the crawl."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)
        self._contacted = tuple(one.contacted for one in observers)
        self._settled = tuple(one.settled for one in observers)

    def contacted(self, seen: Contacted) -> None:
        for tell in self._contacted:
            try:
                tell(seen)
            except Exception as error:  # noqa: BLE001
                contained("an observer of contacts", error)

    def settled(self, url: str, outcome: Outcome) -> None:
        for tell in self._settled:
            try:
                tell(url, outcome)
            except Exception as error:  # noqa: BLE001
                contained("an observer of outcomes", error)

    def gave_up(self, slot: str, origin: str, error: str, count: int) -> None:
        for one in self._observers:
            try:
                one.gave_up(slot, origin, error, count)
            except Exception as fault:  # noqa: BLE001
                contained("an observer of origins given up", fault)

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None:
        for one in self._observers:
            try:
                one.committed(elapsed_s, outcomes, links)
            except Exception as error:  # noqa: BLE001
                contained("an observer of commits", error)

    def hold_began(self, hold: Hold) -> None:
        for one in self._observers:
            try:
                one.hold_began(hold)
            except Exception as error:  # noqa: BLE001
                contained("an observer of holds", error)

    def hold_ended(self, hold: Hold, elapsed_s: float) -> None:
        for one in self._observers:
            try:
                one.hold_ended(hold, elapsed_s)
            except Exception as error:  # noqa: BLE001
                contained("an observer of holds", error)


def all_of(observers: Sequence[Observer]) -> Observer | None:
    """One observer for all of these; None for none, which costs nothing."""
    if len(observers) == 1 and isinstance(observers[0], Fanout):
        return observers[0]
    return Fanout(observers) if observers else None
