"""The values that a config sets, and the line of each key of a TOML document, which tomllib does
not report.

The scanner checks nothing: tomllib must have accepted the document. Grammar: TOML 1.0.0
(https://toml.io/en/v1.0.0), sections "Keys", "Inline Table" and "Array of Tables".
"""

from __future__ import annotations

import itertools
import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from policies.errors import CourtlyError

KeyPath = tuple[str | int, ...]  # ("site", "*.example.org", "delay"); ("sink", 0, "kind")

_BLANK = re.compile(r"[ \t]*")
_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN_VALUE = re.compile(r"[^,\]}#\n]*")
_STRINGS = (  # longer quotes first; a multi-line string may end with up to two quotes of its own
    ('"""', re.compile(r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}', re.DOTALL)),
    ("'''", re.compile(r"'''(?:[^']|'{1,2}(?!'))*'{3,5}", re.DOTALL)),
    ('"', re.compile(r'"(?:[^"\\\n]|\\.)*"')),
    ("'", re.compile(r"'[^'\n]*'")),
)
Sections = Mapping[str, Mapping[str, object]]  # section -> field -> value


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, of every table, key and list element by its path from the root."""
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ends = [found.start() for found in re.finditer("\n", text)]
        self._lines: dict[KeyPath, int] = {}
        self._tables_in: dict[KeyPath, int] = {}  # array of tables -> number so far

    def scan(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        self._skip(_SPACE)
        while self._at < len(self._text):
            if self._text.startswith("[", self._at):
                table = self._header()
            else:
                self._pair(table)
            self._skip(_SPACE)
        return self._lines

    def _header(self) -> KeyPath:
        many = self._text.startswith("[[", self._at)
        self._at += 2 if many else 1
        *parents, last = self._dotted_key()
        self._at += 2 if many else 1
        path: KeyPath = ()
        for part in parents:
            path = self._inside((*path, part))
        path = (*path, last)
        if many:
            self._tables_in[path] = self._tables_in.get(path, 0) + 1
        return self._inside(path)

    def _inside(self, path: KeyPath) -> KeyPath:
        """Return the table that a header's path means: of an array of tables, its last element."""
        self._note(path)
        if path in self._tables_in:
            path = (*path, self._tables_in[path] - 1)
            self._note(path)
        return path

    def _pair(self, table: KeyPath) -> None:
        path = table
        for part in self._dotted_key():
            path = (*path, part)
            self._note(path)
        self._at += 1  # "="
        self._skip(_BLANK)
        self._value(path)

    def _dotted_key(self) -> list[str]:
        parts: list[str] = []
        while True:
            self._skip(_BLANK)
            if self._text[self._at] in "\"'":
                quoted = self._string()
                parts.append(tomllib.loads(f"key = {quoted}")["key"])
            else:
                parts.append(self._skip(_BARE_KEY))
            self._skip(_BLANK)
            if not self._text.startswith(".", self._at):
                return parts
            self._at += 1

    def _value(self, path: KeyPath) -> None:
        first = self._text[self._at]
        if first in "\"'":
            self._string()
        elif first in "[{":
            self._items("]" if first == "[" else "}", path)
        else:
            self._skip(_PLAIN_VALUE)

    def _items(self, end: str, path: KeyPath) -> None:
        """Skip a list or an inline table, and note the lines of what it contains."""
        self._at += 1
        for index in itertools.count():
            self._skip(_SPACE)
            if self._text[self._at] == end:
                self._at += 1
                return
            if end == "}":
                self._pair(path)
            else:
                self._note((*path, index))
                self._value((*path, index))
            self._skip(_SPACE)
            if self._text[self._at] == ",":
                self._at += 1

    def _string(self) -> str:
        for quotes, pattern in _STRINGS:
            if self._text.startswith(quotes, self._at):
                return self._skip(pattern)
        raise AssertionError("called only at a quote")

    def _skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise ValueError(
                f"not TOML as tomllib reads it, at {self._text[self._at : self._at + 20]!r}"
            )
        self._at = found.end()
        return found.group()

    def _note(self, path: KeyPath) -> None:
        self._lines.setdefault(path, bisect_right(self._ends, self._at - 1) + 1)


class ConfigError(CourtlyError):
    """A config, or a request made with it, cannot be used. `problems`: one sentence each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class ConfigSource(Struct, frozen=True, kw_only=True):
    """The source of values: a file with its lines, or a dict."""

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
