"""The config as the program uses it: its sections, and the rules of a single host."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from msgspec import Struct
from msgspec.structs import replace

from crawler.config.checks import contact_in
from crawler.config.daemon_section import DaemonConfig
from crawler.config.host_patterns import by_specificity, matches
from crawler.config.keys import SECTION_TYPES, SECTIONS, SITE_SECTIONS
from crawler.config.lines import ConfigError, ConfigSource, Given
from crawler.config.loading import read_values
from crawler.config.sections import (
    CrawlConfig,
    FetchConfig,
    NetworkConfig,
    SinkConfig,
    StorageConfig,
)
from crawler.config.user_agent import OWN_NAME, product_token, token_warnings
from crawler.config.webhook import WebhookConfig
from crawler.version import __version__
from policies.address import is_loopback
from policies.pacing import PacingRules, Per
from policies.recrawl import RecrawlMode, RecrawlRules
from policies.robots_state import RobotsRules
from policies.scope import ScopeRules
from policies.url import host_of, slot_of
from storage.location import FileLocation, parse_location

_SITES_KEPT = 65_536  # hosts whose rules are cached; bounds memory, not the crawl
# What a sink's file contains, by the suffix of its name.
_SUFFIXES: Final = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".warc": "warc",
    ".csv": "csv",
    ".parquet": "parquet",
}
WORKER = "{worker}"  # in the path of a sink: the number of the worker that writes it
WARC_FILE_BYTES = 1_000_000_000  # recommended by ISO 28500, annex C


class Site(Struct, frozen=True, kw_only=True):
    """The rules of one host. Hosts covered by the same tables share one object."""

    scope: ScopeRules
    politeness: PacingRules
    robots: RobotsRules
    fetch: FetchConfig
    revisit: RecrawlRules
    tokens: tuple[str, ...]  # the crawler's names in its robots.txt


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The config of a crawl. Made by `load`, `from_dict` and `override`, and never changed."""

    crawl: CrawlConfig
    scope: ScopeRules
    politeness: PacingRules
    robots: RobotsRules
    fetch: FetchConfig
    revisit: RecrawlRules
    network: NetworkConfig
    storage: StorageConfig
    daemon: DaemonConfig
    webhook: WebhookConfig
    sinks: tuple[SinkConfig, ...]
    sites: tuple[str, ...]  # host patterns, the most specific first
    revisits: bool  # whether pages of any host are revisited
    requisites: bool  # whether page requisites are fetched for any host
    checks_external: bool  # whether external links are checked on any host
    given: Given = field(repr=False)
    _by_tables: dict[tuple[str, ...], Site] = field(default_factory=dict, repr=False, compare=False)
    _by_host: dict[str, Site] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, given: Given) -> Self:
        """Return the given values over the defaults. Raises ConfigError."""
        made: dict[str, Any] = {
            name: section(**given.values.get(name, {})) for name, section in SECTION_TYPES.items()
        }
        made["storage"] = _located(made["storage"], given.database_base)
        config = cls(
            **made,
            sinks=tuple(_sink(sink, given.worker) for sink in given.sinks or ()),
            sites=tuple(by_specificity(given.sites)),
            revisits=any(mode != RecrawlMode.OFF for _, mode in given.all_of("revisit", "mode")),
            requisites=any(value for _, value in given.all_of("scope", "requisites")),
            checks_external=any(value for _, value in given.all_of("scope", "check_external")),
            given=given,
        )
        if problems := [*_misnamed(config)]:
            raise ConfigError(*problems)
        section = config.daemon
        if section.tls_certificate is None and section.tls_key is not None:
            raise ConfigError(
                f"{given.place('daemon.tls_key')}: daemon.tls_key: needs daemon.tls_certificate"
            )
        if section.tls_certificate is not None and section.unix_path is not None:
            raise ConfigError(
                f"{given.place('daemon.tls_certificate')}: daemon.tls_certificate: a Unix socket "
                "(daemon.listen) has no TLS; its permissions protect it"
            )
        in_file = isinstance(config.storage.location, FileLocation)
        if not section.has_token and not in_file and section.is_beyond_loopback:
            raise ConfigError(
                f"{given.place('daemon.listen')}: daemon.token: must be set when daemon.listen "
                "is not a loopback address and the database is on a server"
            )
        return config

    def override(
        self, data: Mapping[str, object], *, where: str = "options", base: Path | None = None
    ) -> Config:
        """Return this config with a dict in the TOML's shape over it.

        where: the name of the source in messages. base: the directory where relative paths start;
        default: the working directory. Raises ConfigError.
        """
        read = read_values(data, ConfigSource(where=where, base=base or Path()))
        return Config.of(read.over(self.given))

    @property
    def daemon_name(self) -> str:
        """What tells this daemon from others."""
        return self.daemon.name or self.storage.location.stem

    @property
    def names_database(self) -> bool:
        """Whether `storage.url` is given, rather than its default."""
        return "url" in self.given.values.get("storage", {})

    def without_database(self) -> Config:
        """Return this config without `storage.url`, for a client beside the crawl of the config."""
        storage = {**self.given.values.get("storage", {})}
        storage.pop("url", None)
        values = {**self.given.values, "storage": storage}
        return Config.of(replace(self.given, values=values))

    def of_worker(self, number: int, workers: int) -> Config:
        """Return the config of one of several worker processes, numbered from 1: with its own paths
        of sinks, and its share of the run's pages, bytes and errors. Raises ConfigError."""
        if workers > 1:
            self._check_sinks()
        config = Config.of(replace(self.given, worker=number))
        limits = {
            name: limit
            for name in ("max_pages", "max_bytes", "max_errors")
            if (limit := getattr(self.crawl, name)) < math.inf
        }
        if workers == 1 or not limits:
            return config
        shares = {}
        for name, limit in limits.items():
            share, more = divmod(int(limit), workers)
            shares[name] = max(share + (number <= more), int(name != "max_pages"))
        return config.override({"crawl": shares}, where="--workers")

    def _check_sinks(self) -> None:
        """Raise ConfigError if several processes would write to one sink."""
        problems = []
        for index, sink in enumerate(self.given.sinks or ()):
            place = self.given.place(f"sink.{index}")
            if sink["kind"] == "mirror":
                problems.append(f"{place}: sink: a mirror needs a crawl with one worker")
            elif WORKER not in str(sink["path"]):
                problems.append(
                    f"{place}: sink.path: each worker needs a file of its own: put {WORKER} into "
                    "the path, which stands for its number"
                )
        if problems:
            raise ConfigError(*problems)

    def site(self, host: str) -> Site:
        """Return the rules of a host (lower case, no port). For each key, the most specific pattern
        wins."""
        site = self._by_host.get(host)
        if site is None:
            if len(self._by_host) >= _SITES_KEPT:
                self._by_host.clear()
            patterns = tuple(pattern for pattern in self.sites if matches(pattern, host))
            site = self._by_host[host] = self._site(patterns)
        return site

    def _site(self, patterns: tuple[str, ...]) -> Site:
        if site := self._by_tables.get(patterns):
            return site
        own: dict[str, dict[str, Any]] = {name: {} for name in SITE_SECTIONS}
        for pattern in reversed(patterns):  # the most specific last: it overwrites the others
            for section, values in self.given.sites[pattern].items():
                own[section].update(values)
        made: dict[str, Any] = {
            name: replace(getattr(self, name), **values) for name, values in own.items()
        }
        tokens = made["robots"].token or (product_token(self.user_agent_sent),)
        site = self._by_tables[patterns] = Site(**made, tokens=tokens)
        return site

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed, but probably not intended."""
        return tuple(_warnings(self))

    @property
    def user_agent_sent(self) -> str:
        """The User-Agent header; `courtly/VERSION` if none is configured."""
        return self.crawl.user_agent or f"{OWN_NAME}/{__version__}"

    def slot_of(self, host: str) -> str:
        """Return the slot of a host: itself or its registrable domain, by `politeness.per`."""
        site = self._by_host.get(host) or self.site(host)  # several times a page
        return slot_of(host, by_domain=site.politeness.per is Per.DOMAIN)

    def token(self, host: str) -> tuple[str, ...]:
        """Return the crawler's names in a host's robots.txt: `robots.token`, or the product token
        of the user agent."""
        return self.site(host).tokens

    def robots_of(self, host: str) -> tuple[RobotsRules, tuple[str, ...]]:
        """Return how a host's robots.txt is read, and the crawler's names in it."""
        return self.site(host).robots, self.token(host)

    @property
    def has_contact(self) -> bool:
        """Whether the user agent contains a URL or an e-mail address."""
        return contact_in(self.crawl.user_agent)

    def leads_to_loopback(self, host: str, *, resolves: bool = True) -> bool:
        """Return whether a request to `host` ends at this machine whatever DNS answers.

        Only the name decides behind a proxy, and for callers that resolve names themselves
        (`resolves=False`): `[network] resolve` does not apply to them.
        """
        if resolves and self.site(host).fetch.proxy is None:
            return self.network.leads_to_loopback(host)
        return is_loopback(host)


def _located(storage: StorageConfig, base: Path) -> StorageConfig:
    """Return the section with its location. base: the directory where a relative path starts."""
    location = parse_location(storage.url)
    if isinstance(location, FileLocation):
        return replace(storage, location=FileLocation(base / location.path))
    return replace(storage, location=replace(location, password=storage.password))


def _sink(values: Mapping[str, Any], worker: int) -> SinkConfig:
    values = {**values, "path": Path(str(values["path"]).replace(WORKER, str(worker)))}
    if values["kind"] == "warc":
        values = {"max_file_bytes": WARC_FILE_BYTES, **values}
    if values["kind"] == "mirror":
        values = {"fsync": False, **values}  # it would flush to disk once for every page
    return SinkConfig(**values)


def _misnamed(config: Config) -> Iterator[str]:
    """A sentence for each sink whose file would not contain what its name says."""
    for index, sink in enumerate(config.sinks):
        place = config.given.place(f"sink.{index}")
        name = sink.path.name.lower()
        meant = _SUFFIXES.get(Path(name.removesuffix(".gz")).suffix)
        if sink.kind != "mirror" and meant not in (None, sink.kind):
            known = f'set kind = "{meant}"' if meant in ("jsonl", "warc") else "no sink writes that"
            yield (
                f'{place}: sink.path: "{sink.path.name}" is named like {meant}, and the kind is '
                f"{sink.kind}: {known}, or choose another name"
            )
        if name.endswith(".gz") and sink.gzip is False:
            yield f'{place}: sink.path: ends in ".gz", and gzip is false: choose another name'


def _warnings(config: Config) -> Iterator[str]:
    given = config.given
    if config.crawl.user_agent and not config.robots.token:
        for text in token_warnings(product_token(config.crawl.user_agent)):
            yield f"{given.place('crawl.user_agent')}: crawl.user_agent: {text}"
    for place, sources in given.all_of("fetch", "credentials"):
        for origin in sources:
            host = host_of(f"{origin}/")
            if origin.startswith("http:") and not config.network.leads_to_loopback(host):
                yield (
                    f"{place}: sent to {origin} without encryption: anyone on the network path can "
                    "read them"
                )
    if config.revisit.min_interval_s > config.revisit.max_interval_s:
        keys = ("revisit.min_interval_s", "revisit.max_interval_s")
        place = next((given.places[key] for key in keys if key in given.places), "config")
        yield (
            f"{place}: revisit.min_interval: is longer than max_interval, which therefore has no "
            "effect"
        )
    if config.checks_external and not config.has_contact:
        yield (
            f"{given.place('scope.check_external')}: scope.check_external: links to other machines "
            "fail, because crawl.user_agent contains no contact"
        )
    yield from _storage_warnings(config)
    for place, tokens in given.all_of("robots", "token"):
        for token in tokens:
            yield from (f"{place}: {text}" for text in token_warnings(token))


def _storage_warnings(config: Config) -> Iterator[str]:
    """What has no effect with the database of the config."""
    given = config.given.values.get("storage", {})
    if isinstance(config.storage.location, FileLocation):
        idle, why = ("password", "lease_s"), "has no effect with SQLite"
    elif config.sinks:
        return
    else:
        idle = ("min_free_bytes", "max_size_bytes")
        why = "has no effect with PostgreSQL and without sinks: limit the disk of the server there"
    for name, key in SECTIONS["storage"].items():
        if key.field in idle and key.field in given:
            yield f"{config.given.place(f'storage.{key.field}')}: storage.{name}: {why}"


class CurrentConfig:
    """The config in force, shared by everything that decides by it.

    A `Config` never changes. Reloading replaces `config` between two steps of the event loop, so
    a caller that reads it anew each time always uses one whole config, the newest.
    """

    __slots__ = ("config",)

    def __init__(self, config: Config) -> None:
        self.config = config

    def slot_of(self, host: str) -> str:
        return self.config.slot_of(host)

    def robots_of(self, host: str) -> tuple[RobotsRules, tuple[str, ...]]:
        return self.config.robots_of(host)

    def scope_of(self, host: str) -> ScopeRules:
        return self.config.site(host).scope
