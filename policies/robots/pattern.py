"""Path patterns: compiled to literal pieces, indexed, matched without backtracking.

A pattern is the text between its wildcards. Matching walks the pieces from left to right with
`str.find`: taking each piece as early as it can be had never loses a match, and the last piece of
an anchored pattern is looked for at the very end. So a match costs at most one pass over the path
for each piece, whatever the pattern.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from policies.robots.escapes import rule_forms
from policies.robots.row import Dialect, Dollar, Wildcard

NONE = 1 << 60
"""The rank of no rule: worse than any."""

_STEM = 8  # octets of a wildcard pattern's head by which it is filed
_STEM_CROWD = 8  # patterns under one stem before others are filed under something rarer
_GRAM = 4  # octets that a pattern filed under them needs somewhere in the path
_SCAN_MAX = 10  # up to so many wildcard patterns are simply tried one after the other
_TUPLE_MAX = 48  # up to so many prefixes are ruled out at once by one startswith
_LENGTHS_MAX = 48  # prefixes of more different lengths are sorted instead of sliced


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a rule's path matches: `head`, then each of `middle` in turn, then `tail` at the end.

    `tail` is None where the end is open. `exact` means the whole path is `head`.
    """

    head: str
    middle: tuple[str, ...] = ()
    tail: str | None = None
    exact: bool = False

    def matches(self, path: str) -> bool:
        """Whether this matches `path`, given in the form that the dialect compares."""
        if self.exact:
            return path == self.head
        if not path.startswith(self.head):
            return False
        at = len(self.head)
        for piece in self.middle:
            at = path.find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        return self.tail is None or (len(path) - len(self.tail) >= at and path.endswith(self.tail))


@dataclass(frozen=True, slots=True)
class Compiled:
    """A rule's path as one dialect compares it."""

    patterns: tuple[Pattern, ...]  # any of them matching is the rule matching
    text: str  # what is counted, wildcards and anchor included: its length is the rule's length


def compile_path(path: str, dialect: Dialect) -> Compiled:
    """Compile the value of a rule (one character an octet; not empty) as `dialect` reads it."""
    anchored = False
    if dialect.dollar is Dollar.CUT:
        path, dollar, _ = path.partition("$")
        anchored = bool(dollar)
    elif dialect.dollar is Dollar.LAST and path.endswith("$"):
        path = path[:-1]
        anchored = True
    if not (dialect.trailing_star_counts or anchored):
        path = path.rstrip("*")
    pieces = path.split("*") if dialect.wildcard is Wildcard.ANY else [path]
    forms = rule_forms(pieces, dialect.escapes)
    text = "*".join(forms[0]) + ("$" if anchored else "")
    return Compiled(tuple([_pattern(form, anchored=anchored) for form in forms]), text)


def _pattern(pieces: list[str], *, anchored: bool) -> Pattern:
    head, *rest = pieces
    if not rest:
        return Pattern(head, exact=anchored)
    if anchored:
        return Pattern(head, tuple(filter(None, rest[:-1])), rest[-1])
    return Pattern(head, tuple(filter(None, rest)))


Wild = tuple[int, str, tuple[str, ...], str | None]


class Index:
    """Patterns with their ranks; says which is the best (least) rank that matches a path.

    Prefixes are looked up by slicing the path at each length there is; where there are too many
    lengths, they lie sorted, each linked to the longest other prefix it begins with, so that the
    prefixes of a path are the entry that bisection finds for it, or that one's ancestors. Many
    wildcard patterns are filed under the octets they begin with, or some that they need.

    Fill it with `prefix` and `add`, then call `seal` once; `best` may be called after that.
    """

    __slots__ = (
        "_best", "_exact", "_grams", "_lengths", "_parents", "_prefixes", "_sorted", "_stems",
        "_tuple", "_wild",
    )  # fmt: skip

    def __init__(self) -> None:
        self._prefixes: dict[str, int] = {}
        self._exact: dict[str, int] = {}
        self._wild: list[Wild] = []
        self._tuple: tuple[str, ...] = ()
        self._lengths: list[int] = []
        self._sorted: list[str] = []
        self._parents: list[int] = []
        self._best: list[int] = []
        self._stems: dict[str, list[Wild]] = {}
        self._grams: dict[str, list[Wild]] = {}

    def prefix(self, text: str, rank: int) -> None:
        """Add a pattern without wildcard and anchor."""
        if self._prefixes.setdefault(text, rank) > rank:
            self._prefixes[text] = rank

    def add(self, pattern: Pattern, rank: int) -> None:
        """Add any pattern."""
        if pattern.exact:
            if self._exact.setdefault(pattern.head, rank) > rank:
                self._exact[pattern.head] = rank
        elif pattern.tail is None and not pattern.middle:
            self.prefix(pattern.head, rank)
        else:
            self._wild.append((rank, pattern.head, pattern.middle, pattern.tail))

    def seal(self) -> None:
        """Build what `best` looks into."""
        self._wild.sort(key=_rank_of)
        if len(self._wild) > _SCAN_MAX:
            self._wild = self._file_wild(self._wild)
        if len(self._prefixes) <= _TUPLE_MAX:
            self._tuple = tuple(self._prefixes)
        self._lengths = sorted(set(map(len, self._prefixes)))
        if len(self._lengths) > _LENGTHS_MAX:
            self._sort_prefixes()

    def _sort_prefixes(self) -> None:
        self._sorted = sorted(self._prefixes)
        open_ones: list[int] = []  # the chain of prefixes that the current one begins with
        for i, prefix in enumerate(self._sorted):
            while open_ones and not prefix.startswith(self._sorted[open_ones[-1]]):
                open_ones.pop()
            parent = open_ones[-1] if open_ones else -1
            self._parents.append(parent)
            rank = self._prefixes[prefix]
            self._best.append(min(rank, self._best[parent]) if parent >= 0 else rank)
            open_ones.append(i)

    def _file_wild(self, wild: list[Wild]) -> list[Wild]:
        """File each pattern under octets that it needs; returns those that have too few."""
        rest: list[Wild] = []
        stems, grams = self._stems, self._grams
        for entry in wild:
            _, head, middle, tail = entry
            if len(head) >= _STEM:
                filed = stems.setdefault(head[:_STEM], [])
                if len(filed) < _STEM_CROWD:
                    filed.append(entry)
                    continue
            longest = max((head, *middle, tail or ""), key=len)
            # Filed where fewest others are, so that a common ending costs no more than a rare one.
            least, chosen = NONE, ""
            for at in range(len(longest) - _GRAM + 1):
                gram = longest[at : at + _GRAM]
                count = len(grams[gram]) if gram in grams else 0
                if count < least:
                    least, chosen = count, gram
                    if not count:
                        break
            if chosen:
                grams.setdefault(chosen, []).append(entry)
            else:
                rest.append(entry)
        return rest

    def best(self, path: str) -> int:
        """The least rank of the patterns that match `path`, or NONE."""
        rank = self._best_prefix(path) if not self._tuple or path.startswith(self._tuple) else NONE
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
            for at in range(len(path) - _GRAM + 1):
                gram = path[at : at + _GRAM]
                if gram in grams:
                    rank = _best_of(grams[gram], path, rank)
        return rank

    def _best_prefix(self, path: str) -> int:
        rank = NONE
        if self._sorted:
            at = bisect_right(self._sorted, path) - 1
            while at >= 0:
                if path.startswith(self._sorted[at]):
                    return self._best[at]
                at = self._parents[at]
            return rank
        prefixes = self._prefixes
        for length in self._lengths:
            start = path[:length]
            if start in prefixes and prefixes[start] < rank:
                rank = prefixes[start]
        return rank


def _rank_of(entry: Wild) -> int:
    return entry[0]


def _best_of(wild: list[Wild], path: str, best: int) -> int:
    """The rank of the first of `wild` (in order of rank) that matches and is better than `best`."""
    for rank, head, middle, tail in wild:
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
