"""Path patterns: compiled to literal pieces, matched without backtracking.

A pattern is a sequence of literal pieces between wildcards. Matching searches for them from left to
right with `str.find`. Taking the first occurrence of each piece never loses a match, and the last
piece of an anchored pattern is compared with the end of the path. A match thus costs at most one
pass over the path for each piece.
"""

from __future__ import annotations

import string

from msgspec import Struct

from policies.robots.dialect import Dialect, Dollar, Wildcard
from policies.robots.escapes import rule_forms

# Octets that every dialect compares as they are.
_BARE = (string.ascii_letters + string.digits + "-._~/*$").encode()

NONE = 1 << 60
"""The rank if no rule matches: worse than any other."""


class Pattern(Struct, frozen=True):
    """The path of a rule: `head`, then each of `middle` in turn, then `tail` at the end.

    `tail` is None if the end is open. `exact` means that the whole path equals `head`.
    """

    head: str
    middle: tuple[str, ...] = ()
    tail: str | None = None
    exact: bool = False

    def matches(self, path: str) -> bool:
        """Return whether this matches `path`, in the form that the dialect compares."""
        if self.exact:
            return path == self.head
        return path.startswith(self.head) and _remainder_matches(self, path)


def _remainder_matches(pattern: Pattern, path: str) -> bool:
    at = len(pattern.head)
    for piece in pattern.middle:
        at = path.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    tail = pattern.tail
    return tail is None or (path.endswith(tail) and len(path) - len(tail) >= at)


class Compiled(Struct, frozen=True):
    """A rule's path as one dialect compares it."""

    patterns: tuple[Pattern, ...]  # the rule matches if any of them does
    text: str  # including wildcards and anchor; its length is the rule's length


def split_path(path: str, dialect: Dialect) -> tuple[list[str], bool]:
    """The literal pieces between a rule's wildcards, and whether `$` anchors it at the end."""
    anchored = False
    if dialect.dollar is Dollar.CUT:
        path, dollar, _ = path.partition("$")
        anchored = bool(dollar)
    elif dialect.dollar is Dollar.LAST and path.endswith("$"):
        path = path[:-1]
        anchored = True
    if not (dialect.trailing_star_counts or anchored):
        path = path.rstrip("*")
    return path.split("*") if dialect.wildcard is Wildcard.ANY else [path], anchored


def counted(pieces: list[str], *, anchored: bool) -> str:
    """The counted form: the pieces with their wildcards and the anchor."""
    return "*".join(pieces) + ("$" if anchored else "")


def pattern_of(pieces: list[str], *, anchored: bool) -> Pattern:
    """The pattern of these pieces."""
    if len(pieces) == 1:
        return Pattern(pieces[0], (), None, anchored)
    return Pattern(pieces[0], *inner_pieces(pieces, anchored=anchored))


def inner_pieces(pieces: list[str], *, anchored: bool) -> tuple[tuple[str, ...], str | None]:
    """The middle pieces and the tail of a pattern."""
    if anchored:
        return tuple(filter(None, pieces[1:-1])), pieces[-1]
    return tuple(filter(None, pieces[1:])), None


def index_page(path: str) -> str | None:
    """The second meaning of an Allow in some dialects: `/a/$` for `/a/index.html`."""
    at = path.rfind("/")
    return path[: at + 1] + "$" if at >= 0 and path.startswith("/index.htm", at) else None


def compile_path(path: str, dialect: Dialect) -> Compiled:
    """Compile the value of a rule (one character per octet; not empty) for a dialect."""
    pieces, anchored = split_path(path, dialect)
    bare = path.isascii() and not path.encode().translate(None, _BARE)
    forms = [pieces] if bare else rule_forms(pieces, dialect.escapes)
    patterns = tuple([pattern_of(form, anchored=anchored) for form in forms])
    return Compiled(patterns, counted(forms[0], anchored=anchored))
