"""What another config changes: in words for an operator, and what of it has to wait for a restart.

Values that may be secret (headers, credentials, a proxy, a token) are never shown.
"""

from __future__ import annotations

import enum
import math
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from crawler.config.given import ConfigError
from crawler.config.keys import SECTIONS, SITE_KEYS
from crawler.config.model import Config, Site
from crawler.config.secrets import SECRET
from policies.pacing import Window
from policies.url import without_userinfo

GROUPS_SHOWN = 5  # of hosts, for one key
PATTERNS_SHOWN = 3  # of a list

_Place = TypeVar("_Place")
_ABSENT = object()

# What counts only after a restart: the database and the listening socket are held, and hosts are
# leased under their slots. None: the whole section.
RESTART: Mapping[str, tuple[str, ...] | None] = {
    "storage": ("url", "links", "fragments", "file_mode"),
    "daemon": None,
    "politeness": ("per",),
    "scope": ("max_queries_per_path",),
}
_SECONDS = frozenset(
    {
        "patience",
        "delay",
        "ip_delay",
        "timeout",
        "connect_timeout",
        "first_byte_timeout",
        "interval",
        "min_interval",
        "max_interval",
    }
)
_BYTES = frozenset(
    {
        "max_bytes_per_host",
        "max_url_bytes",
        "max_body",
        "max_header",
        "max_markup",
        "min_free",
        "max_size",
    }
)


def defer_restarts(new: Config, old: Config) -> tuple[Config, tuple[str, ...]]:
    """The new config, but what cannot change in a running crawl as it was; and what that is."""
    waits: list[str] = []
    given = new.given
    values = {name: dict(table) for name, table in given.values.items()}
    sites = {
        pattern: {name: dict(table) for name, table in tables.items()}
        for pattern, tables in given.sites.items()
    }
    for section, names in RESTART.items():
        for name, key in SECTIONS[section].items():
            if names is not None and name not in names:
                continue
            field = key.field or name
            had, has = _value(old, section, field), _value(new, section, field)
            if had != has:
                waits.append(f"[{section}] {name}: {_step(name, section, had, has)}")
            _put(values, section, field, old.given.values)
            if names is None:
                continue
            for pattern in sorted({*sites, *old.given.sites}):
                before = old.given.sites.get(pattern, {}).get(section, {}).get(field, _ABSENT)
                after = sites.get(pattern, {}).get(section, {}).get(field, _ABSENT)
                if before != after:
                    waits.append(f'[site."{pattern}"] {name}')
                    _put(
                        sites.setdefault(pattern, {}),
                        section,
                        field,
                        old.given.sites.get(pattern, {}),
                    )
    if new.sinks != old.sinks:
        waits.append("[[sink]]")
    if not waits:
        return new, ()
    kept = replace(
        given,
        values=values,
        sites=sites,
        sinks=old.given.sinks,
        places={**given.places, **_of(old.given.places)},
        bases={**given.bases, **_of(old.given.bases)},
    )
    return Config.of(kept), tuple(waits)


def _put(
    values: dict[str, dict[str, object]],
    section: str,
    field: str,
    old: Mapping[str, Mapping[str, object]],
) -> None:
    table = values.setdefault(section, {})
    table.pop(field, None)
    if field in old.get(section, {}):
        table[field] = old[section][field]


def _of(old: Mapping[str, _Place]) -> dict[str, _Place]:
    """The places of what is kept as it was."""
    kept = tuple(
        f"{section}.{name}"
        for section, names in RESTART.items()
        for name in ([""] if names is None else names)
    )
    return {name: place for name, place in old.items() if name.startswith((*kept, "sink"))}


# ---------------------------------------------------------------- in words


class _Change(Struct, frozen=True, kw_only=True):
    """One key that another config has otherwise; `place`: its table, as it is written."""

    place: str
    name: str
    words: str
    whole: bool  # the words say it all: a list, a secret, something of no single host


def describe_changes(old: Config, new: Config, hosts: Iterable[str] = ()) -> tuple[str, ...]:
    """What the new config changes. `hosts`: those held; what changes for them is said by their
    number, "312 hosts: delay 1 s to 4 s", and what changes for none of them by its table,
    "[politeness] delay: 1 s to 4 s"."""
    found = [*_tables(old, new)]
    said: list[str] = [f"{one.place} {one.name}: {one.words}" for one in found if one.whole]
    groups = _by_host(old, new, hosts, {one.name for one in found if not one.whole})
    said += [
        f"{one.place} {one.name}: {one.words}"
        for one in found
        if not one.whole and one.name not in groups
    ]
    for name, steps in groups.items():
        for words, count in steps.most_common(GROUPS_SHOWN):
            said.append(f"{count:,} {'host' if count == 1 else 'hosts'}: {name} {words}")
        if (more := len(steps) - GROUPS_SHOWN) > 0:
            said.append(f"{name}: {more:,} more kinds of hosts")
    return tuple(said)


def same_robots_rules(old: Config, new: Config) -> bool:
    """Would both read every robots.txt in one way?"""

    def reading(config: Config) -> tuple[object, ...]:
        sites = {name: tables.get("robots") for name, tables in config.given.sites.items()}
        return config.robots, config.token(""), {k: v for k, v in sites.items() if v}

    return reading(old) == reading(new)


def same_pacing(old: Config, new: Config) -> bool:
    """Would every host rest for as long by both?"""

    def pacing(config: Config) -> tuple[object, ...]:
        sites = {
            name: (tables.get("politeness"), tables.get("robots"))
            for name, tables in config.given.sites.items()
        }
        return config.politeness, config.robots, config.token(""), sites

    return pacing(old) == pacing(new)


def _tables(old: Config, new: Config) -> Iterable[_Change]:
    for section, keys in SECTIONS.items():
        for name, key in keys.items():
            if (section, name) == ("crawl", "seeds"):
                continue  # counted by the crawl, which knows which of them are new
            field = key.field or name
            had, has = _value(old, section, field), _value(new, section, field)
            if had != has:
                yield _change(f"[{section}]", section, name, had, has)
    for pattern in sorted({*old.given.sites, *new.given.sites}):
        before, after = old.given.sites.get(pattern, {}), new.given.sites.get(pattern, {})
        for name, section in SITE_KEYS.items():
            field = SECTIONS[section][name].field or name
            had = before.get(section, {}).get(field, _ABSENT)
            has = after.get(section, {}).get(field, _ABSENT)
            if had != has:
                yield _change(f'[site."{pattern}"]', section, name, had, has)


def _change(place: str, section: str, name: str, had: object, has: object) -> _Change:
    whole = name in SECRET or name not in SITE_KEYS or isinstance(had, tuple | Mapping)
    whole = whole or isinstance(has, tuple | Mapping)
    return _Change(place=place, name=name, words=_step(name, section, had, has), whole=whole)


def _by_host(
    old: Config, new: Config, hosts: Iterable[str], names: set[str]
) -> dict[str, Counter[str]]:
    """Key -> what changes of it -> for how many hosts."""
    keys = [(name, SITE_KEYS[name]) for name in SITE_KEYS if name in names]
    if not keys:
        return {}
    pairs: dict[tuple[int, int], tuple[Site, Site, int]] = {}
    for host in hosts:  # hosts with the same tables share one object
        had, has = old.site(host), new.site(host)
        *sites, count = pairs.get((id(had), id(has)), (had, has, 0))
        pairs[id(had), id(has)] = (sites[0], sites[1], count + 1)
    groups: dict[str, Counter[str]] = {}
    for name, section in keys:
        field = SECTIONS[section][name].field or name
        for had, has, count in pairs.values():
            one = getattr(getattr(had, section), field)
            other = getattr(getattr(has, section), field)
            if one != other:
                steps = groups.setdefault(name, Counter())
                steps[_step(name, section, one, other)] += count
    return groups


def _value(config: Config, section: str, field: str) -> object:
    return getattr(getattr(config, section), field)


def _step(name: str, section: str, had: object, has: object) -> str:
    if name in SECRET and (section, name) != ("robots", "token"):
        return "changed"
    if isinstance(had, tuple) and isinstance(has, tuple):
        if name in ("dialect", "token"):
            return f"{_list(had)} to {_list(has)}"
        return _items(name, [*map(str, had)], [*map(str, has)])
    if isinstance(had, Mapping) and isinstance(has, Mapping):
        other = sum(1 for key in had if key in has and had[key] != has[key])
        words = _items(name, [*map(str, had)], [*map(str, has)])
        return ", ".join(part for part in (words, f"{other} changed" if other else "") if part)
    return f"{_said(name, had)} to {_said(name, has)}"


def _items(name: str, had: Sequence[str], has: Sequence[str]) -> str:
    """`+1 pattern ("*.pdf"), -2 patterns`."""
    noun = "pattern" if name in ("include", "exclude", "drop_params") else "entry"
    parts = []
    for sign, some in (
        ("+", [one for one in has if one not in had]),
        ("-", [one for one in had if one not in has]),
    ):
        if some:
            nouns = noun if len(some) == 1 else f"{noun}s".replace("ys", "ies")
            shown = f" ({_list(some)})" if len(some) <= PATTERNS_SHOWN else ""
            parts.append(f"{sign}{len(some)} {nouns}{shown}")
    return ", ".join(parts) or "in another order"


def _list(items: Iterable[object]) -> str:
    return ", ".join(_said("", item) for item in items) or "none"


def _said(name: str, value: object) -> str:
    """A value as an operator would write it, with its unit."""
    match value:
        case bool():
            return "true" if value else "false"
        case enum.Enum():
            return str(value.value)
        case Window():
            return f"{_clock(value.start_s)}-{_clock(value.end_s)}"
        case int() | float():
            if value == math.inf:
                return "no limit"
            unit = " s" if name in _SECONDS else " bytes" if name in _BYTES else ""
            return f"{value:,}{unit}" if isinstance(value, int) else f"{value:g}{unit}"
        case tuple():
            return _list(value)
        case Mapping():
            return f"{len(value)} entries"
        case Path() | str():
            return f'"{without_userinfo(str(value))}"'
        case None:
            return "none"
    return "as everywhere" if value is _ABSENT else str(value)


def _clock(day_s: int) -> str:
    return f"{day_s // 3600:02}:{day_s % 3600 // 60:02}"


# ---------------------------------------------------------------- files read again


def check_rereadable(paths: Iterable[Path]) -> None:
    """Raise ConfigError for what could keep who reads it waiting: a FIFO, a terminal, a device.
    What is not there, or cannot be read, says so when it is read."""
    problems = [
        f"{path}: is not a regular file, and cannot be read again while the crawl runs"
        for path in paths
        if _may_wait(path)
    ]
    if problems:
        raise ConfigError(*problems)


def referenced_files(config: Config) -> Iterator[Path]:
    """Those that a config names: of seeds, secrets and certificates."""
    for text in config.crawl.seeds:
        if text.startswith("@"):
            yield Path(text[1:].strip())
    for sections in (config.given.values, *config.given.sites.values()):
        fetch = sections.get("fetch", {})
        sources = fetch.get("credentials")
        if isinstance(sources, Mapping):
            for source in sources.values():
                kind, _, name = str(source).partition(":")
                if kind == "file":
                    yield Path(name)
        ca_file = fetch.get("ca_file")
        if isinstance(ca_file, Path):
            yield ca_file


def _may_wait(path: Path) -> bool:
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(kind) and not stat.S_ISDIR(kind)
