"""The values that a config sets, before the defaults, with the places they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from crawler.config.lines import KeyPath
from policies.errors import CourtlyError

Sections = Mapping[str, Mapping[str, object]]  # section -> field -> value


class ConfigError(CourtlyError):
    """A config, or a request made with it, cannot be used. `problems`: one sentence each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class ConfigSource(Struct, frozen=True, kw_only=True):
    """Where values come from: a file with its lines, or a dict."""

    where: str  # the name of the file, or a word for another source
    base: Path  # relative paths start here
    lines: Mapping[KeyPath, int] = field(default_factory=dict)

    def line(self, path: KeyPath) -> int:
        """Return the line of a key, or of the nearest table around it; 0 if unknown."""
        around = (path[:length] for length in range(len(path), 0, -1))
        return next((self.lines[one] for one in around if one in self.lines), 0)

    def place(self, path: KeyPath) -> str:
        """Return `FILE:LINE` of a key, or the name of the source."""
        line = self.line(path)
        return f"{self.where}:{line}" if line else self.where


class Given(Struct, frozen=True, kw_only=True):
    """Checked values without the defaults. Fields are named as in the section types."""

    base: Path  # relative paths of defaults start here
    database_base: Path  # so does the path in `storage.url`
    values: Sections = field(default_factory=dict)
    sites: Mapping[str, Sections] = field(default_factory=dict)  # by host pattern
    sinks: tuple[Mapping[str, object], ...] | None = None
    # "section.field", "site.PATTERN.field" or "sink.INDEX" -> FILE:LINE
    places: Mapping[str, str] = field(default_factory=dict)
    worker: int = 1  # `{worker}` in the paths of sinks

    def over(self, under: Given) -> Given:
        """Return these values over those of `under`; site tables are merged key by key."""
        sets_database = "url" in self.values.get("storage", {})
        return Given(
            base=under.base,
            database_base=(self if sets_database else under).database_base,
            values=merged(under.values, self.values),
            sites={
                pattern: merged(under.sites.get(pattern, {}), self.sites.get(pattern, {}))
                for pattern in dict.fromkeys([*under.sites, *self.sites])
            },
            sinks=under.sinks if self.sinks is None else self.sinks,
            places={**under.places, **self.places},
            worker=under.worker,
        )

    def place(self, key: str) -> str:
        """Return where a key of `places` was set, or "config"."""
        return self.places.get(key, "config")

    def all_of(self, section: str, field: str) -> Iterator[tuple[str, Any]]:
        """Yield every value given for a field that a site may have, for all hosts and for single
        sites, each after its place and name: `crawl.toml:7: site."a.test".token`."""
        tables = {f"{section}.{field}": (f"{section}.{field}", self.values)}
        for pattern, sections in self.sites.items():
            tables[f"site.{pattern}.{field}"] = (f'site."{pattern}".{field}', sections)
        for key, (name, sections) in tables.items():
            if field in (table := sections.get(section, {})):
                yield f"{self.place(key)}: {name}", table[field]


def merged(under: Sections, over: Sections) -> Sections:
    """Return the values of both, field by field; those of `over` win."""
    return {
        name: {**under.get(name, {}), **over.get(name, {})}
        for name in dict.fromkeys([*under, *over])
    }
