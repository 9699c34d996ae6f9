"""Counters of origins and hosts: a transaction collects its changes and writes them once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container
from functools import partial
from operator import mul

from storage.engine.statements import Statements, record
from storage.read_records import Stats

# The counters of an origin, in the order of the statements. A host has the first five.
QUEUED, VISITED, BLOCKED, FAILED, BODY_BYTES, JUDGED, UNGOVERNED = range(7)
_OF_SLOTS = 5
_NOTHING = [0] * _OF_SLOTS


class CounterChanges:
    """The changes of one transaction."""

    def __init__(self) -> None:
        self._origins: defaultdict[int, list[int]] = defaultdict(partial(mul, [0], 7))
        self._slots: defaultdict[int, list[int]] = defaultdict(partial(mul, _NOTHING, 1))
        self.added: dict[str, int] = {}  # host -> URLs newly queued
        self._fresh: set[int] = set()  # hosts with new queued URLs

    def count(self, origin: int, slot: int | None, what: int, by: int) -> None:
        self._origins[origin][what] += by
        if slot is not None and what < _OF_SLOTS:
            self._slots[slot][what] += by

    def count_slot(self, slot: int, what: int, by: int) -> None:
        self._slots[slot][what] += by

    def queued(self, origin: int, slot: int, slot_name: str, by: int = 1) -> None:
        """Count URLs that were queued as new ones."""
        self.count(origin, slot, QUEUED, by)
        self.arrived(slot, slot_name, by)

    def arrived(self, slot: int, slot_name: str, by: int) -> None:
        self.added[slot_name] = self.added.get(slot_name, 0) + by
        self._fresh.add(slot)

    def of_slot(self, slot: int) -> list[int]:
        """Return the changes of a host, for a caller that writes them with other columns."""
        return self._slots.get(slot, _NOTHING)

    def write(self, sql: Statements, *, but: Container[int] = ()) -> None:
        """Write all changes, except those of the hosts in `but`, which the caller writes."""
        # Hosts before origins, everywhere: writers that meet must not wait for each other.
        sql.many(
            "count_slots", [(key, *sums) for key, sums in self._slots.items() if key not in but]
        )
        sql.many("count_origins", [(key, *counts) for key, counts in self._origins.items()])
        sql.many("wake_slots", [(key,) for key in self._fresh if key not in but])

    def sums(self) -> list[int]:
        return [sum(column) for column in zip(*self._slots.values(), strict=True)] or _NOTHING


class Totals:
    """The sums over all hosts: in memory, or if there are other writers, a row per session."""

    def __init__(self, sql: Statements) -> None:
        self._sql = sql
        self._stats = stored_stats(sql)

    def add(self, tally: CounterChanges, new_hosts: int, session: int) -> None:
        if self._sql.shared:
            if new_hosts or any(tally.sums()):
                self._sql.run("add_to_totals", session, *tally.sums(), new_hosts)
            return
        before = self._stats
        queued, visited, blocked, failed, body_bytes = tally.sums()
        self._stats = Stats(
            visited=before.visited + visited,
            blocked=before.blocked + blocked,
            failed=before.failed + failed,
            queued=before.queued + queued,
            hosts=before.hosts + new_hosts,
            body_bytes=before.body_bytes + body_bytes,
        )

    def stats(self) -> Stats:
        if self._sql.shared:
            self._stats = stored_stats(self._sql)
        return self._stats


def stored_stats(sql: Statements) -> Stats:
    """Return the counts."""
    row = sql.row("totals")
    assert row is not None
    return record(Stats, row)
