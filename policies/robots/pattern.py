"""Path patterns: compiled to literal pieces, matched without backtracking.

A pattern is the text between its wildcards. Matching walks the pieces from left to right with
`str.find`: taking each piece as early as it can be had never loses a match, and the last piece of
an anchored pattern is looked for at the very end. So a match costs at most one pass over the path
for each piece, whatever the pattern.
"""

from __future__ import annotations

import string

from msgspec import Struct

from policies.robots.dialect import Dialect, Dollar, Wildcard
from policies.robots.escapes import rule_forms

# What is compared as it stands, whatever a dialect does with escapes.
_BARE = (string.ascii_letters + string.digits + "-._~/*$").encode()

NONE = 1 << 60
"""The rank of no rule: worse than any."""


class Pattern(Struct, frozen=True):
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
        return path.startswith(self.head) and _rest_matches(self, path)


def _rest_matches(pattern: Pattern, path: str) -> bool:
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

    patterns: tuple[Pattern, ...]  # any of them matching is the rule matching
    text: str  # what is counted, wildcards and anchor included: its length is the rule's length


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
    """What is counted: the pieces with their wildcards and the anchor."""
    return "*".join(pieces) + ("$" if anchored else "")


def pattern_of(pieces: list[str], *, anchored: bool) -> Pattern:
    """The pattern that these pieces make."""
    if len(pieces) == 1:
        return Pattern(pieces[0], (), None, anchored)
    return Pattern(pieces[0], *inner_pieces(pieces, anchored=anchored))


def inner_pieces(pieces: list[str], *, anchored: bool) -> tuple[tuple[str, ...], str | None]:
    """What stands between the first piece and the end, and what stands at the end."""
    if anchored:
        return tuple(filter(None, pieces[1:-1])), pieces[-1]
    return tuple(filter(None, pieces[1:])), None


def index_page(path: str) -> str | None:
    """What `path`, the value of an Allow, stands for besides: `/a/index.html` for `/a/$`."""
    at = path.rfind("/")
    return path[: at + 1] + "$" if at >= 0 and path.startswith("/index.htm", at) else None


def compile_path(path: str, dialect: Dialect) -> Compiled:
    """Compile the value of a rule (one character an octet; not empty) as `dialect` reads it."""
    pieces, anchored = split_path(path, dialect)
    bare = path.isascii() and not path.encode().translate(None, _BARE)
    forms = [pieces] if bare else rule_forms(pieces, dialect.escapes)
    patterns = tuple([pattern_of(form, anchored=anchored) for form in forms])
    return Compiled(patterns, counted(forms[0], anchored=anchored))
