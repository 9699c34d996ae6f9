"""Compiles the rules of a group into indexes, together: a file may have tens of thousands.

The indexes contain what `policies.robots.pattern` compiles each single rule to.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import and_, gt

from msgspec import Struct

from policies.robots.dialect import Dialect, Dollar, Escapes, Wildcard
from policies.robots.escapes import first_forms, full_forms
from policies.robots.index import Index


class Ranks(Struct, frozen=True):
    """The rule by which ranks are computed: from a start for each class of rules, `by_octet` is
    subtracted for each octet of length, and `by_line` added for each line before the rule."""

    starts: tuple[int, ...]
    by_octet: int
    by_line: int


class CompiledRules(Struct, frozen=True):
    """Rules, each in one or more spellings. A rule matches if any of its spellings does."""

    bare: Index
    """The rules without escapes, as given; all rules if the dialect compares one spelling."""
    escaped: Index | None
    """The rules with escapes, in every spelling. None: there are none."""
    full: Index | None
    """The other spelling of the rules without escapes. None: it is the same."""


def compile_rules(
    lines: Sequence[int],
    kinds: Sequence[int],
    paths: list[str],
    dialect: Dialect,
    *,
    ranks: Ranks,
    work_max: int,
) -> CompiledRules:
    """Index rules, given by their lines, their classes (indexes of `ranks.starts`) and their paths
    in octets, which are not empty."""
    paths, anchored = _ends(paths, dialect)
    wild = dialect.wildcard is Wildcard.ANY
    given, star = first_forms(paths, dialect.escapes, wild=wild)
    starts, by_octet, by_line = ranks.starts, ranks.by_octet, ranks.by_line
    found = [
        starts[kind] - (len(text) + end) * by_octet + line * by_line
        for line, kind, text, end in zip(lines, kinds, given, anchored, strict=True)
    ]
    bare = Index(work_max, star=star)
    escaped = full = None
    holding: list[bool] = []
    if dialect.escapes is Escapes.RFC and "%" in "".join(given):
        holding = ["%" in text for text in given]
    if not holding:
        bare.fill(zip(given, anchored, found, strict=True))
    else:
        without = [not held for held in holding]
        bare.fill(compress(zip(given, anchored, found, strict=True), without))
        escaped = Index(work_max, star=star)
        escaped.fill(compress(zip(given, anchored, found, strict=True), holding))
    if dialect.escapes is Escapes.RFC:
        others = full_forms(given, wild=wild)
        if others is not given:
            differing = list(map(str.__ne__, given, others))
            if escaped is not None:
                both = map(and_, differing, holding)
                escaped.fill(compress(zip(others, anchored, found, strict=True), both))
                differing = list(map(gt, differing, holding))
            if any(differing):
                full = Index(work_max, star=star)
                full.fill(compress(zip(others, anchored, found, strict=True), differing))
                full.seal()
    if escaped is not None:
        escaped.seal()
    bare.seal()
    return CompiledRules(bare, escaped, full)


def _ends(paths: list[str], dialect: Dialect) -> tuple[list[str], Sequence[bool]]:
    """Paths without the characters that stand for their end, and whether each is anchored there,
    as `split_path` does for one path."""
    anchored: Sequence[bool] = [False] * len(paths)
    if dialect.dollar is Dollar.CUT:
        parts = [path.partition("$") for path in paths]
        paths = [part[0] for part in parts]
        anchored = [bool(part[1]) for part in parts]
    elif dialect.dollar is Dollar.LAST:
        anchored = [path.endswith("$") for path in paths]
        paths = [path[:-1] if end else path for path, end in zip(paths, anchored, strict=True)]
    if not dialect.trailing_star_counts:
        paths = [
            path if end or not path.endswith("*") else path.rstrip("*")
            for path, end in zip(paths, anchored, strict=True)
        ]
    return paths, anchored
