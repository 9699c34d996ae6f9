"""Compare a config that is read again while a crawl runs with the one in force.

Values that may be secret (headers, credentials, a proxy, a token) are never shown.
"""

from __future__ import annotations

import enum
import math
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from crawler.config.keys import SECTION_OF_FIELD, SECTIONS, SITE_KEYS
from crawler.config.lines import ConfigError, Sections
from crawler.config.model import Config, Site
from policies.config_key import Key, query_parameter, url_pattern
from policies.pacing import Window
from policies.url import without_userinfo

GROUPS_SHOWN = 5  # of hosts, for one key
PATTERNS_SHOWN = 3  # of a list
_ABSENT = object()


class _Change(Struct, frozen=True):
    """A key whose value differs, in a section or in the table of a site."""

    pattern: str | None  # of the site
    section: str
    name: str
    key: Key
    old: object
    new: object

    def __str__(self) -> str:
        table = self.section if self.pattern is None else f'site."{self.pattern}"'
        return f"[{table}] {self.name}: {_step(self.key, self.old, self.new)}"

    @property
    def is_per_host(self) -> bool:
        """Whether the change is described by the number of hosts that it affects."""
        values = (self.old, self.new)
        is_list = any(isinstance(value, tuple | Mapping) for value in values)
        return self.name in SITE_KEYS and not self.key.mask and not is_list


def _changed(old: Config, new: Config) -> Iterator[_Change]:
    for section, keys in SECTIONS.items():
        for name, key in keys.items():
            had, has = (getattr(getattr(one, section), key.field) for one in (old, new))
            if had != has:
                yield _Change(None, section, name, key, had, has)
    for pattern in sorted({*old.given.sites, *new.given.sites}):
        tables = [config.given.sites.get(pattern, {}) for config in (old, new)]
        for name, key in SITE_KEYS.items():
            section = SECTION_OF_FIELD[key.field]
            had, has = (table.get(section, {}).get(key.field, _ABSENT) for table in tables)
            if had != has:
                yield _Change(pattern, section, name, key, had, has)


# ---------------------------------------------------------------- what waits for a restart


def defer_restarts(new: Config, old: Config) -> tuple[Config, tuple[str, ...]]:
    """Return the new config with the old values of all keys that cannot change during a crawl, and
    a description of those that differ."""
    waiting = [one for one in _changed(old, new) if one.key.restart]
    described = tuple(map(str, waiting)) + (("[[sink]]",) if new.sinks != old.sinks else ())
    if not described:
        return new, ()
    given, before = new.given, old.given
    values = _copied(given.values)
    sites = {pattern: _copied(sections) for pattern, sections in given.sites.items()}
    places = {name: at for name, at in given.places.items() if not name.startswith("sink.")}
    places |= {name: at for name, at in before.places.items() if name.startswith("sink.")}
    for one in waiting:
        if one.pattern is None:
            table, old_sections, prefix = values, before.values, one.section
        else:
            table = sites.setdefault(one.pattern, {})
            old_sections, prefix = before.sites.get(one.pattern, {}), f"site.{one.pattern}"
        field = one.key.field
        table.setdefault(one.section, {}).pop(field, None)
        places.pop(f"{prefix}.{field}", None)
        if field in old_sections.get(one.section, {}):
            table[one.section][field] = old_sections[one.section][field]
            places[f"{prefix}.{field}"] = before.places[f"{prefix}.{field}"]
    kept = replace(
        given,
        database_base=before.database_base,
        values=values,
        sites=sites,
        sinks=before.sinks,
        places=places,
    )
    return Config.of(kept), described


def _copied(sections: Sections) -> dict[str, dict[str, object]]:
    return {name: dict(table) for name, table in sections.items()}


# ---------------------------------------------------------------- descriptions


def describe_changes(old: Config, new: Config, hosts: Iterable[str] = ()) -> tuple[str, ...]:
    """Return a description of every change but those of `crawl.seeds`.

    hosts: the hosts being crawled. A change that affects some of them is described by their number,
    "312 hosts: delay 1 s to 4 s", any other by its table, "[politeness] delay: 1 s to 4 s".
    """
    changed = [one for one in _changed(old, new) if (one.section, one.name) != ("crawl", "seeds")]
    groups = _by_host(old, new, hosts, {one.name for one in changed if one.is_per_host})
    described = [str(one) for one in changed if not one.is_per_host]
    described += [str(one) for one in changed if one.is_per_host and one.name not in groups]
    for name, steps in groups.items():
        for words, count in steps.most_common(GROUPS_SHOWN):
            described.append(f"{count:,} {'host' if count == 1 else 'hosts'}: {name} {words}")
        if (more := len(steps) - GROUPS_SHOWN) > 0:
            changes = "change" if more == 1 else "changes"
            described.append(f"{name}: {more:,} other {changes} on other hosts")
    return tuple(described)


def _by_host(
    old: Config, new: Config, hosts: Iterable[str], names: set[str]
) -> dict[str, Counter[str]]:
    """Return, by key, the number of hosts for each change of its value."""
    groups: dict[str, Counter[str]] = {}
    if not names:
        return groups
    pairs: dict[tuple[int, int], tuple[Site, Site]] = {}  # hosts with the same tables share a Site
    counts: Counter[tuple[int, int]] = Counter()
    for host in hosts:
        had, has = old.site(host), new.site(host)
        pairs[id(had), id(has)] = had, has
        counts[id(had), id(has)] += 1
    for name, key in SITE_KEYS.items():
        if name not in names:
            continue
        for ids, sites in pairs.items():
            section = SECTION_OF_FIELD[key.field]
            values = [getattr(getattr(site, section), key.field) for site in sites]
            if values[0] != values[1]:
                groups.setdefault(name, Counter())[_step(key, *values)] += counts[ids]
    return groups


def _step(key: Key, had: object, has: object) -> str:
    if key.mask:
        return "changed"
    noun = "pattern" if key.parse in (url_pattern, query_parameter) else "entry"
    if isinstance(had, tuple) and isinstance(has, tuple) and not key.or_single:
        return _items(noun, [*map(str, had)], [*map(str, has)]) or "in another order"
    if isinstance(had, Mapping) and isinstance(has, Mapping):
        other = sum(1 for name in had if name in has and had[name] != has[name])
        return ", ".join(
            filter(None, (_items(noun, had, has), f"{other} changed" if other else ""))
        )
    return f"{_in_words(key, had)} to {_in_words(key, has)}"


def _items(noun: str, had: Iterable[str], has: Iterable[str]) -> str:
    """Return `+1 pattern ("*.pdf"), -2 patterns`."""
    parts = []
    old, new = dict.fromkeys(had), dict.fromkeys(has)
    for sign, some in (
        ("+", [one for one in new if one not in old]),
        ("-", [one for one in old if one not in new]),
    ):
        if some:
            nouns = noun if len(some) == 1 else {"entry": "entries"}.get(noun, f"{noun}s")
            quoted = ", ".join(f'"{without_userinfo(one)}"' for one in some)
            shown = f" ({quoted})" if len(some) <= PATTERNS_SHOWN else ""
            parts.append(f"{sign}{len(some)} {nouns}{shown}")
    return ", ".join(parts)


def _in_words(key: Key, value: object) -> str:
    """Return a value as an operator would write it, with its unit."""
    if value is _ABSENT:
        return "as everywhere"
    match value:
        case None:
            return "the default" if key.unit else "none"
        case bool():
            return str(value).lower()
        case enum.Enum():
            return str(value.value)
        case Window():
            return f"{_clock(value.start_s)}-{_clock(value.end_s)}"
        case int() | float():
            if value == math.inf:
                return "no limit"
            unit = {"seconds": " s", "bytes": " bytes"}.get(key.unit, "")
            return f"{value:,}{unit}" if isinstance(value, int) else f"{value:g}{unit}"
        case tuple():
            return ", ".join(_in_words(key, item) for item in value) or "none"
        case Mapping():
            return f"{len(value)} entries"
    return f'"{without_userinfo(str(value))}"'


def _clock(day_s: int) -> str:
    return f"{day_s // 3600:02}:{day_s % 3600 // 60:02}"


# ---------------------------------------------------------------- what else a change requires


def same_robots_rules(old: Config, new: Config) -> bool:
    """Return whether both configs read every robots.txt in the same way."""
    return _rules(old, "robots") == _rules(new, "robots")


def same_pacing(old: Config, new: Config) -> bool:
    """Return whether both configs lead to the same delays for every host."""
    return _rules(old, "politeness", "robots") == _rules(new, "politeness", "robots")


def _rules(config: Config, *sections: str) -> tuple[object, ...]:
    sites = {
        pattern: [tables.get(section) for section in sections]
        for pattern, tables in config.given.sites.items()
    }
    per_site = {pattern: tables for pattern, tables in sites.items() if any(tables)}
    return [getattr(config, section) for section in sections], config.token(""), per_site


# ---------------------------------------------------------------- files that are read again


def check_rereadable(paths: Iterable[Path]) -> None:
    """Raise ConfigError for files whose reading could block: FIFOs, terminals, devices.

    A crawl that runs must not wait for them. At the start they are allowed, such as a shell's
    `<(…)`. A file that is missing or unreadable is reported by its reader.
    """
    problems = [
        f"{path}: is not a regular file, and cannot be read again while the crawl runs"
        for path in paths
        if _may_block(path)
    ]
    if problems:
        raise ConfigError(*problems)


def referenced_files(config: Config) -> Iterator[Path]:
    """Yield the files of seeds, secrets and certificates that a config names."""
    for text in config.crawl.seeds:
        if text.startswith("@"):
            yield Path(text[1:].strip())
    for _, sources in config.given.all_of("fetch", "credentials"):
        for source in sources.values():
            if source.startswith("file:"):
                yield Path(source[5:])
    for _, ca_file in config.given.all_of("fetch", "ca_file"):
        if ca_file is not None:
            yield ca_file


def _may_block(path: Path) -> bool:
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(kind) and not stat.S_ISDIR(kind)
