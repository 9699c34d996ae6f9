"""The config of embedded objects: the `config` argument, overridden by keyword arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from yarl import URL

from crawler.config import Config, ConfigError, from_dict, load
from crawler.config.keys import SECTIONS
from policies.pacing import Per
from policies.robots.dialect import Dialect
from storage.location import url_of

# A path to a TOML file, a dict of the same shape, or a Config.
Given = str | Path | Mapping[str, object] | Config | None
Duration = float | str  # seconds, or a string as in the config: "250ms", "2s", "1h 30m"
Size = float | str  # bytes, or a string as in the config: "500KB", "10MB"
OneOrMore = str | Sequence[str]
Dialects = str | Dialect | Sequence[str | Dialect]  # names, or constants of `policies.robots`


class CrawlOptions(TypedDict, total=False):
    """Keyword arguments of `Crawler` that stand for keys of the config."""

    user_agent: str | None
    delay: Duration | None
    allow: OneOrMore
    dialect: Dialects
    follow: str | None
    max_pages: float | None
    max_depth: float | None
    max_time_s: Duration | None
    max_bytes: Size | None
    max_errors: float | None


def settings(
    config: Given,
    *,
    user_agent: str | None = None,
    delay: Duration | None = None,
    allow: OneOrMore = (),
    dialect: Dialects = (),
    follow: str | None = None,
    max_pages: float | None = None,
    max_depth: float | None = None,
    max_time_s: Duration | None = None,
    max_bytes: Size | None = None,
    max_errors: float | None = None,
) -> Config:
    """Return the config. Arguments that are None or empty change nothing. Raises ConfigError."""
    if config is None:
        under = from_dict({})
    elif isinstance(config, Config):
        under = config
    elif isinstance(config, Mapping):
        under = from_dict(config)
    else:
        under = load(Path(config))
    given: Mapping[str, Mapping[str, object | None]] = {
        "crawl": {
            "user_agent": user_agent,
            "max_pages": max_pages,
            "max_depth": max_depth,
            "max_time": max_time_s,
            "max_bytes": max_bytes,
            "max_errors": max_errors,
        },
        "scope": {"follow": follow},
        "politeness": {"delay": delay},
        "robots": {"dialect": _listed(dialect)},
        "network": {"allow": _listed(allow)},
    }
    over = {
        section: said
        for section, keys in given.items()
        if (said := {key: value for key, value in keys.items() if value is not None})
    }
    return under.override(over, where="arguments") if over else under


def in_database(config: Config, db: str | Path | None) -> Config:
    """Return the config with `db`, a path or a URL, in place of `storage.url`. Raises
    ConfigError."""
    if db is None:
        return config
    return config.override({"storage": {"url": url_of(str(db))}}, where="db")


def check_storage(config: Config) -> None:
    """Check that a crawl in memory has no keys of `[storage]` without an effect. Raises
    ConfigError."""
    if config.names_database:
        return
    idle = ["links", "fragments", "password", "lease_s"]
    if not config.sinks:
        idle += ["min_free_bytes", "max_size_bytes"]
    given = config.given.values.get("storage", {})
    problems = [
        f"{config.given.place(f'storage.{key.field}')}: storage.{name}: has no effect without a "
        "database: pass db=, or set storage.url"
        for name, key in SECTIONS["storage"].items()
        if key.field in idle and key.field in given
    ]
    if problems:
        raise ConfigError(*problems)


def paces(config: Config) -> frozenset[Per]:
    """Every value of `politeness.per`, including those of sites."""
    tables = [config.given.sites[pattern].get("politeness", {}) for pattern in config.sites]
    return frozenset([config.politeness.per, *(Per(str(t["per"])) for t in tables if "per" in t)])


def _listed(given: Dialects) -> list[str | Dialect] | None:
    listed = [given] if isinstance(given, (str, Dialect)) else list(given)
    return listed or None


def seed_texts(given: object) -> list[str]:
    """Return seeds as strings: from one or several, strings or yarl.URLs. Raises ConfigError for
    values of other types."""
    seeds: list[object] = [given]
    if isinstance(given, Iterable) and not isinstance(given, str | URL | bytes):
        seeds = list(given)
    wrong = {type(seed).__name__ for seed in seeds if not isinstance(seed, str | URL)}
    if wrong:
        found = "a value of type {}" if wrong != {"NoneType"} else "None"
        raise ConfigError(
            *(
                f"{found.format(kind)} is not a seed: expected a string or a yarl.URL"
                for kind in sorted(wrong)
            )
        )
    return [str(seed) for seed in seeds]
