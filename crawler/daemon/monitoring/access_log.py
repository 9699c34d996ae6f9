"""What clients of the daemon did wrong, in its log. Anyone can do it any number of times, so each
is logged once a minute, and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from crawler.clock import Clock, Timer
from crawler.config.sections import LogLevel
from crawler.daemon.actor import logged_actor

if TYPE_CHECKING:
    from crawler.daemon.monitoring.event_log import EventLog
    from crawler.daemon.monitoring.metrics import CounterFamily

PERIOD_S: Final = 60.0
EVENTS_MAX: Final = 60  # of one name in a period that are logged; further ones are only counted
WHY_SHOWN: Final = 500  # characters of a refusal, which may quote what was sent


@dataclass(slots=True)
class _Seen:
    """An event that was logged. repeated: how many more there were in the period."""

    values: Mapping[str, Any]
    repeated: int = 0


class AccessLog:
    """Logs malformed requests, wrong tokens, requests beyond the rate limits and refused commands.

    The first of a kind is logged immediately; those that follow within PERIOD_S are counted, and
    one more line at its end has their number (`repeated`). At most EVENTS_MAX kinds of an event are
    logged in a period; the number of all others is in a line of its own (`others`). log: None if
    there is no log. counts: the metric of all of them.
    """

    def __init__(
        self, clock: Clock, log: EventLog | None = None, counts: CounterFamily | None = None
    ) -> None:
        self._clock = clock
        self._counts = counts
        self._log = log
        self._seen: dict[tuple[str, ...], _Seen] = {}
        self._kinds: Counter[str] = Counter()
        self._others: Counter[str] = Counter()
        self._timer: Timer | None = None

    def malformed(self, peer: str, error: str) -> None:
        """A request that is not valid HTTP. error: the name of its kind; what was sent may hold
        secrets."""
        self._count("malformed")
        self._event("malformed", (peer,), {"from": peer}, error=error)

    def unauthorized(self, peer: str, path: str) -> None:
        """A request with a wrong token. path: the route, without what the client wrote."""
        self._count("unauthorized")
        self._event("unauthorized", (peer,), {"from": peer}, path=path)

    def limited(self, name: str, peer: str) -> None:
        """A request beyond the rate limit of an account, or of an address (name: "")."""
        self._count("limited")
        self._event("limited", (name or peer,), {"by": name or "anyone", "from": peer})

    def refused(self, what: str, why: str) -> None:
        """A command that was refused or failed; the log says whose."""
        self._count("command")
        shown = why if len(why) <= WHY_SHOWN else f"{why[:WHY_SHOWN]}…"
        values = {"what": what, "why": shown, **logged_actor()}
        self._event("refused", tuple(map(str, values.values())), values)

    def flush(self) -> None:
        """End the period: log what was only counted."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for (name, *_), seen in self._seen.items():
            if seen.repeated:
                self._write(name, {**seen.values, "repeated": seen.repeated})
        for name, count in self._others.items():
            self._write(name, {"others": count})
        self._seen.clear()
        self._kinds.clear()
        self._others.clear()

    def _count(self, reason: str) -> None:
        if self._counts is not None:
            self._counts.of[reason,] += 1

    def _event(
        self, name: str, kind: tuple[str, ...], values: Mapping[str, Any], **details: str
    ) -> None:
        if self._log is None:
            return
        if (seen := self._seen.get((name, *kind))) is not None:
            seen.repeated += 1
            return
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.monotonic() + PERIOD_S, self.flush)
        if self._kinds[name] >= EVENTS_MAX:
            self._others[name] += 1
            return
        self._kinds[name] += 1
        self._seen[name, *kind] = _Seen(values)
        self._write(name, {**values, **details})

    def _write(self, name: str, values: Mapping[str, Any]) -> None:
        if self._log is not None:
            self._log.event(LogLevel.WARNING, name, **values)
