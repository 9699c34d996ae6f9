"""Directives of a page: meta robots, X-Robots-Tag and rel, as three yes-or-no answers.

There is no standard beyond a note of the 1990s on the meta tag. Where interpretations differ, the
stricter applies: every directive for all robots or for us counts, and permissions (`index`,
`follow`, `all`) do not override prohibitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct


class Directives(Struct, frozen=True, kw_only=True):
    """Whether the page may be indexed (passed to sinks), its links followed, its body archived."""

    index: bool = True
    follow: bool = True
    archive: bool = True

    def merge(self, other: Directives) -> Directives:
        """The combination of both: what either forbids is forbidden."""
        return Directives(
            index=self.index and other.index,
            follow=self.follow and other.follow,
            archive=self.archive and other.archive,
        )


UNRESTRICTED: Final = Directives()

_NOINDEX: Final = frozenset({"noindex", "none"})
_NOFOLLOW: Final = frozenset({"nofollow", "none"})
_NOARCHIVE: Final = frozenset({"noarchive", "nocache"})
_BANS: Final = _NOINDEX | _NOFOLLOW | _NOARCHIVE
# Directives with a value after a colon, which must not be taken for the name of a robot.
_VALUED: Final = frozenset(
    {"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"}
)
_ALL_ROBOTS: Final = frozenset({"robots", "*"})
_SEPARATORS: Final = re.compile(r"[,;]")
_CHARS_MAX: Final = 10_000  # of one header or attribute


def from_header(values: Iterable[str], tokens: Sequence[str]) -> Directives:
    """The directives of all X-Robots-Tag headers of an answer for a robot with these tokens.

    Within one value, `name:` addresses the directives after it to that robot, up to the next name.
    """
    names = {token.lower() for token in tokens} | _ALL_ROBOTS
    said: set[str] = set()
    for value in values:
        ours = True
        for piece in _SEPARATORS.split(value[:_CHARS_MAX].lower()):
            name, colon, rest = piece.partition(":")
            name = name.strip()
            if colon and _is_robot(name):
                ours = name.partition("/")[0] in names
                piece = rest
                name = rest.partition(":")[0].strip()
            if ours and name not in _VALUED:
                said.update(piece.replace(":", " ").split())
    return _directives(said)


def from_meta(metas: Iterable[tuple[str, str]], tokens: Sequence[str]) -> Directives:
    """The directives of a page's meta elements, given as (name, content) pairs.

    Elements for other robots are ignored. Commas, semicolons and white space are separators.
    """
    names = {token.lower() for token in tokens} | _ALL_ROBOTS
    said: set[str] = set()
    for name, content in metas:
        if name.strip().lower() in names:
            for piece in _SEPARATORS.split(content[:_CHARS_MAX].lower()):
                if piece.partition(":")[0].strip() not in _VALUED:
                    said.update(piece.split())
    return _directives(said)


def is_too_long(
    values: Iterable[str], metas: Iterable[tuple[str, str]], tokens: Sequence[str]
) -> bool:
    """Whether the end of one of these headers or meta elements is beyond the limit."""
    if any(len(value) > _CHARS_MAX for value in values):
        return True
    names = {token.lower() for token in tokens} | _ALL_ROBOTS
    return any(
        len(content) > _CHARS_MAX and name.strip().lower() in names for name, content in metas
    )


def rel_nofollow(rel: str | None) -> bool:
    """Whether a rel attribute has the keyword `nofollow`; `ugc` and `sponsored` are ignored."""
    return rel is not None and "nofollow" in rel.lower().split()


def _is_robot(name: str) -> bool:
    """Whether the word before a colon is the name of a robot, and not a directive or the start of a
    date ("25 Jun 2010 15" has spaces, "15" has no letter)."""
    return (
        name not in _VALUED
        and name not in _BANS
        and len(name.split()) == 1
        and (name == "*" or any(map(str.isalpha, name)))
    )


def _directives(said: set[str]) -> Directives:
    if said.isdisjoint(_BANS):
        return UNRESTRICTED
    return Directives(
        index=said.isdisjoint(_NOINDEX),
        follow=said.isdisjoint(_NOFOLLOW),
        archive=said.isdisjoint(_NOARCHIVE),
    )
