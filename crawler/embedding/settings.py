"""The config of embedded objects: the `config` argument, overridden by keyword arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack

from yarl import URL

from crawler.clock import Clock
from crawler.config import Config, ConfigError, from_dict, load
from crawler.config.keys import SECTIONS
from crawler.embedding.log_observer import observer_of
from crawler.fetching.request import Fetcher
from crawler.observer import Observer
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


# The keys of the config that these keyword arguments stand for.
KEYS: Final[Mapping[str, tuple[str, str]]] = {
    "user_agent": ("crawl", "user_agent"),
    "max_pages": ("crawl", "max_pages"),
    "max_depth": ("crawl", "max_depth"),
    "max_time_s": ("crawl", "max_time"),
    "max_bytes": ("crawl", "max_bytes"),
    "max_errors": ("crawl", "max_errors"),
    "follow": ("scope", "follow"),
    "delay": ("politeness", "delay"),
    "dialect": ("robots", "dialect"),
    "allow": ("network", "allow"),
}
_LISTS: Final = frozenset({"dialect", "allow"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The arguments that a crawl or a session of a program is opened with. config: without `db`.
    db: instead of `storage.url`. clock, fetcher: None for the real ones."""

    config: Config
    observer: Observer
    db: str | Path | None = None
    clock: Clock | None = None
    fetcher: Fetcher | None = None


def setup_of(
    *,
    config: Given = None,
    db: str | Path | None = None,
    observer: Observer | None = None,
    clock: Clock | None = None,
    fetcher: Fetcher | None = None,
    **options: Unpack[CrawlOptions],
) -> Setup:
    """Check the arguments of `Crawler`, `PoliteSession` and `Politeness`. Raises ConfigError."""
    return Setup(
        config=settings(config, **options),
        observer=observer_of(observer),
        db=db,
        clock=clock,
        fetcher=fetcher,
    )


def settings(config: Given, **options: Unpack[CrawlOptions]) -> Config:
    """Return the config. Arguments that are None or empty change nothing. Raises ConfigError."""
    if unknown := options.keys() - KEYS.keys():
        raise TypeError(f"got an unexpected keyword argument {min(unknown)!r}")
    if config is None:
        under = from_dict({})
    elif isinstance(config, Config):
        under = config
    elif isinstance(config, Mapping):
        under = from_dict(config)
    else:
        under = load(Path(config))
    given: Mapping[str, Any] = options
    over: dict[str, dict[str, object]] = {}
    for name, (section, key) in KEYS.items():
        value = _listed(given.get(name, ())) if name in _LISTS else given.get(name)
        if value is not None:
            over.setdefault(section, {})[key] = value
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
