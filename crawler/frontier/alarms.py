"""Alarms of hosts, in a heap with one entry per alarm, and of a wall clock that was set."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final, NamedTuple

from crawler.clock import Clock
from crawler.frontier.pace import NEVER

_COMPACT_MIN = 64  # entries, before void ones are looked for
LOOK_S: Final = 30.0  # how often the wall clock is read while hosts wait for a visit window
STEP_S: Final = 1.0  # a larger jump against the monotonic clock: it was set, or we slept


class _Entry(NamedTuple):
    at_s: float
    number: int
    slot: str
    name: str
    of_host: dict[str, int]  # the host's own alarms, by name: an entry not found there is void


class Alarms:
    """Alarms of hosts, by name. Setting one replaces the host's alarm of the same name.

    Void entries do not keep their host in memory. They are dropped when they reach the head of the
    heap, and all together whenever it has doubled.
    """

    def __init__(self) -> None:
        self._heap: list[_Entry] = []
        self._number = 0
        self._compact_at = _COMPACT_MIN

    def set(self, slot: str, of_host: dict[str, int], name: str, at_s: float | None) -> None:
        """Set or clear an alarm. of_host: the host's `alarms`. at_s: None clears it."""
        if at_s is None:
            of_host.pop(name, None)
            return
        self._number += 1
        of_host[name] = self._number
        heapq.heappush(self._heap, _Entry(at_s, self._number, slot, name, of_host))
        if len(self._heap) > self._compact_at:
            self._heap = [entry for entry in self._heap if not _is_void(entry)]
            heapq.heapify(self._heap)
            self._compact_at = max(2 * len(self._heap), _COMPACT_MIN)

    def wake_at(self) -> float | None:
        """The time when the first alarm goes off (monotonic seconds)."""
        heap = self._heap
        while heap and _is_void(heap[0]):
            heapq.heappop(heap)
        return heap[0].at_s if heap else None

    def take_due(self, now_s: float) -> Iterator[tuple[str, str]]:
        """Remove those that go off by `now_s`, as (slot, name)."""
        while (at_s := self.wake_at()) is not None and at_s <= now_s:
            entry = heapq.heappop(self._heap)
            del entry.of_host[entry.name]
            yield entry.slot, entry.name


def _is_void(entry: _Entry) -> bool:
    return entry.of_host.get(entry.name) != entry.number


class WallWatch:
    """Detects that the wall clock was set: compares both clocks while `on`.

    Only visit windows depend on it: all other waits use the monotonic clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_s = 0.0  # the wall clock, when windows were last computed
        self.on = False
        self.look_s = NEVER
        """When the clocks are compared again (monotonic)."""

    def begin(self) -> None:
        """A host waits for its visit window."""
        if not self.on:
            self.on = True
            self._ahead_s = self._clock.wall() - self._clock.monotonic()
            self.looked()

    def looked(self) -> None:
        self.look_s = self._clock.monotonic() + LOOK_S

    def stepped(self) -> bool:
        """Return whether the wall clock was set since windows were computed. True once."""
        ahead_s = self._clock.wall() - self._clock.monotonic()
        if abs(ahead_s - self._ahead_s) <= STEP_S:
            return False
        self._ahead_s = ahead_s
        return True
