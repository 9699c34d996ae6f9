"""What was given, before the defaults: values with the places they come from, and the error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from crawler.config.lines import KeyPath

Sections = Mapping[str, Mapping[str, object]]


class ConfigError(Exception):
    """A config, or what was asked with it, cannot be used. `problems`: one sentence each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class ConfigSource(Struct, frozen=True, kw_only=True):
    """Where values come from: a file with its lines, or a dict."""

    where: str  # the file as it was named, or a word for what is none
    base: Path  # relative paths start here
    lines: Mapping[KeyPath, int] = field(default_factory=dict)

    def place(self, path: KeyPath) -> str:
        """`FILE:LINE` of a key, or of the nearest table around it."""
        for length in range(len(path), 0, -1):
            if line := self.lines.get(path[:length]):
                return f"{self.where}:{line}"
        return self.where


class Given(Struct, frozen=True, kw_only=True):
    """What was given, checked; only that, no defaults. Fields are named as in the rule types."""

    base: Path  # where relative paths of defaults start
    values: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # section -> field
    sites: Mapping[str, Mapping[str, Mapping[str, object]]] = field(default_factory=dict)
    sinks: tuple[Mapping[str, object], ...] | None = None
    places: Mapping[str, str] = field(default_factory=dict)  # "section.field" -> FILE:LINE
    bases: Mapping[str, Path] = field(default_factory=dict)  # likewise: where its paths start

    def over(self, under: Given) -> Given:
        """This, and what it does not say from `under`; site tables key by key."""
        return Given(
            base=under.base,
            values=merged(under.values, self.values),
            sites={
                pattern: merged(under.sites.get(pattern, {}), self.sites.get(pattern, {}))
                for pattern in [
                    *under.sites,
                    *(new for new in self.sites if new not in under.sites),
                ]
            },
            sinks=under.sinks if self.sinks is None else self.sinks,
            places={**under.places, **self.places},
            bases={**under.bases, **self.bases},
        )


def merged(under: Sections, over: Sections) -> Sections:
    return {
        name: {**under.get(name, {}), **over.get(name, {})}
        for name in dict.fromkeys([*under, *over])
    }
