"""The glob patterns of the config: `*` matches any run of characters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache


class Globs:
    """Patterns that match whole strings, case-sensitive: `*` is any run of characters.

    `?` and brackets are literal because URLs contain them. The pieces between the stars are
    searched for from left to right, which is exact for such patterns and takes one pass per
    pattern, where a regex could take exponential time.
    """

    __slots__ = ("_exact", "_pieces", "_prefixes", "_suffixes")

    def __init__(self, patterns: Sequence[str]) -> None:
        exact: set[str] = set()
        prefixes: list[str] = []
        suffixes: list[str] = []
        self._pieces: list[tuple[str, tuple[str, ...], str]] = []
        for pattern in patterns:
            first, *rest = pattern.split("*")
            if not rest:
                exact.add(first)
                continue
            *middle, last = rest
            middle = [piece for piece in middle if piece]
            if not middle and not last:
                prefixes.append(first)
            elif not middle and not first:
                suffixes.append(last)
            else:
                self._pieces.append((first, tuple(middle), last))
        self._exact = frozenset(exact)
        self._prefixes = tuple(prefixes)
        self._suffixes = tuple(suffixes)

    def match(self, text: str) -> bool:
        """Return whether any of the patterns matches the whole string."""
        if text in self._exact or text.startswith(self._prefixes) or text.endswith(self._suffixes):
            return True
        return any(_fits(text, *pieces) for pieces in self._pieces)


def _fits(text: str, first: str, middle: tuple[str, ...], last: str) -> bool:
    if not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    if at > end:
        return False
    for piece in middle:
        at = text.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


@lru_cache(maxsize=1024)
def globs(patterns: tuple[str, ...]) -> Globs | None:
    """The compiled patterns, shared between hosts; None for an empty tuple."""
    return Globs(patterns) if patterns else None
