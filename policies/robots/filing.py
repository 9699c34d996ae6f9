"""Under which of its octets a wildcard pattern is filed: those that tell it from most others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from policies.robots.pattern import NONE
from policies.robots.search import Entry

KEY = 4  # octets of the runs under which wildcard patterns are filed; all, if a piece has fewer
LONG_KEY = 12  # of runs under which those are filed that have too much company
SIZES = (LONG_KEY, *range(KEY, 0, -1))
KEY_CROWD = 12  # patterns under one run before they are made a tree


def rarest(keys: Mapping[str, Sequence[Entry]], entry: Entry, looked_at: int, company: int) -> str:
    """The run of octets that `entry` needs under which fewest patterns are filed, of those looked
    at: runs of its longest piece first, then longer runs, and those of its other pieces. The first
    with at most `company` is taken."""
    _, needed, pieces, tail = entry
    chosen, least = "", NONE
    length = len(needed)
    for at in _spots(length - KEY + 1, looked_at):
        key = needed[at : at + KEY]
        crowd = len(keys[key]) if key in keys else 0
        if crowd <= company:
            return key
        if crowd < least:
            chosen, least = key, crowd
    if least < KEY_CROWD:
        return chosen
    others = pieces[1 : looked_at + 1]
    for piece in dict.fromkeys((needed, *others, tail or "", pieces[0])):
        length = len(piece)
        if length >= KEY:
            size = LONG_KEY if length >= LONG_KEY else KEY
            spots = _spots(length - size + 1, looked_at)
        elif length:
            size, spots = length, range(1)
        else:
            continue
        for at in spots:
            key = piece[at : at + size]
            crowd = len(keys[key]) if key in keys else 0
            if crowd <= company:
                return key
            if crowd < least:
                chosen, least = key, crowd
    return chosen


def _spots(count: int, looked_at: int) -> Sequence[int]:
    """At most `looked_at` of `count` places, from both ends."""
    if count <= looked_at:
        return range(count)
    half = looked_at // 2
    return [*range(half), *range(count - half, count)]
