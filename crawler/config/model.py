"""The config as the program uses it: its sections, and the rules of a single host."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from crawler.config.checks import contact_in
from crawler.config.given import ConfigError, ConfigSource, Given
from crawler.config.host_patterns import by_specificity, matches
from crawler.config.loading import read_values
from crawler.config.sections import (
    CrawlConfig,
    DaemonConfig,
    FetchConfig,
    NetworkConfig,
    SinkConfig,
    StorageConfig,
)
from crawler.config.user_agent import OWN_NAME, product_token, token_warnings
from crawler.version import __version__
from policies.access import RobotsRules
from policies.address import is_loopback
from policies.pacing import PacingRules, Per
from policies.revisit import Revisit, RevisitRules
from policies.scope import ScopeRules
from policies.url import host_of, slot_of

_SITES_KEPT = 65_536  # hosts whose rules are remembered; a bound on memory, not on the crawl

_Section = TypeVar("_Section")


WARC_FILE_BYTES = 1_000_000_000  # what ISO 28500, annex C, recommends


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one host. Hosts with the same tables share one object."""

    scope: ScopeRules
    politeness: PacingRules
    robots: RobotsRules
    fetch: FetchConfig
    revisit: RevisitRules
    tokens: tuple[str, ...]  # our names in its robots.txt


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything a crawl is told. Made by `load`, `from_dict` and `override`, never changed."""

    crawl: CrawlConfig
    scope: ScopeRules
    politeness: PacingRules
    robots: RobotsRules
    fetch: FetchConfig
    revisit: RevisitRules
    network: NetworkConfig
    storage: StorageConfig
    daemon: DaemonConfig
    sinks: tuple[SinkConfig, ...]
    sites: tuple[str, ...]  # the patterns, the most specific first
    warnings: tuple[str, ...]  # what is allowed, but probably not meant
    revisits: bool  # whether any page is to be visited again, of any host
    requisites: bool  # whether what any page needs to be shown is fetched, of any host
    given: Given = field(repr=False)
    _by_tables: dict[tuple[str, ...], Site] = field(default_factory=dict, repr=False, compare=False)
    _by_host: dict[str, Site] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, given: Given) -> Self:
        """The defaults, and what was given over them. Raises ConfigError."""
        crawl = _section(CrawlConfig, given, "crawl")
        seeds_base = given.bases.get("crawl.seeds", given.base)
        crawl = msgspec.structs.replace(
            crawl,
            seeds=tuple(
                f"@{seeds_base / seed[1:].strip()}" if seed.startswith("@") else seed
                for seed in crawl.seeds
            ),
        )
        storage = _section(StorageConfig, given, "storage")
        path = storage.url.partition(":")[2].removeprefix("//")
        storage = msgspec.structs.replace(
            storage, path=given.bases.get("storage.url", given.base) / path
        )
        daemon = _section(DaemonConfig, given, "daemon")
        if not daemon.token and not is_loopback(daemon.listens_on[0]):
            place = given.places.get("daemon.listen", "config")
            raise ConfigError(
                f"{place}: daemon.token: must be set when daemon.listen is not a loopback address"
            )
        robots = _section(RobotsRules, given, "robots")
        revisit = _section(RevisitRules, given, "revisit")
        network = _section(NetworkConfig, given, "network")
        return cls(
            crawl=crawl,
            scope=_section(ScopeRules, given, "scope"),
            politeness=_section(PacingRules, given, "politeness"),
            robots=robots,
            fetch=_section(FetchConfig, given, "fetch"),
            revisit=revisit,
            network=network,
            storage=storage,
            daemon=daemon,
            sinks=tuple(_sink(sink) for sink in given.sinks or ()),
            sites=tuple(by_specificity(given.sites)),
            warnings=_warnings(crawl, robots, revisit, network, given),
            revisits=_revisits(revisit, given),
            requisites=_requisites(given),
            given=given,
        )

    def override(
        self, data: Mapping[str, object], *, where: str = "options", base: Path | None = None
    ) -> Config:
        """This config with a dict in the TOML's shape over it; its paths start at `base` (default:
        the working directory). Raises ConfigError, whose places read `where`."""
        read = read_values(data, ConfigSource(where=where, base=base or Path()))
        return Config.of(read.over(self.given))

    def site(self, host: str) -> Site:
        """The rules of a host (lower case, no port). The most specific pattern wins, key by key."""
        if not self.sites:
            return self._of_tables(())
        if known := self._by_host.get(host):
            return known
        fitting = tuple(pattern for pattern in self.sites if matches(pattern, host))
        site = self._of_tables(fitting)
        if len(self._by_host) >= _SITES_KEPT:
            self._by_host.clear()
        self._by_host[host] = site
        return site

    def _of_tables(self, patterns: tuple[str, ...]) -> Site:
        site = self._by_tables.get(patterns)
        if site is None:
            site = self._by_tables[patterns] = self._site(patterns)
        return site

    def _site(self, patterns: tuple[str, ...]) -> Site:
        own: dict[str, dict[str, Any]] = {}
        for pattern in reversed(patterns):  # the most specific last: it overwrites
            for section, values in self.given.sites[pattern].items():
                own.setdefault(section, {}).update(values)
        robots = msgspec.structs.replace(self.robots, **own.get("robots", {}))
        return Site(
            scope=msgspec.structs.replace(self.scope, **own.get("scope", {})),
            politeness=msgspec.structs.replace(self.politeness, **own.get("politeness", {})),
            robots=robots,
            fetch=dataclasses.replace(self.fetch, **own.get("fetch", {})),
            revisit=msgspec.structs.replace(self.revisit, **own.get("revisit", {})),
            tokens=robots.token or (product_token(self.user_agent_sent),),
        )

    @property
    def user_agent_sent(self) -> str:
        """The User-Agent header: `courtly/VERSION` when none is configured (law 10)."""
        return self.crawl.user_agent or f"{OWN_NAME}/{__version__}"

    def slot_of(self, host: str) -> str:
        """The politeness slot of a host: itself, or its registrable domain (`politeness.per`)."""
        site = self._by_host.get(host) or self.site(host)  # several times a page
        return slot_of(host, by_domain=site.politeness.per is Per.DOMAIN)

    def token(self, host: str) -> tuple[str, ...]:
        """Our names in a host's robots.txt: `robots.token`, else the user agent's product token."""
        return self.site(host).tokens

    def robots_of(self, host: str) -> tuple[RobotsRules, tuple[str, ...]]:
        """How a host's robots.txt is read, and as whom."""
        return self.site(host).robots, self.token(host)

    @property
    def has_contact(self) -> bool:
        """Does the user agent carry a URL or an e-mail address (law 10)?"""
        return contact_in(self.crawl.user_agent)

    def leads_to_loopback(self, host: str, *, resolves: bool = True) -> bool:
        """Whether a request to `host` ends at this machine whatever DNS answers.

        Behind a proxy `[network] resolve` does not apply, nor does it where the caller resolves
        names itself (`resolves=False`): then the name alone decides.
        """
        if resolves and self.site(host).fetch.proxy is None:
            return self.network.leads_to_loopback(host)
        return is_loopback(host)


def _section(kind: type[_Section], given: Given, name: str) -> _Section:
    values: Mapping[str, Any] = given.values.get(name, {})
    return kind(**values)


def _revisits(rules: RevisitRules, given: Given) -> bool:
    tables = given.sites.values()
    modes = [table.get("revisit", {}).get("mode", Revisit.OFF) for table in tables]
    return rules.on or any(mode != Revisit.OFF for mode in modes)


def _requisites(given: Given) -> bool:
    tables = (given.values, *given.sites.values())
    return any(table.get("scope", {}).get("requisites") for table in tables)


def _sink(values: Mapping[str, Any]) -> SinkConfig:
    if values["kind"] == "warc":
        values = {"max_file_bytes": WARC_FILE_BYTES, **values}
    if values["kind"] == "mirror":
        values = {"fsync": False, **values}  # it would wait for the medium once for each page
    return SinkConfig(**values)


def _warnings(
    crawl: CrawlConfig,
    robots: RobotsRules,
    revisit: RevisitRules,
    network: NetworkConfig,
    given: Given,
) -> tuple[str, ...]:
    found: list[str] = []
    if crawl.user_agent and not robots.token:
        place = given.places.get("crawl.user_agent", "config")
        found += [
            f"{place}: crawl.user_agent: {text}"
            for text in token_warnings(product_token(crawl.user_agent))
        ]
    fetches = [("fetch", "fetch", given.values)]
    fetches += [(f"site.{name}", f'site."{name}"', table) for name, table in given.sites.items()]
    for key, shown, sections in fetches:
        sources = sections.get("fetch", {}).get("credentials", {})
        assert isinstance(sources, Mapping)
        place = given.places.get(f"{key}.credentials", "config")
        found += [
            f"{place}: {shown}.credentials: {origin} is asked without encryption: "
            "whoever carries it can read them"
            for origin in sources
            if origin.startswith("http:") and not network.leads_to_loopback(host_of(f"{origin}/"))
        ]
    least, most = revisit.min_interval_s, revisit.max_interval_s
    if least > most:
        keys = ("revisit.min_interval", "revisit.max_interval")
        place = next((given.places[key] for key in keys if key in given.places), "config")
        found.append(f"{place}: revisit.min_interval: is longer than max_interval, and counts")
    tables = {"robots.token": robots.token}
    for pattern, sections in given.sites.items():
        token = sections.get("robots", {}).get("token", ())
        tables[f"site.{pattern}.token"] = token if isinstance(token, tuple) else ()
    for key, tokens in tables.items():
        place = given.places.get(key, "config")
        shown = key if key == "robots.token" else f'site."{key[5:-6]}".token'
        found += [f"{place}: {shown}: {text}" for token in tokens for text in token_warnings(token)]
    return tuple(found)


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
