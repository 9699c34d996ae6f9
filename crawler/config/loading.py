"""From TOML, or a dict in its shape, to checked values; everything that is wrong at once."""

from __future__ import annotations

import enum
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from crawler.config.given import ConfigError, ConfigSource, Given, Sections, merged
from crawler.config.host_patterns import matches, read_pattern
from crawler.config.key import NAMED_TEXTS, TEXTS, Key
from crawler.config.keys import SECTIONS, SITE_KEYS
from crawler.config.lines import KeyPath, key_lines
from crawler.config.readers import ProblemsError, did_you_mean
from crawler.config.secrets import SECRET, redact
from crawler.config.sink_keys import SINK, SINK_KEYS, SINK_REQUIRED
from policies.url import host_of

CONFIG_BYTES_MAX = 10_000_000  # a config is written by hand; a device or a database is none


def read_toml(path: Path) -> Given:
    """The values of a file. Raises ConfigError."""
    return read_values(*parse_toml(path))


def parse_toml(path: Path) -> tuple[Mapping[str, object], ConfigSource]:
    """What a file holds, not checked yet, and its lines. Raises ConfigError."""
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
        raise ConfigError(f"{where}:{line}: is not UTF-8, as TOML has to be") from None
    try:
        data = tomllib.loads(text)
        lines = key_lines(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_syntax_problem(where, text, str(error))) from None
    except RecursionError:
        raise ConfigError(f"{where}: is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits, a date that is none
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
    return _Reading(source).read(data)


class _Reading:
    def __init__(self, source: ConfigSource) -> None:
        self._source = source
        self._problems: list[tuple[int, str]] = []
        self._places: dict[str, str] = {}
        self._bases: dict[str, Path] = {}

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
                values[name] = self._table((name,), table, SECTIONS[name])
                if name == "fetch":
                    self._no_cookie_for_all((name,), table)
            else:
                self._wrong((name,), f"is a section: write [{name}] and its keys below it")
        if self._problems:
            raise ConfigError(*(text for _, text in sorted(self._problems, key=lambda p: p[0])))
        return Given(
            base=self._source.base,
            values=values,
            sites=sites,
            sinks=sinks,
            places=self._places,
            bases=self._bases,
        )

    def _unknown_section(self, name: str, table: object) -> None:
        homes = [section for section, keys in SECTIONS.items() if name in keys]
        if homes and not isinstance(table, Mapping):
            self._wrong((name,), f"belongs into a section: {_sections(homes)}")
            return
        hint = did_you_mean(name, [*SECTIONS, "site", "sink"])
        self._wrong((name,), f"there is no such section{hint}")

    def _table(
        self, path: KeyPath, table: Mapping[str, object], keys: Mapping[str, Key]
    ) -> Mapping[str, object]:
        good: dict[str, object] = {}
        for name, value in table.items():
            key = keys.get(name)
            if key is None:
                self._wrong((*path, name), self._unknown_key(name, path, keys))
            elif key.only_in_site and path[0] != "site" and value is False:
                self._wrong(
                    (*path, name),
                    'can be false only for a site you own: write it below [site."example.org"]',
                )
            elif self._value((*path, name), key, value, good):
                place = ".".join([*map(str, path), key.field or name])
                self._places[place] = self._source.place((*path, name))
                self._bases[place] = self._source.base
        return good

    def _unknown_key(self, name: str, path: KeyPath, keys: Mapping[str, Key]) -> str:
        if hint := did_you_mean(name, keys):
            return f"there is no such key{hint}"
        if path[0] == "site" and any(name in section for section in SECTIONS.values()):
            return "is no key of a single site: it holds for the whole crawl"
        if path[0] == "sink":
            kinds = [kind for kind, others in SINK_KEYS.items() if name in others]
            if kinds:
                return f"is no key of this kind of sink: it belongs to {' and '.join(kinds)}"
        homes = [section for section, others in SECTIONS.items() if name in others]
        return (
            f"there is no such key here; it belongs into {_sections(homes)}"
            if homes
            else ("there is no such key")
        )

    def _value(self, path: KeyPath, key: Key, value: object, good: dict[str, object]) -> bool:
        secret = value if path[-1] in SECRET and path[0] != "robots" else None
        try:
            shaped = msgspec.convert(_plain(value), _LOOSER.get(key.accepts, key.accepts))
            meant = key.read(shaped)
            if key.rooted is not None:
                meant = key.rooted(meant, self._source.base)
            good[key.field or str(path[-1])] = meant
        except msgspec.ValidationError as error:
            self._wrong(path, redact(_shape_problem(str(error)), secret))
        except ProblemsError as error:
            for inner, sentence in error.problems:
                self._wrong((*path, *inner), redact(sentence, secret), shown=path)
        except ValueError as error:
            self._wrong(path, redact(str(error), secret))
        else:
            return True
        return False

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
                continue
            tables_in = [
                str(key)
                for key, value in table.items()
                if isinstance(value, Mapping) and key not in ("headers", "credentials")
            ]
            if sections := [key for key in tables_in if key in SECTIONS]:
                for key in sections:
                    told = (
                        f'write its keys below [site."{name}"] itself: they need no section there'
                    )
                    self._wrong((*path, key), told)
                continue
            if tables_in:
                # [site.example.org] without quotes is a table "org" in a table "example"
                self._wrong(path, f'holds a table: a site\'s name has quotes, [site."{name}.…"]')
                continue
            self._own_sites_only(path, pattern, table)
            read = self._table(path, table, _SITE_TABLE)
            good[pattern] = merged(good.get(pattern, {}), _by_section(read))
        return good

    def _own_sites_only(self, path: KeyPath, pattern: str, table: Mapping[str, object]) -> None:
        everywhere = not re.search(r"[a-z0-9]", pattern)
        for key in ("crawl_delay", "obey", "tls_verify"):
            if table.get(key) is False and everywhere:
                self._wrong((*path, key), "can be false only for a site you own, not for all hosts")
        if everywhere:
            self._no_cookie_for_all(path, table)
        credentials = table.get("credentials")
        for origin in credentials if isinstance(credentials, Mapping) else ():
            host = host_of(str(origin) + "/") if "://" in str(origin) else ""
            if host and not matches(pattern, host):
                self._wrong((*path, "credentials", origin), "is no origin of this site")

    def _no_cookie_for_all(self, path: KeyPath, table: Mapping[str, object]) -> None:
        headers = table.get("headers")
        for name in headers if isinstance(headers, Mapping) else ():
            if str(name).lower() == "cookie":
                sentence = (
                    'would send one site\'s cookie to all: write it below [site."example.org"]'
                )
                self._wrong((*path, "headers", name), sentence)

    def _sinks(self, tables: object) -> tuple[Mapping[str, object], ...] | None:
        if not isinstance(tables, list | tuple) or not all(isinstance(t, Mapping) for t in tables):
            self._wrong(("sink",), "is a list of sinks: write [[sink]]")
            return None
        good = []
        for index, table in enumerate(tables):
            path = ("sink", index)
            self._places[f"sink.{index}"] = self._source.place(path)
            kind = table.get("kind")
            keys = SINK_KEYS.get(kind if isinstance(kind, str) else "", tuple(SINK))
            read = self._table(path, table, {name: SINK[name] for name in keys})
            for name in SINK_REQUIRED:
                if name not in table:
                    self._wrong((*path, name), "is missing")
            good.append(read)
        self._same_paths(good)
        return tuple(good)

    def _same_paths(self, sinks: Sequence[Mapping[str, object]]) -> None:
        seen: set[object] = set()
        for index, sink in enumerate(sinks):
            path = sink.get("path")
            if path in seen:
                self._wrong(("sink", index, "path"), "is the path of another sink already")
            if path is not None:
                seen.add(path)

    def _wrong(self, path: KeyPath, sentence: str, *, shown: KeyPath | None = None) -> None:
        place = self._source.place(path)
        line = place.rpartition(":")[2] if self._source.lines else ""
        order = int(line) if line.isdecimal() else 0
        said = redact(f"{_shown(shown or path)}: {sentence}")
        self._problems.append((order, f"{place}: {said}"))


_SITE_TABLE: Mapping[str, Key] = {key: SECTIONS[section][key] for key, section in SITE_KEYS.items()}
_SECTION_OF_FIELD = {_SITE_TABLE[key].field or key: section for key, section in SITE_KEYS.items()}


def _by_section(table: Mapping[str, object]) -> Sections:
    sections: dict[str, dict[str, object]] = {}
    for name, value in table.items():
        sections.setdefault(_SECTION_OF_FIELD[name], {})[name] = value
    return sections


def _sections(names: list[str]) -> str:
    return " or ".join(f"[{name}]" for name in names)


def _shown(path: KeyPath) -> str:
    """`politeness.delay`, `site."*.example.org".delay`, `sink.path`."""
    names = [part for part in path if isinstance(part, str)]
    return ".".join(
        name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'"{name}"' for name in names
    )


def _plain(value: object) -> object:
    """Python's richer types as TOML's: dicts may come from code."""
    if isinstance(value, enum.Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value


# Elements and whole numbers are left to the readers, which tell of all that are wrong, and why.
_LOOSER: Mapping[object, object] = {
    TEXTS: tuple[object, ...],
    tuple[int | str, ...]: tuple[object, ...],
    str | TEXTS: str | tuple[object, ...],
    NAMED_TEXTS: dict[str, object],
    int: float,
    int | str: float | str,
}
_WORDS = {
    "str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false",
    "array": "a list", "object": "a table", "null": "nothing", "datetime": "a date",
    "date": "a date", "time": "a time",
}  # fmt: skip


def _shape_problem(message: str) -> str:
    """msgspec's "Expected `int | str`, got `bool`" as a sentence."""
    found = re.match(r"Expected `([^`]+)`.*?, got `([^`]+)`", message)
    if not found:
        return message
    expected = " or ".join(_WORDS.get(name, name) for name in found[1].split(" | "))
    return f"expected {expected}, got {_WORDS.get(found[2], found[2])}"
