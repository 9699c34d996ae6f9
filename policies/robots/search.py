"""The slow path of matching: many wildcard patterns, or a long path, with a limit on the work.

There are sets of wildcard patterns for which no fast way is known to find those that match a path,
so the work is counted, and matching stops at a limit. The count depends only on the patterns and
the path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from policies.robots.pattern import NONE

LONG_PATH = 256
"""Octets. The work of matching a longer path is counted."""

WORK_MAX = 12_000
"""Steps of 0.1 to 0.25 µs that one verdict may cost if its work is counted."""

_CHILDREN_MAX = 16  # of a branch, before they are filed by some of their octets
# CPython searches pieces of at least this many octets in linear time, if the text is long enough
# behind the position where the search starts.
_TWO_WAY_MIN = 100
_PADDING = "\n" * 2_500
_SHORT = 16  # octets of a piece that is found quickly in any path

KEY = 4  # octets of the runs under which wildcard patterns are filed; shorter pieces as a whole
LONG_KEY = 12  # octets of the runs for patterns whose shorter runs are crowded
SIZES = (LONG_KEY, *range(KEY, 0, -1))
KEY_CROWD = 12  # patterns under one run before they become a tree

# Rank, the octets by which most paths are ruled out, the pieces (head, middle), and the required
# end of the path.
Entry = tuple[int, str, tuple[str, ...], str | None]
# The lowest rank below, the next piece, and the branch behind it; or a single pattern, and the
# number of its pieces that have been found with this one.
Child = tuple[int, str, "Branch | None", Entry, int]


class TooMuchWorkError(Exception):
    """The limit was reached before the result was known."""


class Branch:
    """Patterns that begin with the same pieces: those that end here, and those that continue."""

    __slots__ = ("children", "filed", "rank", "tail_lengths", "tails")

    def __init__(self) -> None:
        self.rank: int | None = None  # of those that end here, with an open end
        self.tails: dict[str, int] = {}  # those that end here, by the required end of the path
        self.tail_lengths: list[int] = []
        self.children: list[Child] = []  # in order of rank
        self.filed: dict[str, list[Child]] | None = None  # the children by some of their octets


class Tree:
    """Patterns by their heads, then by each further piece; created from sorted entries."""

    __slots__ = ("children", "head_lengths", "heads", "patterns")

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.patterns = len(entries)
        self.children = _grown(entries).children
        self.heads = {child[1]: place for place, child in enumerate(self.children)}
        self.head_lengths = sorted(set(map(len, self.heads)))


def _grown(entries: Sequence[Entry]) -> Branch:
    """The branch of `entries`. They are in order of rank, and so is everything built from them."""
    root = Branch()
    todo: list[tuple[Branch, Sequence[Entry], int]] = [(root, entries, 0)]
    while todo:
        branch, members, depth = todo.pop()
        groups: dict[str, list[Entry]] = {}
        for entry in members:
            rank, _, pieces, tail = entry
            if len(pieces) > depth:
                piece = pieces[depth]
                if piece in groups:
                    groups[piece].append(entry)
                else:
                    groups[piece] = [entry]
            elif tail is None:
                if branch.rank is None:
                    branch.rank = rank
            else:
                branch.tails.setdefault(tail, rank)
        depth += 1
        children = branch.children
        for piece, group in groups.items():
            first = group[0]
            if len(group) == 1:
                children.append((first[0], piece, None, first, depth))
                continue
            below = Branch()
            todo.append((below, group, depth))
            children.append((first[0], piece, below, first, depth))
        if branch.tails:
            branch.tail_lengths = sorted(set(map(len, branch.tails)))
        if depth > 1 and len(children) > _CHILDREN_MAX:
            branch.filed = _filed(children)
    return root


def _filed(children: Sequence[Child]) -> dict[str, list[Child]]:
    """Children by the beginnings or the ends of their pieces, whichever differ more."""
    starts = _grouped(children, slice(KEY))
    if len(starts) * 2 > len(children):
        return starts
    ends = _grouped(children, slice(-KEY, None))
    return starts if len(starts) >= len(ends) else ends


def _grouped(children: Sequence[Child], part: slice) -> dict[str, list[Child]]:
    groups: dict[str, list[Child]] = {}
    for child in children:
        key = child[1][part]
        if key in groups:
            groups[key].append(child)
        else:
            groups[key] = [child]
    return groups


def _least(child: Child) -> int:
    return child[0]


class Prepared:
    """The data that several searches in one path share."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.padded = path + _PADDING
        self._crowd: int | None = None
        self._grams: dict[int, dict[str, None]] = {}

    def grams(self, size: int) -> dict[str, None]:
        """The runs of `size` octets, in order."""
        found = self._grams.get(size)
        if found is None:
            path = self.path
            found = self._grams[size] = dict.fromkeys(
                [path[at : at + size] for at in range(len(path) - size + 1)]
            )
        return found

    @property
    def crowd(self) -> int:
        """The number of occurrences of the most frequent run of three octets: an upper bound on how
        often a search for a piece fails late."""
        if self._crowd is None:
            path = self.path
            counts = Counter([path[at : at + 3] for at in range(len(path) - 2)])
            self._crowd = max(counts.values(), default=0)
        return self._crowd


@lru_cache(maxsize=8)
def prepared(path: str) -> Prepared:
    """A cached Prepared: several dialects judge the same path one after the other."""
    return Prepared(path)


class Search:
    """Matches paths with patterns and counts the work, in steps of 0.1 to 0.25 µs."""

    __slots__ = ("_gram_cost", "_listed", "_padded", "_path", "_prepared", "_size", "left")

    def __init__(self, limit: int) -> None:
        self.left = limit
        self._gram_cost = limit / (2 * WORK_MAX)  # dialects that share the work also share the runs
        self._listed: set[tuple[str, int]] = set()
        self.set_path(Prepared(""))

    def set_path(self, about: Prepared) -> None:
        """Match this path from now on."""
        self._prepared = about
        self._path = about.path
        self._padded = about.padded
        self._size = len(about.path)

    def common(self, keys: Mapping[str, object], size: int) -> list[str]:
        """The runs of `size` octets of the path that are among `keys`."""
        if (self._path, size) not in self._listed:  # counted even if another search computed them
            self._listed.add((self._path, size))
            self.spend(int(self._size * self._gram_cost))
        grams = self._prepared.grams(size)
        self.spend(min(len(grams), len(keys)) >> 2)
        return sorted(grams.keys() & keys.keys())  # the same order in every process

    def spend(self, steps: int) -> None:
        """Count work. Raises TooMuchWorkError."""
        self.left -= steps
        if self.left < 0:
            raise TooMuchWorkError

    def _find(self, piece: str, at: int) -> int:
        """The end of the first occurrence of `piece` from `at` on, or a negative number."""
        size = len(piece)
        if size >= _TWO_WAY_MIN:
            self.spend(20 + (self._size + size >> 5))
            found = self._padded.find(piece, at)
            return found + size if 0 <= found <= self._size - size else -1
        found = self._path.find(piece, at)
        if size <= _SHORT:
            passed = (self._size if found < 0 else found) - at
            self.spend(3 + (passed * (size + 4) >> 9))
        else:
            passed = (self._size if found < 0 else found) - at
            self.spend(3 + (passed >> 5) + (min(passed, self._prepared.crowd) * size >> 8))
        return found + size if found >= 0 else -1

    def matches(self, entry: Entry, at: int, done: int) -> bool:
        """Return whether the pieces from number `done` on occur in the path from `at` on."""
        _, _, pieces, tail = entry
        self.spend(5)
        if not done:
            if not self._path.startswith(pieces[0]):
                return False
            at, done = len(pieces[0]), 1
        if tail is not None and not (self._path.endswith(tail) and self._size - len(tail) >= at):
            return False
        for i in range(done, len(pieces)):
            at = self._find(pieces[i], at)
            if at < 0:
                return False
        return tail is None or self._size - len(tail) >= at

    def best(self, tree: Tree, best: int) -> int:
        """The lowest rank of the matching patterns of a tree, or `best` if none is lower."""
        stack: list[tuple[Iterator[Child], int]] = [(self._heads(tree), 0)]
        while stack:
            children, at = stack[-1]
            first = len(stack) == 1
            for least, piece, below, entry, done in children:
                if least >= best:
                    stack.pop()  # the following are not better either
                    break
                end = len(piece) if first else self._find(piece, at)
                if end < 0:
                    continue
                if below is None:
                    if self.matches(entry, end, done):
                        best = least
                    continue
                best = self._ends(below, end, best)
                stack.append((self._children(below), end))
                break
            else:
                stack.pop()
        return best

    def every(self, tree: Tree, found: list[int], limit: int) -> None:
        """Append the ranks of matching patterns of a tree to `found`, up to `limit`."""
        stack: list[tuple[Iterator[Child], int]] = [(self._heads(tree), 0)]
        while stack and len(found) < limit:
            children, at = stack[-1]
            first = len(stack) == 1
            for least, piece, below, entry, done in children:
                end = len(piece) if first else self._find(piece, at)
                if end < 0:
                    continue
                if below is None:
                    if self.matches(entry, end, done):
                        found.append(least)
                    continue
                if below.rank is not None:
                    found.append(below.rank)
                found.extend(self._tails(below, end))
                stack.append((self._children(below), end))
                break
            else:
                stack.pop()

    def _ends(self, branch: Branch, at: int, best: int) -> int:
        if branch.rank is not None and branch.rank < best:
            best = branch.rank
        for rank in self._tails(branch, at):
            best = min(best, rank)
        return best

    def _tails(self, branch: Branch, at: int) -> Iterator[int]:
        room = self._size - at
        for length in branch.tail_lengths:
            if length > room:
                return
            self.spend(3)
            rank = branch.tails.get(self._path[self._size - length :])
            if rank is not None:
                yield rank

    def _heads(self, tree: Tree) -> Iterator[Child]:
        found: list[int] = []
        for length in tree.head_lengths:
            if length > self._size:
                break
            self.spend(3)
            place = tree.heads.get(self._path[:length])
            if place is not None:
                found.append(place)
        return map(tree.children.__getitem__, sorted(found))

    def _children(self, branch: Branch) -> Iterator[Child]:
        if branch.filed is None:
            return iter(branch.children)
        filed = branch.filed
        found: list[Child] = []
        for size in range(1, KEY + 1):
            for key in self.common(filed, size):
                found += filed[key]
        self.spend(len(found) << 1)
        found.sort(key=_least)
        return iter(found)


def rarest(keys: Mapping[str, Sequence[Entry]], entry: Entry, looked_at: int, company: int) -> str:
    """The run of octets, required by `entry`, under which the fewest patterns are filed.

    Runs of its longest piece are tried first, then longer runs, and runs of its other pieces, up to
    `looked_at` of each piece. The first run with at most `company` patterns is taken.
    """
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
    """Return at most `looked_at` of `count` positions, from both ends."""
    if count <= looked_at:
        return range(count)
    half = looked_at // 2
    return [*range(half), *range(count - half, count)]
