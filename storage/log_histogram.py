"""Histograms of durations on a logarithmic scale: small, and exact when they are added up.

A histogram maps the number of a bucket to a count. The bounds of neighbouring buckets differ by the
factor GROWTH, so a percentile is right within half a bucket, some 9 %.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Final, TypeVar

Histogram = Mapping[int, int]
_Key = TypeVar("_Key", bound=Hashable)

PER_DOUBLING: Final = 4
GROWTH: Final = 2 ** (1 / PER_DOUBLING)
FLOOR_S: Final = 0.001  # bucket 0 is for durations up to it
_LAST: Final = 128  # bucket for more than 50 days


def bucket_of(seconds: float) -> int:
    """The bucket of a duration: the first one whose upper bound, FLOOR_S * GROWTH**bucket, it does
    not exceed."""
    if not seconds > FLOOR_S:
        return 0
    return min(_LAST, math.ceil(PER_DOUBLING * math.log2(seconds / FLOOR_S)))


def value_of(bucket: int) -> float:
    """The duration in seconds that stands for a bucket: the geometric mean of its bounds; 0.0 for
    bucket 0."""
    return 0.0 if bucket <= 0 else FLOOR_S * GROWTH ** (bucket - 0.5)


def added(counts: Iterable[Mapping[_Key, int]]) -> dict[_Key, int]:
    """The sums of counts that have the same key: of histograms, that of all durations together."""
    total: dict[_Key, int] = {}
    for some in counts:
        for key, count in some.items():
            total[key] = total.get(key, 0) + count
    return total


def increase(counts: Mapping[_Key, int], before: Mapping[_Key, int]) -> dict[_Key, int]:
    """By how much counts are larger than they were before; without those that are the same."""
    return {key: more for key, n in counts.items() if (more := n - before.get(key, 0))}


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
