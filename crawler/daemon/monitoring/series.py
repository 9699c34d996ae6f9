"""The data of the plots: a few numbers over time, fine for an hour and coarse for a day.

Memory is bounded: two ring buffers of fixed length.
"""

from __future__ import annotations

import bisect
import enum
import math
from array import array
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import astuple

FINE_STEP_S: Final = 5.0
FINE_POINTS: Final = 720  # an hour
COARSE_STEP_S: Final = 60.0
COARSE_POINTS: Final = 1440  # a day
GAP_STEPS: Final = 3  # missing steps that interrupt the line: a suspended machine


class Track(enum.IntEnum):
    """The recorded numbers, in the order of a sample."""

    PAGES_PER_S = 0
    BYTES_PER_S = 1
    QUEUED = 2
    MEMORY_BYTES = 3
    IN_FLIGHT = 4


class Sample(Struct, frozen=True, kw_only=True):
    """The crawl at one moment; NaN for unknown values."""

    pages_per_s: float
    bytes_per_s: float
    queued: float
    memory_bytes: float
    in_flight: float

    def values(self) -> tuple[float, ...]:
        """Return the values in the order of Track, which is that of the fields."""
        return astuple(self)


class Points(Struct, frozen=True, kw_only=True):
    """One track over a span: times in Unix seconds, ascending; NaN in gaps."""

    times: Sequence[float]
    values: Sequence[float]
    step_s: float


class Series:
    """Time series of all tracks. Add a `Sample` every FINE_STEP_S."""

    def __init__(self) -> None:
        self._fine = _Ring(FINE_POINTS)
        self._coarse = _Ring(COARSE_POINTS)
        self._gathering: list[tuple[float, ...]] = []
        self._minute = -1

    def add(self, at_s: float, sample: Sample) -> None:
        """`at_s`: Unix seconds. After a clock is set back, samples are ignored until it is past the
        newest point again."""
        values = sample.values()
        if not self._fine.add(at_s, values):
            return
        minute = int(at_s // COARSE_STEP_S)
        if minute != self._minute and self._gathering:
            self._coarse.add((self._minute + 1) * COARSE_STEP_S, _means(self._gathering))
            self._gathering = []
        self._minute = minute
        self._gathering.append(values)

    def points(self, track: Track, *, now_s: float, span_s: float) -> Points:
        """The last `span_s` seconds, in the finest steps that cover them."""
        fine = span_s <= FINE_STEP_S * FINE_POINTS
        ring, step_s = (self._fine, FINE_STEP_S) if fine else (self._coarse, COARSE_STEP_S)
        times, values = ring.since(now_s - span_s, track)
        if not fine and self._gathering and times[-1:] != [now_s]:
            times.append(now_s)  # the current minute
            values.append(_means(self._gathering)[track])
        times, values = _broken(times, values, GAP_STEPS * step_s)
        return Points(times=times, values=values, step_s=step_s)


class _Ring:
    """A ring buffer of samples: a column for the times and one for each track."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._columns = [array("d") for _ in range(len(Track) + 1)]
        self._next = 0  # index of the oldest, once it is full

    def add(self, at_s: float, values: tuple[float, ...]) -> bool:
        times = self._columns[0]
        if times and at_s <= times[self._next - 1]:
            return False
        row = (at_s, *values)
        if len(times) < self._length:
            for column, value in zip(self._columns, row, strict=True):
                column.append(value)
            return True
        for column, value in zip(self._columns, row, strict=True):
            column[self._next] = value
        self._next = (self._next + 1) % self._length
        return True

    def since(self, start_s: float, track: Track) -> tuple[list[float], list[float]]:
        times, values = self._columns[0], self._columns[track + 1]
        ordered = [*times[self._next :], *times[: self._next]]
        first = bisect.bisect_left(ordered, start_s)
        return ordered[first:], [*values[self._next :], *values[: self._next]][first:]


def _means(rows: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """The mean of the known values of each column."""
    means = []
    for column in zip(*rows, strict=True):
        known = [value for value in column if not math.isnan(value)]
        means.append(sum(known) / len(known) if known else math.nan)
    return tuple(means)


def _broken(
    times: Sequence[float], values: Sequence[float], gap_s: float
) -> tuple[list[float], list[float]]:
    """The same with a NaN in each gap, so that no line crosses it."""
    out_times, out_values = list[float](), list[float]()
    for at_s, value in zip(times, values, strict=True):
        if out_times and at_s - out_times[-1] > gap_s:
            out_times.append((out_times[-1] + at_s) / 2)
            out_values.append(math.nan)
        out_times.append(at_s)
        out_values.append(value)
    return out_times, out_values
