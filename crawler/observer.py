"""Observe waits, contacts and outcomes as they happen: the interface of logs, metrics and traces.

Public as `crawler.Observer`, for `Crawler`, `PoliteSession` and `Politeness`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVarTuple

from msgspec import Struct

from crawler.faults import contained
from policies.holds import Hold
from policies.retries import FailureCode
from storage.store import Outcome, StoreError

_Args = TypeVarTuple("_Args")
_log = logging.getLogger("courtly.faults")


class Contacted(Struct, frozen=True, kw_only=True):
    """One contact that has ended: a page, or one hop on the way to a robots.txt or a sitemap.

    url: the canonical URL requested. slot: the host (`host` of the hosts view).
    kind: "page", "robots" or "sitemap", as in the contacts of a host.
    status: of the response, or of a failure whose header arrived. None: there was no response.
    error, sentence: the code of a failure, and its description for people; None and "" for a
      complete response, and for a request cancelled when the crawl ended (`status` is None then).
    started_at: Unix seconds. elapsed_s: from the first packet to the last byte.
    latency_s: from the request to the end of the response header; None for failures.
    body_bytes: after decompression. wire_bytes: as received, with the header. Both are 0 for
      failures, and where another client sends the request (the middleware, lent permits).
    address: the IP address connected to; None if unknown.
    late_s: how long the request waited after its host's politeness delay was over, for a free
      request slot or for the crawler itself; never negative. A manual pause does not count.
    next_in_s: from the end of the contact until the host may be contacted again.
    rest_source: the origin of that delay in words: "politeness.delay", "Crawl-delay in robots.txt".
    early: whether it began before its host's politeness delay was over, which is never allowed.
    unproven: whether nobody measured how long the host had rested before, because the worker that
      contacted it last died, or the database forgot it.
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
    early: bool = False
    unproven: bool = False


class Waited(Struct, frozen=True, kw_only=True):
    """One wait of a caller for the permit of one request, which has ended.

    It begins with the call, and includes the fetch of robots.txt if that was necessary. Each hop of
    a redirect and each retry has a wait of its own; the pause before a retry is not part of it.

    url: the canonical URL to be requested. slot: its host, as in `Contacted`.
    started_at: Unix seconds. elapsed_s: until the permit was granted, or the wait ended without it.
    error: the exception that ended it (RobotsDisallowed, a cancellation, …); None: it was granted.
    """

    url: str
    slot: str
    started_at: float
    elapsed_s: float
    error: BaseException | None


class Observer:
    """Base class of observers: override the methods that you need.

    Every method is called synchronously, in the event loop of the observed object. It must be cheap
    and must not block. An exception is logged (`courtly.faults`) and changes nothing else.

    `waited` and `contacted` are called in the task of the caller whose request it is, with its
    context variables. In a crawl there are no callers but those of `Crawler.session`: its contacts,
    and every fetch of a robots.txt, happen in tasks of courtly's own.
    """

    def waited(self, seen: Waited) -> None:
        """A caller's wait for a permit has ended. In a crawl, URLs of the crawl itself do not wait
        like this; `Contacted.late_s` is what they waited beyond their politeness delay."""

    def contacted(self, seen: Contacted) -> None:
        """A contact has ended; the outcome of a crawl's URL follows."""

    def settled(self, url: str, outcome: Outcome) -> None:
        """An outcome of a crawl was recorded, and is not committed yet: a URL was visited, blocked,
        dropped or moved, it failed, or it was queued for a retry."""

    def gave_up(self, slot: str, origin: str, error: str, count: int) -> None:
        """No connection to an origin could be made: its `count` queued URLs failed together, with
        this error ("CODE: sentence"). Already committed; no `settled` follows for each URL."""

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None:
        """The store committed `outcomes` outcomes and `links` links within `elapsed_s`."""

    def hold_began(self, hold: Hold) -> None:
        """Trouble of the crawler's own machine or network stops the whole crawl."""

    def hold_ended(self, hold: Hold, elapsed_s: float) -> None:
        """A hold is over, after `elapsed_s`."""


class Observers(Observer):
    """Several observers as one, in the order given. An exception in one of them affects neither the
    others nor the crawl."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)
        # Called for every page: only those that do something.
        self._contacted = _overridden([one.contacted for one in observers], Observer.contacted)
        self._settled = _overridden([one.settled for one in observers], Observer.settled)

    def waited(self, seen: Waited) -> None:
        _call([one.waited for one in self._observers], seen)

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


def _overridden(
    methods: Iterable[Callable[[*_Args], None]], base: Callable[..., None]
) -> list[Callable[[*_Args], None]]:
    return [one for one in methods if getattr(one, "__func__", one) is not base]


def _call(methods: Iterable[Callable[[*_Args], None]], *args: *_Args) -> None:
    for method in methods:
        try:
            method(*args)
        except StoreError as error:  # of a database of the observer's own: it ends nothing here
            with contextlib.suppress(Exception):
                _log.error("an observer's %s failed", method.__name__, exc_info=error)
        except Exception as error:  # noqa: BLE001
            contained(f"an observer's {method.__name__}", error)


def all_of(observers: Sequence[Observer]) -> Observer | None:
    """One observer for all of these; None for none, which costs nothing."""
    if len(observers) == 1 and isinstance(observers[0], Observers):
        return observers[0]
    return Observers(observers) if observers else None
