"""Read a config from TOML, or from a dict in its shape, and report all its problems together."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path

from crawler.config.host_patterns import matches, read_pattern
from crawler.config.keys import (
    SECTION_OF_FIELD,
    SECTIONS,
    SINK,
    SINK_REQUIRED,
    SITE_KEYS,
    Keys,
    sink_keys,
)
from crawler.config.lines import (
    ConfigError,
    ConfigSource,
    Given,
    KeyPath,
    Sections,
    key_lines,
    merged,
)
from crawler.config.readers import ProblemsError, did_you_mean, read_value
from crawler.config.secrets import origin_in, redact
from policies.url import host_of

CONFIG_BYTES_MAX = 10_000_000  # anything larger is a device or a database, not a config

_PER_SITE = 'write it below [site."example.org"]'


def read_toml(path: Path) -> Given:
    """Return the values of a file. Raises ConfigError with every problem in it."""
    return read_values(*parse_toml(path))


def parse_toml(path: Path) -> tuple[Mapping[str, object], ConfigSource]:
    """Return the contents of a file, not checked yet, and its lines. Raises ConfigError."""
    where = str(path)
    try:
        with path.open("rb") as file:
            raw = file.read(CONFIG_BYTES_MAX + 1)
    except FileNotFoundError:
        raise ConfigError(f"{where}: there is no such file") from None
    except IsADirectoryError:
        raise ConfigError(f"{where}: is a directory, not a config file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{where}: cannot be read: {reason}") from None
    if len(raw) > CONFIG_BYTES_MAX:
        raise ConfigError(f"{where}: is larger than {CONFIG_BYTES_MAX:,} bytes: not a config file")
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{where}:{line}: is not UTF-8, which TOML requires") from None
    try:
        data = tomllib.loads(text)
        lines = key_lines(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_syntax_problem(where, text, str(error))) from None
    except RecursionError:
        raise ConfigError(f"{where}: is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits, an impossible date
        raise ConfigError(f"{where}: is not TOML: {error}") from None
    return data, ConfigSource(where=where, base=path.parent, lines=lines)


def _syntax_problem(where: str, text: str, message: str) -> str:
    found = re.match(
        r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)\Z", message, re.DOTALL
    )
    if not found:
        return f"{where}: is not TOML: {message}"
    line = found[2] or str(text.rstrip("\n").count("\n") + 1)
    column = f" (column {found[3]})" if found[3] else " (at the end of the file)"
    return f"{where}:{line}: is not TOML: {found[1]}{column}"


def read_values(data: Mapping[str, object], source: ConfigSource) -> Given:
    """Check data in the shape of the TOML. Raises ConfigError with every problem in it."""
    return _TableReader(source).read(data)


class _TableReader:
    def __init__(self, source: ConfigSource) -> None:
        self._source = source
        self._problems: list[tuple[int, str]] = []  # line and message
        self._places: dict[str, str] = {}

    def read(self, data: Mapping[str, object]) -> Given:
        values: dict[str, Mapping[str, object]] = {}
        sites: Mapping[str, Sections] = {}
        sinks: tuple[Mapping[str, object], ...] | None = None
        for name, table in data.items():
            if name == "sink":
                sinks = self._sinks(table)
            elif name == "site":
                sites = self._sites(table)
            elif name not in SECTIONS:
                self._unknown_section(name, table)
            elif isinstance(table, Mapping):
                values[name] = self._table((name,), table, SECTIONS[name], name)
                self._refuse_for_all_hosts((name,), table, SECTIONS[name])
            else:
                self._wrong((name,), f"is a section: write [{name}] and its keys below it")
        if self._problems:
            raise ConfigError(*(text for _, text in sorted(self._problems, key=itemgetter(0))))
        return Given(
            base=self._source.base,
            database_base=self._source.base,
            values=values,
            sites=sites,
            sinks=sinks,
            places=self._places,
        )

    def _unknown_section(self, name: str, table: object) -> None:
        homes = _homes(name)
        if homes and not isinstance(table, Mapping):
            self._wrong((name,), f"belongs in a section: {homes}")
        else:
            hint = did_you_mean(name, [*SECTIONS, "site", "sink"])
            self._wrong((name,), f"there is no such section{hint}")

    def _table(
        self, path: KeyPath, table: Mapping[str, object], keys: Keys, prefix: str
    ) -> Mapping[str, object]:
        """Return the values of a table's fields. prefix: of their names in `Given.places`."""
        good: dict[str, object] = {}
        for name, value in table.items():
            if (key := keys.get(name)) is None:
                self._wrong((*path, name), _unknown_key(name, path[0], keys))
                continue
            try:
                good[key.field] = read_value(key, value, self._source.base)
            except ValueError as error:
                inner = error.problems if isinstance(error, ProblemsError) else [((), str(error))]
                for inside, sentence in inner:
                    secret = value if key.mask else None
                    self._wrong((*path, name, *inside), redact(sentence, secret), (*path, name))
            else:
                self._places[f"{prefix}.{key.field}"] = self._source.place((*path, name))
        return good

    def _refuse_for_all_hosts(self, path: KeyPath, table: Mapping[str, object], keys: Keys) -> None:
        """Report what only a table for single sites may hold."""
        for name, value in table.items():
            if name in keys and keys[name].own_sites_only and value is False:
                hint = ", not for all hosts" if path[0] == "site" else f": {_PER_SITE}"
                self._wrong((*path, name), f"can be false only for a site you own{hint}")
        headers = table.get("headers") if "headers" in keys else None
        for name in headers if isinstance(headers, Mapping) else ():
            if str(name).lower() == "cookie":
                sentence = f"would send one site's cookie to all hosts: {_PER_SITE}"
                self._wrong((*path, "headers", name), sentence)

    def _sites(self, tables: object) -> Mapping[str, Sections]:
        good: dict[str, Sections] = {}
        if not isinstance(tables, Mapping):
            self._wrong(("site",), 'is a table of sites: write [site."example.org"]')
            return good
        for name, table in tables.items():
            path = ("site", name)
            try:
                pattern = read_pattern(str(name))
            except ValueError as error:
                self._wrong(path, str(error))
                continue
            if not isinstance(table, Mapping):
                self._wrong(path, f'must be a table: write [site."{name}"] and its keys below it')
            elif not self._has_subtables(path, table):
                read = self._site(path, pattern, table)
                good[pattern] = merged(good.get(pattern, {}), read)
        return good

    def _has_subtables(self, path: KeyPath, table: Mapping[str, object]) -> bool:
        inner = [name for name, value in table.items() if isinstance(value, Mapping)]
        inner = [name for name in inner if name not in SITE_KEYS]
        sections = [name for name in inner if name in SECTIONS]
        for name in sections:
            sentence = f'write its keys below [site."{path[1]}"] itself: they need no section there'
            self._wrong((*path, name), sentence)
        if inner and not sections:
            # [site.example.org] without quotes is a table "org" in a table "example".
            sentence = f'holds a table: the name of a site must be quoted, [site."{path[1]}.…"]'
            self._wrong(path, sentence)
        return bool(inner)

    def _site(self, path: KeyPath, pattern: str, table: Mapping[str, object]) -> Sections:
        if not re.search(r"[a-z0-9]", pattern):
            self._refuse_for_all_hosts(path, table, SITE_KEYS)
        credentials = table.get("credentials")
        for name in credentials if isinstance(credentials, Mapping) else ():
            origin = origin_in(str(name))
            if origin is not None and not matches(pattern, host_of(f"{origin}/")):
                self._wrong((*path, "credentials", name), "is not an origin of this site")
        sections: dict[str, dict[str, object]] = {}
        for field, value in self._table(path, table, SITE_KEYS, f"site.{pattern}").items():
            sections.setdefault(SECTION_OF_FIELD[field], {})[field] = value
        return sections

    def _sinks(self, tables: object) -> tuple[Mapping[str, object], ...] | None:
        if not isinstance(tables, list | tuple) or not all(isinstance(t, Mapping) for t in tables):
            self._wrong(("sink",), "is a list of sinks: write [[sink]]")
            return None
        good: list[Mapping[str, object]] = []
        seen: set[object] = set()
        for index, table in enumerate(tables):
            path = ("sink", index)
            self._places[f"sink.{index}"] = self._source.place(path)
            read = self._table(path, table, sink_keys(table.get("kind")), f"sink.{index}")
            for name in SINK_REQUIRED:
                if name not in table:
                    self._wrong((*path, name), "is missing")
            if read.get("path") in seen:
                self._wrong((*path, "path"), "is already the path of another sink")
            seen |= {read["path"]} if "path" in read else set()
            good.append(read)
        return tuple(good)

    def _wrong(self, path: KeyPath, sentence: str, shown: KeyPath = ()) -> None:
        message = redact(f"{_shown(shown or path)}: {sentence}")
        self._problems.append((self._source.line(path), f"{self._source.place(path)}: {message}"))


def _unknown_key(name: str, table: str | int, keys: Keys) -> str:
    if hint := did_you_mean(name, keys):
        return f"there is no such key{hint}"
    homes = _homes(name)
    if table == "site" and homes:
        return "cannot be set for a single site: it applies to the whole crawl"
    if table == "sink" and name in SINK:
        return f"is not a key of this kind of sink: it belongs to {' and '.join(SINK[name].kinds)}"
    return f"there is no such key here; it belongs in {homes}" if homes else "there is no such key"


def _homes(name: str) -> str:
    """The sections that have a key: `[fetch] or [daemon]`."""
    return " or ".join(f"[{section}]" for section, keys in SECTIONS.items() if name in keys)


def _shown(path: KeyPath) -> str:
    """`politeness.delay`, `site."*.example.org".delay`, `sink.path`."""
    names = [part for part in path if isinstance(part, str)]
    return ".".join(
        name if re.fullmatch(r"[\w-]+", name, re.ASCII) else f'"{name}"' for name in names
    )
