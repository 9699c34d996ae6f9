"""Directives of a page: meta robots, X-Robots-Tag and rel, as three yes-or-no answers.

There is no standard beyond a note of the 1990s on the meta tag. Where interpretations differ, the
stricter applies: every directive for all robots or for us counts, and permissions (`index`,
`follow`, `all`) do not override prohibitions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct, structs

from policies.listing import parse_date


class Directives(Struct, frozen=True, kw_only=True):
    """Whether the page may be indexed (passed to sinks), its links followed, its body archived.

    unavailable_at: Unix seconds from which it may not be indexed (`unavailable_after`)."""

    index: bool = True
    follow: bool = True
    archive: bool = True
    unavailable_at: float | None = None

    def merge(self, other: Directives) -> Directives:
        """The combination of both: what either forbids is forbidden."""
        ends = [at for at in (self.unavailable_at, other.unavailable_at) if at is not None]
        return Directives(
            index=self.index and other.index,
            follow=self.follow and other.follow,
            archive=self.archive and other.archive,
            unavailable_at=min(ends, default=None),
        )

    def at(self, now_s: float) -> Directives:
        """The directives at a time, in Unix seconds."""
        if self.unavailable_at is None or now_s < self.unavailable_at or not self.index:
            return self
        return structs.replace(self, index=False)


UNRESTRICTED: Final = Directives()

_NOINDEX: Final = frozenset({"noindex", "none"})
_NOFOLLOW: Final = frozenset({"nofollow", "none"})
_NOARCHIVE: Final = frozenset({"noarchive", "nocache"})
_BANS: Final = _NOINDEX | _NOFOLLOW | _NOARCHIVE
# Directives with a value after a colon, which must not be taken for the name of a robot.
_UNTIL: Final = "unavailable_after"
_VALUED: Final = frozenset({_UNTIL, "max-snippet", "max-image-preview", "max-video-preview"})
_ALL_ROBOTS: Final = frozenset({"robots", "*"})
_SEPARATORS: Final = re.compile(r"[,;]")
# Servers send no-break spaces, byte order marks and quotation marks around directives.
_NOISE: Final = re.compile(r"[^\x20-\x7e]|[\"']")
_CHARS_MAX: Final = 10_000  # of one header or attribute


def from_header(values: Iterable[str], tokens: Sequence[str]) -> Directives:
    """The directives of all X-Robots-Tag headers of an answer for a robot with these tokens.

    Within one value, `name:` addresses the directives after it to that robot, up to the next name.
    """
    return _from_values(tuple(value[:_CHARS_MAX] for value in values), tuple(tokens))


@lru_cache(maxsize=64)
def _from_values(values: tuple[str, ...], tokens: tuple[str, ...]) -> Directives:
    """Several parts of a crawl ask for the same answer, and all pages of a site have the same."""
    names = {token.lower() for token in tokens} | _ALL_ROBOTS
    found = _Found()
    for value in values:
        found.add(value, names)
    return found.directives()


def from_meta(metas: Iterable[tuple[str, str]], tokens: Sequence[str]) -> Directives:
    """The directives of a page's meta elements, given as (name, content) pairs.

    Elements for other robots are ignored. Commas, semicolons and white space are separators.
    """
    names = {token.lower() for token in tokens} | _ALL_ROBOTS
    found = _Found()
    for name, content in metas:
        if name.strip().lower() in names:
            found.add(content)
    return found.directives()


def is_too_long(
    values: Iterable[str], metas: Iterable[tuple[str, str]], tokens: Sequence[str]
) -> bool:
    """Return whether the end of one of these headers or meta elements is beyond the limit."""
    for value in values:
        if len(value) > _CHARS_MAX:
            return True
    for name, content in metas:
        if len(content) > _CHARS_MAX:
            robot = name.strip().lower()
            if robot in _ALL_ROBOTS or robot in map(str.lower, tokens):
                return True
    return False


def rel_nofollow(rel: str | None) -> bool:
    """Return whether a rel attribute contains `nofollow`; `ugc` and `sponsored` are ignored."""
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


class _Found:
    """Collects what headers or meta elements say."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._ends: list[float] = []

    def add(self, value: str, names: Collection[str] | None = None) -> None:
        """Add one value. names: of the robots that this is; None: the value addresses it."""
        ours = True
        pieces = _SEPARATORS.split(_NOISE.sub(" ", value[:_CHARS_MAX]).lower())
        for place, piece in enumerate(pieces):
            name, colon, rest = piece.partition(":")
            name = name.strip()
            if names is not None and colon and _is_robot(name):
                ours = name.partition("/")[0] in names
                piece = rest
                name, _, rest = rest.partition(":")
                name = name.strip()
            if not ours:
                continue
            if name == _UNTIL:
                # The date may hold a comma: "Saturday, 25-Jun-10 15:00:00 UTC".
                self._add_end(rest, *pieces[place + 1 : place + 2])
            elif name not in _VALUED:
                self._said.update((piece if names is None else piece.replace(":", " ")).split())

    def _add_end(self, *parts: str) -> None:
        for text in (parts[0], ",".join(parts)):
            for date in (text, f"{text} 00:00:00"):
                if (at := parse_date(date)) is not None:
                    self._ends.append(at)
                    return

    def directives(self) -> Directives:
        said = self._said
        if said.isdisjoint(_BANS) and not self._ends:
            return UNRESTRICTED
        return Directives(
            index=said.isdisjoint(_NOINDEX),
            follow=said.isdisjoint(_NOFOLLOW),
            archive=said.isdisjoint(_NOARCHIVE),
            unavailable_at=min(self._ends, default=None),
        )
