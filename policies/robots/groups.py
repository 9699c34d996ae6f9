"""Groups: where an agent list and a group end, and which groups apply to a crawler."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from policies.robots.dialect import Agent, Dialect, GroupSelection
from policies.robots.syntax import LineKind, RobotsSource

# RFC 9309, 2.2.1 has no digits in names, but crawlers have: without them, `crawler3` and `crawler1`
# would be equal.
_NAME = re.compile(r"[A-Za-z0-9_-]*")
_LIBRARY_NAME = re.compile(r"[A-Za-z_-]*")
_ACAP_RULES: dict[int, LineKind] = {
    LineKind.ACAP_ALLOW: LineKind.ALLOW,
    LineKind.ACAP_DISALLOW: LineKind.DISALLOW,
}


class Group(Struct, frozen=True, kw_only=True):
    """A group of the file in one dialect. Lines count from 0, `end` is exclusive."""

    agent_lines: tuple[int, ...]
    agents: tuple[str, ...]  # the values, as written
    end: int
    acap: bool = False

    @property
    def start(self) -> int:
        return self.agent_lines[0]


class ChosenGroups(Struct, frozen=True, kw_only=True):
    """The groups that apply to a crawler, in file order, and the others."""

    groups: tuple[Group, ...]
    others: tuple[Group, ...]
    token: str  # the token of the crawler that they name, or ""
    star: bool = False  # they apply to all crawlers


@lru_cache(maxsize=64)
def _classes(dialect: Dialect, *, acap: bool) -> bytes:
    """A table for bytes.translate: the kind of a line to `a`gent, `e`nds the list, `b`lank, `.`."""
    base = dialect.base_kinds()
    table = bytearray(b"." * 256)
    for byte in range(256):
        kind = base[byte]
        if acap:
            if kind == LineKind.ACAP_CRAWLER:
                table[byte] = ord("a")
            elif kind in _ACAP_RULES:
                table[byte] = ord("e")
        elif kind == LineKind.AGENT:
            table[byte] = ord("a")
        elif kind == LineKind.BLANK:
            table[byte] = ord("b") if dialect.blank_ends else ord(".")
        elif kind == LineKind.COMMENT:
            continue  # never a boundary of groups (1994, 1996)
        elif dialect.list_ends is None or _ACAP_RULES.get(kind, kind) in dialect.list_ends:
            table[byte] = ord("e")
    return bytes(table)


def groups(source: RobotsSource, dialect: Dialect, *, acap: bool = False) -> tuple[Group, ...]:
    """The groups of a file in file order; with `acap`, those that begin with ACAP-crawler."""
    classes = source.kinds.translate(_classes(dialect, acap=acap))
    size = len(classes)
    found: list[Group] = []
    start = classes.find(b"a")
    ended = blank = -1
    while start >= 0:
        if ended < start:
            ended = _first(classes, b"e", start, size)
        if blank < start:
            blank = _first(classes, b"b", start, size)
        lines = [start]
        at = classes.find(b"a", start + 1, min(ended, blank))
        while at >= 0:
            lines.append(at)
            at = classes.find(b"a", at + 1, min(ended, blank))
        following = _first(classes, b"a", min(ended, blank), size)
        found.append(
            Group(
                agent_lines=tuple(lines),
                agents=tuple(source.text(i) for i in lines),
                end=min(following, blank),
                acap=acap,
            )
        )
        start = following if following < size else -1
    return tuple(found)


def _first(classes: bytes, wanted: bytes, start: int, size: int) -> int:
    at = classes.find(wanted, start)
    return size if at < 0 else at


def own_token(agent: str, reading: Agent) -> str:
    """The name of a crawler as a dialect compares it: lower case, without its version."""
    agent = agent.strip().lower()
    if reading is Agent.NAME:
        return _cut(_NAME, agent)
    return agent.partition("/")[0].partition("(")[0].strip()


def own_name(value: str) -> str:
    """The name at the beginning of an agent value."""
    return _cut(_NAME, value.lower())


def library_name(value: str) -> str:
    """Return what `own_name` does, as Google's library reads it."""
    return _cut(_LIBRARY_NAME, value.lower())


def _cut(name: re.Pattern[str], value: str) -> str:
    found = name.match(value)
    return found[0] if found else ""


def is_star(value: str, dialect: Dialect) -> bool:
    """Return whether an agent value means all crawlers."""
    return value == "*" or (dialect.star_with_text and value[:1] == "*" and value[1:2].isspace())


def names_token(value: str, token: str, dialect: Dialect) -> bool:
    """Return whether an agent value (not `*`) names a token in the form of `own_token`."""
    if not token:
        return False
    value = value.lower()
    if dialect.choice is GroupSelection.FIRST_CONTAINING:
        return token in value
    if dialect.agent is Agent.LIBRARY:
        return token == library_name(value)
    return token == (own_name(value) if dialect.agent is Agent.NAME else value)


def choose(found: Sequence[Group], agents: Sequence[str], dialect: Dialect) -> ChosenGroups:
    """Choose the groups for the first of `agents` that has any, else those for all crawlers."""
    tokens = [own_token(agent, dialect.agent) for agent in agents]
    if dialect.longest_token_first:
        tokens.sort(key=len, reverse=True)
    merged = dialect.choice is GroupSelection.ALL_EQUAL
    for token in tokens:
        ours = [r for r in found if any(names_token(value, token, dialect) for value in r.agents)]
        if ours:
            return _chosen(found, ours if merged else ours[:1], token)
    stars = [r for r in found if any(is_star(value, dialect) for value in r.agents)]
    if stars:
        return _chosen(found, stars if merged else stars[:1], "", star=True)
    return _chosen(found, [], "")


def _chosen(
    found: Sequence[Group], ours: Sequence[Group], token: str, *, star: bool = False
) -> ChosenGroups:
    starts = {r.start for r in ours}
    return ChosenGroups(
        groups=tuple(ours),
        others=tuple(r for r in found if r.start not in starts),
        token=token,
        star=star,
    )
