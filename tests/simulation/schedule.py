"""When a visited page is due again, by the rules of docs/recrawling: a naive model."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tests.simulation.history import History
from tests.simulation.web import Contact

YEAR_S = 365 * 86_400.0


@dataclass(slots=True)
class Interval:
    """From one visit to the next, at least and at most."""

    low: float
    high: float


@dataclass(slots=True)
class _Seen:
    status: int
    version: int
    noindex: bool
    every: Interval


class RevisitModel:
    """Follows the visits of each URL, in their order."""

    def __init__(self, history: History) -> None:
        rules = history.configs[0][2].revisit
        self._mode = str(rules.mode)
        self._interval_s = rules.interval_s
        self._min_s, self._max_s = rules.min_interval_s, rules.max_interval_s
        self._seen: dict[str, _Seen] = {}

    def interval(self, contact: Contact) -> Interval:
        """After this answer."""
        if self._mode == "off":
            return Interval(math.inf, math.inf)
        before = self._seen.get(contact.url)
        assert contact.status is not None
        status = contact.status
        if contact.status == 304 and before is not None:
            status = before.status
        changed: set[bool] = set()
        if before is not None:
            changed = {(before.status, before.version) != (status, contact.version)}
            if before.noindex != contact.noindex:
                changed = {True, False}
        if status in (404, 410):
            every = self._gone(before, changed)
        elif self._mode == "fixed":
            every = Interval(self._interval_s, self._interval_s)
        elif before is None:
            every = Interval(*(2 * [self._bounded(self._interval_s)]))
        else:
            factors = [0.75 if one else 1.5 for one in changed]
            every = Interval(
                self._bounded(before.every.low * min(factors)),
                self._bounded(before.every.high * max(factors)),
            )
        self._seen[contact.url] = _Seen(status, contact.version, contact.noindex, every)
        return every

    def _gone(self, before: _Seen | None, changed: set[bool]) -> Interval:
        first_s = min(YEAR_S, self._interval_s)
        if before is None or changed == {True}:
            return Interval(first_s, first_s)
        doubled = Interval(min(YEAR_S, 2 * before.every.low), min(YEAR_S, 2 * before.every.high))
        if changed == {True, False}:
            return Interval(min(first_s, doubled.low), max(first_s, doubled.high))
        return doubled

    def _bounded(self, interval_s: float) -> float:
        return max(self._min_s, min(self._max_s, interval_s))
