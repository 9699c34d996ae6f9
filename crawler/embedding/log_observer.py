"""What embedded objects log, with the standard library's `logging`, below the logger `courtly`.

No handler is installed and no level is set: that is up to the program. docs/embedding.md lists the
loggers and what they log at which level.
"""

from __future__ import annotations

import logging
from typing import Final

from crawler.config import ConfigError
from crawler.observer import Contacted, Observer, Observers, Waited
from policies.holds import Hold
from storage.store import Blocked, Dropped, Failed, Moved, Outcome, Retry, Visited

_fetch: Final = logging.getLogger("courtly.fetch")
_robots: Final = logging.getLogger("courtly.robots")
_crawl: Final = logging.getLogger("courtly.crawl")
_store: Final = logging.getLogger("courtly.store")
_network: Final = logging.getLogger("courtly.network")


def observer_of(given: object) -> Observer:
    """The observer of an embedded object: its log, and the one that was given, if any. Raises
    ConfigError."""
    if given is None:
        return Observers([LogObserver()])
    if not isinstance(given, Observer):
        kind = given.__name__ if isinstance(given, type) else type(given).__name__
        what = "the class itself" if isinstance(given, type) else "an object"
        raise ConfigError(
            f"observer: expected an instance of a subclass of crawler.Observer, got {what} ({kind})"
        )
    return Observers([LogObserver(), given])


class LogObserver(Observer):
    """Logs waits, contacts, outcomes and holds."""

    def waited(self, seen: Waited) -> None:
        if _fetch.isEnabledFor(logging.DEBUG):
            end = "" if seen.error is None else f", and ended with {type(seen.error).__name__}"
            _fetch.debug("waited %.3f s for %s%s", seen.elapsed_s, seen.url, end)

    def contacted(self, seen: Contacted) -> None:
        log, level = _fetch, logging.DEBUG
        if seen.kind == "robots":
            log, level = _robots, logging.INFO
        if not log.isEnabledFor(level):
            return
        result: object = seen.status
        if seen.error is not None:
            result = f"{seen.error}: {seen.sentence}"
        elif seen.status is None:
            result = "cancelled"
        log.log(
            level,
            "%s: %s, %.3f s, %d bytes; next contact with %s in %.3f s (%s)",
            seen.url,
            result,
            seen.elapsed_s,
            seen.body_bytes,
            seen.slot,
            seen.next_in_s,
            seen.rest_source,
        )

    def settled(self, url: str, outcome: Outcome) -> None:
        match outcome:
            case Visited():
                _crawl.debug("%s: visited, status %d", url, outcome.status)
            case Blocked():
                _crawl.info("%s: blocked, %s", url, outcome.rule or outcome.reason)
            case Failed():
                _crawl.info("%s: failed, %s", url, outcome.error)
            case Retry():
                _crawl.info("%s: retried in %.0f s, %s", url, outcome.due_in_s, outcome.error)
            case Dropped() | Moved():
                _crawl.debug("%s: %s", url, type(outcome).__name__.lower())
            case _:
                pass  # a sitemap or a revisit: logged as a contact

    def gave_up(self, slot: str, origin: str, error: str, count: int) -> None:
        _crawl.info("%s: given up with %d URLs, %s", origin, count, error)

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None:
        if outcomes or links:  # else only the clocks of hosts
            _store.debug("committed %d outcomes and %d links in %.3f s", outcomes, links, elapsed_s)

    def hold_began(self, hold: Hold) -> None:
        _network.warning("no request begins: %s", hold.sentence)

    def hold_ended(self, hold: Hold, elapsed_s: float) -> None:
        _network.warning("requests begin again after %.0f s: %s", elapsed_s, hold.sentence)
