"""Many patterns at once: which of them that match a path has the best rank.

Prefixes are found by slicing the path at the lengths that prefixes beginning like it have; wildcard
patterns by octets that a path must hold to match them. Neither looks at more than a few of the
patterns, however many there are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from policies.robots.pattern import NONE, Pattern

_STEM = 8  # octets of a path's beginning by which patterns are filed
_STEM_CROWD = 8  # wildcard patterns under one stem before others are filed under something rarer
_GRAM = 4  # octets that a pattern filed under them needs somewhere in the path
_SCAN_MAX = 10  # up to so many wildcard patterns (or four times so many prefixes) are just tried
_TUPLE_MAX = 32  # up to so many short prefixes are ruled out at once by one startswith
_LENGTHS_MAX = 64  # prefixes of more different lengths than this are sorted instead of sliced

# Octets the pattern needs, rank, and the pattern taken apart, as matching wants them.
Wild = tuple[str, int, str, tuple[str, ...], str | None]


class Index:
    """Patterns with their ranks. Fill it with `prefix` and `add`, `seal` it, then ask `best`."""

    __slots__ = (
        "_exact", "_grams", "_lengths", "_links", "_shapes", "_short", "_short_lengths",
        "_sorted", "_stems", "_wild", "best", "prefixes",
    )  # fmt: skip

    prefixes: dict[str, int]
    """The best rank of each prefix; a caller in a hurry may fill it without `prefix`."""

    best: Callable[[str], int]
    """The least rank of the patterns that match a path, or NONE."""

    def __init__(self) -> None:
        self.prefixes = {}
        self._exact: dict[str, int] = {}
        self._shapes: dict[tuple[str, tuple[str, ...], str | None], int] = {}
        self._wild: list[Wild] = []
        self._short: tuple[str, ...] = ()  # prefixes shorter than a stem; their lengths
        self._short_lengths: list[int] = []
        self._lengths: dict[str, set[int]] = {}  # by stem, the lengths of its prefixes
        self._sorted: list[str] = []
        self._links: list[tuple[int, int]] = []  # of each: parent, best rank of it and ancestors
        self._stems: dict[str, list[Wild]] = {}
        self._grams: dict[str, list[Wild]] = {}
        self.best = self._best

    def prefix(self, text: str, rank: int) -> None:
        """Add a pattern without wildcard and anchor."""
        if self.prefixes.setdefault(text, rank) > rank:
            self.prefixes[text] = rank

    def add(self, pattern: Pattern, rank: int) -> None:
        """Add any pattern."""
        if pattern.exact:
            if self._exact.setdefault(pattern.head, rank) > rank:
                self._exact[pattern.head] = rank
        else:
            self.wild(pattern.head, pattern.middle, pattern.tail, rank)

    def wild(self, head: str, middle: tuple[str, ...], tail: str | None, rank: int) -> None:
        """Add a pattern that is not exact, taken apart as Pattern is."""
        if not middle and tail is None:
            self.prefix(head, rank)
            return
        shape = (head, middle, tail)
        if self._shapes.setdefault(shape, rank) > rank:
            self._shapes[shape] = rank

    # ------------------------------------------------------------ building

    def seal(self) -> None:
        """Build what `best` looks into."""
        self._wild = [
            (_needed(*shape), rank, *shape)
            for shape, rank in sorted(self._shapes.items(), key=_rank_of)
        ]
        self._shapes.clear()
        if max(len(self.prefixes) // 4, len(self._wild)) <= _SCAN_MAX and not self._exact:
            self._short = tuple(self.prefixes)
            self._short_lengths = sorted(set(map(len, self._short)))
            self.best = self._best_of_few
        elif len(set(map(len, self.prefixes))) > _LENGTHS_MAX:
            self._sort_prefixes()
        else:
            self._file_prefixes()
        if len(self._wild) > _SCAN_MAX:
            self._file_wild()

    def _file_prefixes(self) -> None:
        lengths = self._lengths
        short: list[str] = []
        for prefix in self.prefixes:
            length = len(prefix)
            if length < _STEM:
                short.append(prefix)
                continue
            stem = prefix[:_STEM]
            if stem in lengths:
                lengths[stem].add(length)
            else:
                lengths[stem] = {length}
        self._short = tuple(short) if len(short) <= _TUPLE_MAX else ()
        self._short_lengths = sorted(set(map(len, short)))

    def _sort_prefixes(self) -> None:
        """Lay the prefixes out so that a path's are one entry, found by bisection, and ancestors.

        Between a prefix of a path and the path, in their order, lies nothing that does not begin
        with that prefix; so the nearest entry before the path is one of them, or begins with them.
        """
        self._sorted = sorted(self.prefixes)
        chain: list[int] = []  # the prefixes that the current one begins with
        for i, prefix in enumerate(self._sorted):
            while chain and not prefix.startswith(self._sorted[chain[-1]]):
                chain.pop()
            rank, parent = self.prefixes[prefix], chain[-1] if chain else -1
            if parent >= 0:
                rank = min(rank, self._links[parent][1])
            self._links.append((parent, rank))
            chain.append(i)

    def _file_wild(self) -> None:
        """File each wildcard pattern under octets that it needs; those that have too few stay."""
        rest: list[Wild] = []
        stems, grams = self._stems, self._grams
        for entry in self._wild:
            needed, _, head, _, _ = entry
            if len(head) >= _STEM:
                filed = stems.setdefault(head[:_STEM], [])
                if len(filed) < _STEM_CROWD:
                    filed.append(entry)
                    continue
            # Filed where fewest others are, so that a common ending costs no more than a rare one.
            least, chosen = NONE, ""
            for at in range(len(needed) - _GRAM + 1):
                gram = needed[at : at + _GRAM]
                if gram not in grams:
                    chosen = gram
                    break
                if len(grams[gram]) < least:
                    least, chosen = len(grams[gram]), gram
            if chosen:
                grams.setdefault(chosen, []).append(entry)
            else:
                rest.append(entry)
        self._wild = rest

    # ------------------------------------------------------------ looking up

    def _best_of_few(self, path: str) -> int:
        """`best` where there are few patterns, as in most files: `_short` are all the prefixes."""
        rank = self._prefix_of(path, self._short_lengths) if path.startswith(self._short) else NONE
        for entry in self._wild:
            if entry[0] in path:
                return _best_of(self._wild, path, rank)
        return rank

    def _best(self, path: str) -> int:
        rank = NONE
        if self._sorted:
            rank = self._prefix_of_sorted(path)
        else:
            if self._short_lengths and (not self._short or path.startswith(self._short)):
                rank = self._prefix_of(path, self._short_lengths)
            lengths = self._lengths.get(path[:_STEM])
            if lengths:
                rank = min(rank, self._prefix_of(path, lengths))
        if self._exact and path in self._exact:
            rank = min(rank, self._exact[path])
        if self._wild:
            rank = _best_of(self._wild, path, rank)
        if self._stems:
            filed = self._stems.get(path[:_STEM])
            if filed:
                rank = _best_of(filed, path, rank)
        if self._grams:
            grams = self._grams
            slices = _slices(len(path) - _GRAM + 1)
            for gram in filter(grams.__contains__, map(path.__getitem__, slices)):
                rank = _best_of(grams[gram], path, rank)
        return rank

    def _prefix_of(self, path: str, lengths: list[int] | set[int]) -> int:
        rank = NONE
        prefixes = self.prefixes
        for length in lengths:
            start = path[:length]
            if start in prefixes and prefixes[start] < rank:
                rank = prefixes[start]
        return rank

    def _prefix_of_sorted(self, path: str) -> int:
        at = bisect_right(self._sorted, path) - 1
        while at >= 0:
            parent, rank = self._links[at]
            if path.startswith(self._sorted[at]):
                return rank
            at = parent
        return NONE


_SLICES = [slice(at, at + _GRAM) for at in range(256)]


def _slices(count: int) -> list[slice]:
    """Where the first `count` runs of _GRAM octets lie."""
    if count <= len(_SLICES):
        return _SLICES[: max(0, count)]
    return [slice(at, at + _GRAM) for at in range(count)]


def _rank_of(entry: tuple[object, int]) -> int:
    return entry[1]


def _needed(head: str, middle: tuple[str, ...], tail: str | None) -> str:
    """The octets of a wildcard pattern that tell most about a path that matches it."""
    needed = max(middle, key=len) if middle else ""
    if tail and len(tail) > len(needed):
        needed = tail
    # A head tells less than its length says: its beginning is often shared.
    return head if len(head) > len(needed) + 4 else needed


def _best_of(wild: list[Wild], path: str, best: int) -> int:
    """The rank of the first of `wild` (in order of rank) that matches and is better than `best`."""
    for needed, rank, head, middle, tail in wild:
        if needed not in path:
            continue
        if rank >= best:
            return best
        if not path.startswith(head):
            continue
        at = len(head)
        for piece in middle:
            at = path.find(piece, at)
            if at < 0:
                break
            at += len(piece)
        else:
            if tail is None or (path.endswith(tail) and len(path) - len(tail) >= at):
                return rank
    return best
