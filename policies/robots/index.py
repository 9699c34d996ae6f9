"""Indexes of patterns: find the best rank among those that match a path.

Prefixes are found by slicing the path at the lengths of prefixes with the same beginning; wildcard
patterns by octets that a path must contain to match them. Either way only a few of the patterns are
tried, however many there are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter

from policies.robots.pattern import NONE
from policies.robots.search import (
    KEY,
    KEY_CROWD,
    LONG_PATH,
    SIZES,
    WORK_MAX,
    Entry,
    Search,
    TooMuchWorkError,
    Tree,
    prepared,
    rarest,
)

_STEM = 8  # octets at the beginning of a path by which patterns are filed
_STEM_CROWD = 8  # wildcard patterns under one stem before others are filed under rarer octets
# Runs of each piece that are tried, and the number of patterns under a run that is good enough.
_LOOKING = (16, 0)
_LOOKING_IN_CROWDS = (3, 3)  # with more than _CROWD wildcard patterns
_CROWD = 4_000
_HITS_MAX = 24  # runs of a path with patterns under them, above which work is counted
_SCAN_MAX = 10  # wildcard patterns (or four times as many prefixes) that are all tried
_TUPLE_MAX = 32  # short prefixes that are ruled out by one startswith
_LENGTHS_MAX = 64  # different lengths of prefixes, above which they are sorted instead of sliced

TOO_COMPLEX = -1
"""The rank when the limit on the work was reached: it blocks, but stands for no rule."""


class Index:
    """Patterns with their ranks. Call `fill`, then `seal`, then `best`.

    star: stands for a wildcard in the patterns.
    """

    __slots__ = (
        "_anchored", "_exact", "_few", "_keys", "_lengths", "_links", "_open", "_short",
        "_short_lengths", "_sizes", "_sorted", "_star", "_stems", "_trees", "_wild", "prefixes",
        "work_max",
    )  # fmt: skip

    def __init__(self, work_max: int = WORK_MAX, *, star: str = "*") -> None:
        self.work_max = work_max
        self.prefixes: dict[str, int] = {}  # the best rank of each
        self._star = star
        self._exact: dict[str, int] = {}
        self._open: dict[str, int] = {}  # patterns with wildcards, until `seal`
        self._anchored: dict[str, int] = {}
        self._wild: list[Entry] = []
        self._short: tuple[str, ...] = ()  # prefixes shorter than a stem; their lengths
        self._short_lengths: list[int] = []
        self._lengths: dict[str, frozenset[int]] = {}  # by stem, the lengths of its prefixes
        self._sorted: list[str] = []
        self._links: list[
            tuple[int, int]
        ] = []  # of each: its parent, the best rank of it and its ancestors
        self._stems: dict[str, list[Entry]] = {}
        self._keys: dict[str, list[Entry]] = {}  # the patterns filed under each run of octets
        self._sizes: list[int] = []  # lengths of those runs
        self._trees: dict[str, Tree] = {}  # for runs with many patterns
        self._few = False

    @property
    def memory_bytes(self) -> int:
        """The memory that it takes, as estimated."""
        filed = sum(map(len, self._stems.values())) + sum(map(len, self._keys.values()))
        in_trees = sum(tree.patterns for tree in self._trees.values())
        patterns = len(self._wild) + filed + len(self._exact)
        return 200 * len(self.prefixes) + 400 * patterns + 700 * in_trees

    @property
    def best(self) -> Callable[..., int]:
        """A function that returns the lowest rank of the patterns that match a path, or NONE. Its
        second argument is the `Search` that counts the work; default: one with `work_max`.

        Callers should keep it. It is not kept here, because an object that refers to itself can be
        freed only by a full garbage collection.
        """
        return self._best_of_few if self._few else self._best

    def fill(self, patterns: Iterable[tuple[str, bool, int]]) -> None:
        """Add patterns, each with whether it is anchored at the end of the path, and its rank."""
        star = self._star
        for text, anchored, rank in patterns:
            if star in text:
                known = self._anchored if anchored else self._open
            else:
                known = self._exact if anchored else self.prefixes
            if known.setdefault(text, rank) > rank:
                known[text] = rank

    # ------------------------------------------------------------ building

    def seal(self) -> None:
        """Build the index."""
        entries = [
            *self._taken_apart(self._open, anchored=False),
            *self._taken_apart(self._anchored, anchored=True),
        ]
        entries.sort(key=_least_of)
        self._open = self._anchored = {}
        if max(len(self.prefixes) // 4, len(entries)) <= _SCAN_MAX and not self._exact:
            self._short = tuple(self.prefixes)
            self._short_lengths = sorted(set(map(len, self._short)))
            self._few = True
        elif len(set(map(len, self.prefixes))) > _LENGTHS_MAX:
            self._sort_prefixes()
        else:
            self._file_prefixes()
        if len(entries) <= _SCAN_MAX:
            self._wild = entries
        else:
            self._file_wild(entries)

    def _taken_apart(self, texts: dict[str, int], *, anchored: bool) -> list[Entry]:
        star, prefixes = self._star, self.prefixes
        entries: list[Entry] = []
        for text, rank in texts.items():
            pieces = text.split(star)
            tail = pieces.pop() if anchored else None
            if "" in pieces[1:]:
                pieces = [pieces[0], *filter(None, pieces[1:])]
            count = len(pieces)
            head = pieces[0]
            if count == 2:
                needed = pieces[1]
            elif count > 2:
                needed = max(pieces[1:], key=len)
            elif tail:
                needed = tail
            else:  # an anchor behind a wildcard has no effect
                if prefixes.setdefault(head, rank) > rank:
                    prefixes[head] = rank
                continue
            if tail and len(tail) > len(needed):
                needed = tail
            # Heads often have a common beginning, so a head must be longer to be preferred.
            if len(head) > len(needed) + 4:
                needed = head
            entries.append((rank, needed, tuple(pieces), tail))
        return entries

    def _file_prefixes(self) -> None:
        lengths = self._lengths
        nothing: frozenset[int] = frozenset()
        shared: dict[frozenset[int], frozenset[int]] = {}
        short: list[str] = []
        for prefix in self.prefixes:
            length = len(prefix)
            if length < _STEM:
                short.append(prefix)
                continue
            stem = prefix[:_STEM]
            known = lengths.get(stem, nothing)
            if length not in known:
                # Most stems have one prefix; sharing equal sets saves most of the memory.
                longer = known | {length}
                lengths[stem] = shared.setdefault(longer, longer)
        self._short = tuple(short) if len(short) <= _TUPLE_MAX else ()
        self._short_lengths = sorted(set(map(len, short)))

    def _sort_prefixes(self) -> None:
        """Sort the prefixes: bisection then finds those of a path as one entry and its ancestors.

        In sorted order, everything between a prefix of a path and the path begins with that prefix,
        so the nearest entry before the path is one of its prefixes or begins with them.
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
        """File each wildcard pattern under octets that it requires and few others do: then common
        endings cost no more than rare ones."""
        stems, keys = self._stems, self._keys
        looked_at, company = _LOOKING if len(entries) <= _CROWD else _LOOKING_IN_CROWDS
        for entry in entries:
            _, needed, pieces, _ = entry
            if len(pieces[0]) >= _STEM:
                stem = pieces[0][:_STEM]
                if stem not in stems:
                    stems[stem] = [entry]
                    continue
                if len(stems[stem]) < _STEM_CROWD:
                    stems[stem].append(entry)
                    continue
            key = needed[-KEY:]
            if key in keys and len(keys[key]) > company:
                key = rarest(keys, entry, looked_at, company)
            if key in keys:
                keys[key].append(entry)
            else:
                keys[key] = [entry]
        for key, filed in keys.items():
            if len(filed) > KEY_CROWD:
                self._trees[key] = Tree(filed)
                del filed[1:]  # only the rank of the first is needed
        self._sizes = sorted(set(map(len, keys)), reverse=True)

    # ------------------------------------------------------------ looking up

    def _best_of_few(self, path: str, search: Search | None = None) -> int:
        """`best` for few patterns, as in most files: `_short` contains all prefixes."""
        rank = self._prefix_of(path, self._short_lengths) if path.startswith(self._short) else NONE
        if self._wild and len(path) > LONG_PATH:
            return self._counted(path, rank, search)
        for entry in self._wild:
            if entry[1] in path:
                return _best_of(self._wild, path, rank)
        return rank

    def _best(self, path: str, search: Search | None = None) -> int:
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
        if self._keys or self._wild or self._stems:
            rank = self._best_wild(path, rank, search)
        return rank

    def _best_wild(self, path: str, rank: int, search: Search | None) -> int:
        if len(path) > LONG_PATH:
            return self._counted(path, rank, search)
        hits: list[list[Entry]] = []
        keys = self._keys
        for size in self._sizes:
            slices = _slices(size, len(path) - size + 1)
            for key in dict.fromkeys(filter(keys.__contains__, map(path.__getitem__, slices))):
                if key in self._trees:
                    return self._counted(path, rank, search)
                hits.append(keys[key])
        if len(hits) > _HITS_MAX:
            return self._counted(path, rank, search)
        if self._wild:
            rank = _best_of(self._wild, path, rank)
        if self._stems and (filed := self._stems.get(path[:_STEM])):
            rank = _best_of(filed, path, rank)
        for entries in hits:
            rank = _best_of(entries, path, rank)
        return rank

    def _counted(self, path: str, rank: int, search: Search | None) -> int:
        """The best rank, with the work counted, or TOO_COMPLEX."""
        if search is None:
            search = Search(self.work_max)
        search.set_path(prepared(path))
        try:
            for least, entries, tree in self._candidates(path, search):
                if least >= rank:
                    break
                if tree is not None:
                    rank = search.best(tree, rank)
                    continue
                for entry in entries:
                    if entry[0] >= rank:
                        break
                    if search.matches(entry, 0, 0):
                        rank = entry[0]
        except TooMuchWorkError:
            return TOO_COMPLEX
        return rank

    def _candidates(
        self, path: str, search: Search
    ) -> list[tuple[int, Sequence[Entry], Tree | None]]:
        """The wildcard patterns filed under octets of the path, each list with its lowest rank, in
        order of rank."""
        keys, trees = self._keys, self._trees
        found: list[tuple[int, Sequence[Entry], Tree | None]] = [
            (entries[0][0], entries, None)
            for entries in (self._wild, self._stems.get(path[:_STEM]))
            if entries
        ]
        for size in self._sizes:
            common = search.common(keys, size)
            search.spend(3 * len(common))
            found += [(keys[key][0][0], keys[key], trees.get(key)) for key in common]
        found.sort(key=_least_of)
        return found

    def every(self, path: str, limit: int) -> list[int]:
        """The ranks of about `limit` patterns that match, as far as the work limit permits."""
        lengths = sorted(set(map(len, self.prefixes)))
        starts = [path[:length] for length in lengths if length <= len(path)]
        ranks = [self.prefixes[start] for start in starts if start in self.prefixes]
        if path in self._exact:
            ranks.append(self._exact[path])
        limit += len(ranks)
        search = Search(self.work_max)
        search.set_path(prepared(path))
        try:
            for _, entries, tree in self._candidates(path, search):
                if tree is not None:
                    search.every(tree, ranks, limit)
                    continue
                ranks += [one[0] for one in entries if search.matches(one, 0, 0)]
        except TooMuchWorkError:
            pass
        return ranks

    def _prefix_of(self, path: str, lengths: list[int] | frozenset[int]) -> int:
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


_SLICES = {size: [slice(at, at + size) for at in range(LONG_PATH)] for size in SIZES}


def _slices(size: int, count: int) -> list[slice]:
    """The positions of the first `count` runs of `size` octets in a path."""
    return _SLICES[size][: max(0, count)]


_least_of = itemgetter(0)


def _best_of(entries: list[Entry], path: str, best: int) -> int:
    """The rank of the first entry, in order of rank, that matches and is better than `best`."""
    for rank, needed, pieces, tail in entries:
        if needed not in path:
            continue
        if rank >= best:
            return best
        if not path.startswith(pieces[0]):
            continue
        at = len(pieces[0])
        for piece in pieces[1:]:
            at = path.find(piece, at)
            if at < 0:
                break
            at += len(piece)
        else:
            if tail is None or (path.endswith(tail) and len(path) - len(tail) >= at):
                return rank
    return best
