"""The workbench: hosts ordered by the time each may next be contacted. The name is that of the
BUbiNG paper (Boldi et al., 2018)."""

from __future__ import annotations

import heapq
from collections import deque
from typing import Generic, Protocol, TypeVar


class Seated(Protocol):
    """An entry of a workbench. Only the workbench writes `seat`."""

    seat: int


T = TypeVar("T", bound=Seated)

AWAY = 0  # the `seat` of one that is not on the workbench


class Workbench(Generic[T]):
    """Each sitter has one place: waiting until its time, or in the queue of the ready.

    Invariant: a heap entry counts only while its number equals its sitter's `seat`; putting a
    sitter again, or removing it, makes the old entry void. Void entries are dropped when they reach
    the head, and all together when they outnumber the sitters.
    """

    def __init__(self) -> None:
        self.waiting: list[tuple[float, int, T]] = []  # a heap; for others: whether it is empty
        self._ready: deque[tuple[int, T]] = deque()
        self._number = AWAY
        self._sitting = 0

    def __len__(self) -> int:
        return self._sitting

    def put(self, sitter: T, at_s: float) -> None:
        """Seat a sitter until `at_s`; if it sits here already, from now on until `at_s`."""
        if sitter.seat == AWAY:
            self._sitting += 1
        self._number += 1
        sitter.seat = self._number
        heapq.heappush(self.waiting, (at_s, self._number, sitter))
        if len(self.waiting) > 64 and len(self.waiting) > 2 * self._sitting:
            self.waiting = [e for e in self.waiting if e[2].seat == e[1]]
            heapq.heapify(self.waiting)

    def remove(self, sitter: T) -> None:
        if sitter.seat != AWAY:
            sitter.seat = AWAY
            self._sitting -= 1

    def next_at(self) -> float | None:
        """Return when the next one waiting becomes ready; None if none waits."""
        heap = self.waiting
        while heap and heap[0][2].seat != heap[0][1]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def take(self, now_s: float) -> T | None:
        """Remove and give the one that has been ready longest at `now_s`; None if none is."""
        heap = self.waiting
        while heap and heap[0][0] <= now_s:
            _, number, sitter = heapq.heappop(heap)
            if sitter.seat == number:
                self._ready.append((number, sitter))
        while self._ready:
            number, sitter = self._ready.popleft()
            if sitter.seat == number:
                sitter.seat = AWAY
                self._sitting -= 1
                return sitter
        return None
