"""Many patterns at once: which of them that match a path has the best rank.

Prefixes are found by slicing the path at the lengths that prefixes beginning like it have; wildcard
patterns by octets that a path must hold to match them. Neither looks at more than a few of the
patterns, however many there are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from policies.robots.pattern import NONE, Pattern
from policies.robots.search import LONG_PATH, Entry, Search, TooMuchWorkError, Tree, prepared

_STEM = 8  # octets of a path's beginning by which patterns are filed
_STEM_CROWD = 8  # wildcard patterns under one stem before others are filed under something rarer
_KEYS = (4, 12, 3, 2, 1)  # octets of the runs under which wildcard patterns are filed
_KEY_CROWD = 8  # patterns under one run before others are filed under a run of another length
_KEYS_LOOKED_AT = 16  # runs of one length considered for a piece,
_KEYS_LOOKED_AT_IN_CROWDS = 4  # and where there are more wildcard patterns than
_CROWD = 4_000
_HITS_MAX = 24  # runs of a path with patterns filed under them, before work is counted
_SCAN_MAX = 10  # up to so many wildcard patterns (or four times so many prefixes) are just tried
_TUPLE_MAX = 32  # up to so many short prefixes are ruled out at once by one startswith
_LENGTHS_MAX = 64  # prefixes of more different lengths than this are sorted instead of sliced

WORK_MAX = 12_000
"""Steps of 0.1 to 0.25 µs that one verdict may cost where work is counted."""

TOO_COMPLEX = -1
"""The rank where the work had no end in time: it stands for no rule, and blocks."""

# Octets the pattern needs, rank, and the pattern taken apart, as matching wants them.
Wild = tuple[str, int, str, tuple[str, ...], str | None]


class Index:
    """Patterns with their ranks. Fill it with `prefix` and `add`, `seal` it, then ask `best`."""

    __slots__ = (
        "_exact", "_few", "_keyed", "_lengths", "_links", "_shapes", "_short", "_short_lengths",
        "_sorted", "_stems", "_trees", "_wild", "prefixes", "work_max",
    )  # fmt: skip

    prefixes: dict[str, int]
    """The best rank of each prefix; a caller in a hurry may fill it without `prefix`."""

    def __init__(self, work_max: int = WORK_MAX) -> None:
        self.work_max = work_max
        self.prefixes = {}
        self._exact: dict[str, int] = {}
        self._shapes: dict[tuple[tuple[str, ...], str | None], int] = {}
        self._wild: list[Wild] = []
        self._short: tuple[str, ...] = ()  # prefixes shorter than a stem; their lengths
        self._short_lengths: list[int] = []
        self._lengths: dict[str, set[int]] = {}  # by stem, the lengths of its prefixes
        self._sorted: list[str] = []
        self._links: list[tuple[int, int]] = []  # of each: parent, best rank of it and ancestors
        self._stems: dict[str, list[Wild]] = {}
        # By the length of the runs: the patterns filed under each, and those of the crowded ones.
        self._keyed: list[tuple[int, dict[str, list[Wild]]]] = []
        self._trees: dict[str, Tree] = {}
        self._few = False

    @property
    def best(self) -> Callable[[str], int]:
        """Gives the least rank of the patterns that match a path, or NONE.

        Whoever asks often keeps it. It is not kept here: an object that refers to itself is freed
        by the garbage collector alone, which looks at old objects hardly ever.
        """
        return self._best_of_few if self._few else self._best

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
        if not middle and not tail:  # (an anchor behind a wildcard holds nothing)
            self.prefix(head, rank)
            return
        shape = ((head, *middle), tail)
        if self._shapes.setdefault(shape, rank) > rank:
            self._shapes[shape] = rank

    # ------------------------------------------------------------ building

    def seal(self) -> None:
        """Build what `best` looks into."""
        shapes = sorted(self._shapes.items(), key=_rank_of)
        entries: list[Entry] = [(rank, pieces, tail) for (pieces, tail), rank in shapes]
        self._shapes.clear()
        if max(len(self.prefixes) // 4, len(entries)) <= _SCAN_MAX and not self._exact:
            self._short = tuple(self.prefixes)
            self._short_lengths = sorted(set(map(len, self._short)))
            self._few = True
        elif len(set(map(len, self.prefixes))) > _LENGTHS_MAX:
            self._sort_prefixes()
        else:
            self._file_prefixes()
        if len(entries) <= _SCAN_MAX:
            self._wild = list(map(_wild, entries))
        else:
            self._file_wild(entries)

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

    def _file_wild(self, entries: Sequence[Entry]) -> None:
        """File each wildcard pattern under octets that it needs, where fewest others are: then a
        common ending costs no more than a rare one."""
        stems: dict[str, list[Entry]] = {}
        keyed: dict[int, dict[str, list[Entry]]] = {size: {} for size in _KEYS}
        looked_at = _KEYS_LOOKED_AT if len(entries) <= _CROWD else _KEYS_LOOKED_AT_IN_CROWDS
        for entry in entries:
            _, pieces, tail = entry
            head = pieces[0]
            if len(head) >= _STEM:
                filed = stems.setdefault(head[:_STEM], [])
                if len(filed) < _STEM_CROWD:
                    filed.append(entry)
                    continue
            needed = (*pieces[1:], tail, head) if tail else (*pieces[1:], head)
            size, key = _rarest(keyed, needed, looked_at)
            keyed[size].setdefault(key, []).append(entry)
        self._stems = {stem: list(map(_wild, filed)) for stem, filed in stems.items()}
        for size, keys in keyed.items():
            lists: dict[str, list[Wild]] = {}
            for key, filed in keys.items():
                if len(filed) > _KEY_CROWD:
                    self._trees[key] = Tree(filed)
                    lists[key] = []
                else:
                    lists[key] = list(map(_wild, filed))
            if lists:
                self._keyed.append((size, lists))

    # ------------------------------------------------------------ looking up

    def _best_of_few(self, path: str) -> int:
        """`best` where there are few patterns, as in most files: `_short` are all the prefixes."""
        rank = self._prefix_of(path, self._short_lengths) if path.startswith(self._short) else NONE
        if self._wild and len(path) > LONG_PATH:
            return self._counted(path, rank)
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
        if self._keyed or self._wild or self._stems:
            rank = self._best_wild(path, rank)
        return rank

    def _best_wild(self, path: str, rank: int) -> int:
        if len(path) > LONG_PATH:
            return self._counted(path, rank)
        hits: list[list[Wild]] = []
        for size, keys in self._keyed:
            slices = _slices(size, len(path) - size + 1)
            for key in dict.fromkeys(filter(keys.__contains__, map(path.__getitem__, slices))):
                if key in self._trees:
                    return self._counted(path, rank)
                hits.append(keys[key])
        if len(hits) > _HITS_MAX:
            return self._counted(path, rank)
        if self._wild:
            rank = _best_of(self._wild, path, rank)
        if self._stems and (filed := self._stems.get(path[:_STEM])):
            rank = _best_of(filed, path, rank)
        for entries in hits:
            rank = _best_of(entries, path, rank)
        return rank

    def _counted(self, path: str, rank: int) -> int:
        """The best rank of wildcard patterns, or TOO_COMPLEX."""
        search = Search(prepared(path), self.work_max)
        try:
            for entries, tree in self._candidates(path, search):
                if tree is not None:
                    rank = search.best(tree, rank)
                    continue
                for entry in entries:
                    if entry[1] >= rank:
                        break
                    if search.matches(_entry(entry), 0, 0):
                        rank = entry[1]
        except TooMuchWorkError:
            return TOO_COMPLEX
        return rank

    def _candidates(self, path: str, search: Search) -> Iterator[tuple[list[Wild], Tree | None]]:
        """The wildcard patterns filed under what stands in the path, in order of rank."""
        yield self._wild, None
        yield self._stems.get(path[:_STEM], []), None
        about = prepared(path)
        for size, keys in self._keyed:
            grams = about.grams(size)
            few, many = (grams, keys) if len(grams) < len(keys) else (keys, grams)
            search.spend(len(few) >> 2)
            for key in few:
                if key in many:
                    search.spend(2)
                    yield keys[key], self._trees.get(key)

    def every(self, path: str, limit: int) -> list[int]:
        """The ranks of patterns that match, about `limit` of them and as far as work allows."""
        lengths = sorted(set(map(len, self.prefixes)))
        starts = [path[:length] for length in lengths if length <= len(path)]
        ranks = [self.prefixes[start] for start in starts if start in self.prefixes]
        if path in self._exact:
            ranks.append(self._exact[path])
        limit += len(ranks)
        search = Search(prepared(path), self.work_max)
        try:
            for entries, tree in self._candidates(path, search):
                if tree is not None:
                    search.every(tree, ranks, limit)
                ranks += [one[1] for one in entries if search.matches(_entry(one), 0, 0)]
        except TooMuchWorkError:
            pass
        return ranks

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


_SLICES = {size: [slice(at, at + size) for at in range(LONG_PATH)] for size in _KEYS}


def _slices(size: int, count: int) -> list[slice]:
    """Where the first `count` runs of `size` octets lie, in a path that is not long."""
    return _SLICES[size][: max(0, count)]


def _rarest(
    keyed: dict[int, dict[str, list[Entry]]], pieces: Sequence[str], looked_at: int
) -> tuple[int, str]:
    """The run of octets within `pieces` under which fewest patterns are filed, and its length."""
    chosen, least = (0, ""), NONE
    size = _KEYS[0]
    longest = max(pieces, key=len)
    if len(longest) >= size:
        keys = keyed[size]
        for at in _spots(len(longest) - size + 1, looked_at):
            filed = keys.get(key := longest[at : at + size])
            if filed is None:
                return size, key
            if len(filed) < least:
                chosen, least = (size, key), len(filed)
    if least < _KEY_CROWD:
        return chosen
    for piece in {*pieces[:looked_at], longest}:
        length = len(piece)
        if length >= _KEYS[0]:
            size = _KEYS[1] if length >= _KEYS[1] else _KEYS[0]
            spots = _spots(length - size + 1, looked_at)
        elif length:
            size, spots = length, range(1)
        else:
            continue
        keys = keyed[size]
        for at in spots:
            filed = keys.get(key := piece[at : at + size])
            crowd = 0 if filed is None else len(filed)
            if (crowd, key) < (least, chosen[1]):
                chosen, least = (size, key), crowd
    return chosen


def _spots(count: int, looked_at: int) -> Sequence[int]:
    """At most `looked_at` of `count` places, from both ends."""
    if count <= looked_at:
        return range(count)
    half = looked_at // 2
    return [*range(half), *range(count - half, count)]


def _wild(entry: Entry) -> Wild:
    rank, pieces, tail = entry
    head, middle = pieces[0], pieces[1:]
    return _needed(head, middle, tail), rank, head, middle, tail


def _entry(wild: Wild) -> Entry:
    return wild[1], (wild[2], *wild[3]), wild[4]


def _rank_of(entry: tuple[object, int]) -> int:
    return entry[1]


def _needed(head: str, middle: Sequence[str], tail: str | None) -> str:
    """The octets of a wildcard pattern that tell most about a path that matches it."""
    needed = middle[0] if middle else ""
    for piece in middle:
        if len(piece) > len(needed):
            needed = piece
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
