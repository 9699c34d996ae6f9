"""Histograms of durations on a logarithmic scale: small, and exact when they are added up.

A histogram maps the number of a bucket to a count. The bounds of neighbouring buckets differ by the
factor GROWTH, so a percentile is right within half a bucket, some 9 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

Histogram = Mapping[int, int]

PER_DOUBLING: Final = 4
GROWTH: Final = 2 ** (1 / PER_DOUBLING)
FLOOR_S: Final = 0.001  # bucket 0 is for shorter durations
_LAST: Final = 128  # bucket for more than 50 days


def bucket_of(seconds: float) -> int:
    """The bucket of a duration."""
    if not seconds >= FLOOR_S:
        return 0
    return min(_LAST, 1 + math.floor(PER_DOUBLING * math.log2(seconds / FLOOR_S)))


def value_of(bucket: int) -> float:
    """The duration in seconds that stands for a bucket: the geometric mean of its bounds; 0.0 for
    bucket 0."""
    return 0.0 if bucket <= 0 else FLOOR_S * GROWTH ** (bucket - 0.5)


def added(histograms: Iterable[Histogram]) -> dict[int, int]:
    """The histogram of all durations together."""
    total: dict[int, int] = {}
    for histogram in histograms:
        for bucket, count in histogram.items():
            total[bucket] = total.get(bucket, 0) + count
    return total


def percentile(histogram: Histogram, share: float) -> float | None:
    """The duration in seconds that `share` of all durations (0 to 1) do not exceed, by the nearest
    rank; None for an empty histogram."""
    count = sum(histogram.values())
    if not count:
        return None
    rank = max(1, math.ceil(share * count))
    for bucket in sorted(histogram):
        rank -= histogram[bucket]
        if rank <= 0:
            return value_of(bucket)
    raise AssertionError("a rank is at most the count")
