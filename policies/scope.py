"""Scope: whether a URL belongs to the crawl, or the reason why not.

Limits that depend on the whole crawl are not checked here: the store counts queries per path, and
the engine counts pages.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Final

from msgspec import Struct

from policies.config_key import Key, media_type, query_parameter, site_path, url_pattern
from policies.globs import Globs, globs
from policies.url import host_of, registrable_domain, without_root_dot


class Follow(enum.StrEnum):
    """How far from the seeds' hosts links are followed; scheme and port are ignored."""

    HOST = "host"
    DOMAIN = "domain"
    ANY = "any"


class ScopeRules(Struct, frozen=True, kw_only=True):
    """The `[scope]` section. `math.inf` means no limit."""

    follow: Annotated[
        Follow,
        Key("links to follow, relative to seeds and their redirect targets; scheme is ignored"),
    ] = Follow.HOST
    include: Annotated[
        tuple[str, ...],
        Key(
            'glob patterns matched against whole URLs: ["*/docs/*"]; empty: all', parse=url_pattern
        ),
    ] = ()
    exclude: Annotated[
        tuple[str, ...], Key("glob patterns for URLs to exclude", parse=url_pattern)
    ] = ()
    content_types: Annotated[
        tuple[str, ...],
        Key('media types: ["text/html", "application/pdf"]; empty: all', parse=media_type),
    ] = ()
    drop_params: Annotated[
        tuple[str, ...],
        Key('query parameters to drop: ["utm_*", "PHPSESSID"]', parse=query_parameter),
    ] = ()
    max_pages_per_host: Annotated[float, Key("pages visited at one host", "count")] = math.inf
    max_bytes_per_host: Annotated[
        float,
        Key(
            "bytes of the decoded bodies of a host's visited pages, across all runs",
            "bytes",
            minimum=1,
        ),
    ] = math.inf
    max_url_bytes: Annotated[
        int, Key("longer URLs are skipped", "bytes", name="max_url_bytes", minimum=1)
    ] = 2048
    max_path_segments: Annotated[int, Key("deeper paths are skipped", minimum=1)] = 20
    max_repeated_segment: Annotated[int, Key("maximum repeats of one path segment", minimum=1)] = 3
    max_queries_per_path: Annotated[int, Key("different query strings per path", restart=True)] = (
        1000
    )
    sitemaps: Annotated[
        bool, Key("read the sitemaps named in robots.txt, and seeds that are sitemaps or feeds")
    ] = True
    sitemap_paths: Annotated[
        tuple[str, ...],
        Key("where to look for a sitemap if robots.txt names none", parse=site_path),
    ] = ("/sitemap.xml",)
    requisites: Annotated[
        bool, Key("fetch the images, styles, scripts, fonts and media of pages, on any host")
    ] = False
    check_external: Annotated[
        bool, Key("request links out of scope once, to check them, without following them")
    ] = False

    @property
    def bounds_hosts(self) -> bool:
        """Whether a host has a limit on its pages or on their bytes."""
        return self.max_pages_per_host < math.inf or self.max_bytes_per_host < math.inf

    def host_limit(self, pages: int, body_bytes: int) -> Skip | None:
        """The limit that a host with these visited pages and body bytes has reached, or None."""
        if pages >= self.max_pages_per_host:
            return Skip.MAX_PAGES_PER_HOST
        return Skip.MAX_BYTES_PER_HOST if body_bytes >= self.max_bytes_per_host else None


HOPS_MAX: Final = 100  # the maximum of the setting for redirects in a row


class Skip(enum.StrEnum):
    """The reason why a URL was skipped; for a limit the name of its config key."""

    SCHEME = "scheme"
    UNPARSABLE = "unparsable"
    OUTSIDE = "outside-scope"
    NOT_INCLUDED = "not-included"
    EXCLUDED = "excluded"
    NOFOLLOW = "nofollow"
    LINKS = "links"
    CONTENT_TYPE = "content_type"
    MAX_DEPTH = "max_depth"
    MAX_PAGES = "max_pages"
    MAX_TIME = "max_time"
    MAX_BYTES = "max_bytes"
    MAX_ERRORS = "max_errors"
    MAX_PAGES_PER_HOST = "max_pages_per_host"
    MAX_BYTES_PER_HOST = "max_bytes_per_host"
    MAX_URL_BYTES = "max_url_bytes"
    MAX_PATH_SEGMENTS = "max_path_segments"
    MAX_REPEATED_SEGMENT = "max_repeated_segment"
    MAX_QUERIES_PER_PATH = "max_queries_per_path"
    MAX_LINKS = "max_links"
    MAX_MARKUP = "max_markup"
    MANY_METAS = "too-many-metas"
    MANY_TITLES = "too-many-titles"
    MANY_FRAGMENTS = "too-many-fragments"
    MANY_REQUISITES = "too-many-requisites"
    LONG_HEADER = "header-too-long"
    TANGLED = "tangled"
    ROBOTS_TXT = "robots.txt"
    DROPPED = "dropped"  # a failed URL, by an operator
    SITEMAPS = "sitemaps"
    MANY_SITEMAPS = "too-many-sitemaps"


# Reasons for skipping parts of a page, which its row in the view `visited` lists.
CUTS: Final = frozenset(
    {
        Skip.MAX_LINKS,
        Skip.MAX_MARKUP,
        Skip.MAX_URL_BYTES,
        Skip.MANY_METAS,
        Skip.MANY_TITLES,
        Skip.MANY_FRAGMENTS,
        Skip.MANY_REQUISITES,
        Skip.LONG_HEADER,
        Skip.TANGLED,
    }
)

# Reason → config key. Reasons without a key depend on the page alone, or on constants
# (docs/limits.md).
SKIP_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        Skip.OUTSIDE: "scope.follow",
        Skip.NOT_INCLUDED: "scope.include",
        Skip.EXCLUDED: "scope.exclude",
        Skip.CONTENT_TYPE: "scope.content_types",
        Skip.MAX_DEPTH: "crawl.max_depth",
        Skip.MAX_PAGES: "crawl.max_pages",
        Skip.MAX_TIME: "crawl.max_time",
        Skip.MAX_BYTES: "crawl.max_bytes",
        Skip.MAX_ERRORS: "crawl.max_errors",
        Skip.MAX_PAGES_PER_HOST: "scope.max_pages_per_host",
        Skip.MAX_BYTES_PER_HOST: "scope.max_bytes_per_host",
        Skip.MAX_URL_BYTES: "scope.max_url_bytes",
        Skip.MAX_PATH_SEGMENTS: "scope.max_path_segments",
        Skip.MAX_REPEATED_SEGMENT: "scope.max_repeated_segment",
        Skip.MAX_QUERIES_PER_PATH: "scope.max_queries_per_path",
        Skip.SITEMAPS: "scope.sitemaps",
        Skip.MAX_MARKUP: "fetch.max_markup",
    }
)

SKIP_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        Skip.SCHEME: "not an http or https URL",
        Skip.UNPARSABLE: "not a URL that can be parsed",
        Skip.OUTSIDE: "on a host outside the scope of the seeds",
        Skip.NOT_INCLUDED: "matched by no include pattern",
        Skip.EXCLUDED: "matched by an exclude pattern",
        Skip.NOFOLLOW: "the page forbids following the link",
        Skip.LINKS: "left out by the argument links of a Crawler",
        Skip.CONTENT_TYPE: "its content type is excluded",
        Skip.MAX_DEPTH: "too many links away from a seed",
        Skip.MAX_PAGES: "the crawl has visited its maximum number of pages",
        Skip.MAX_TIME: "the crawl has run for its maximum time",
        Skip.MAX_BYTES: "the crawl has fetched its maximum number of bytes",
        Skip.MAX_ERRORS: "the crawl has had its maximum number of errors",
        Skip.MAX_PAGES_PER_HOST: "its host has reached the maximum number of pages",
        Skip.MAX_BYTES_PER_HOST: "its host has reached the maximum number of bytes",
        Skip.MAX_URL_BYTES: "the URL is too long",
        Skip.MAX_PATH_SEGMENTS: "the path has too many segments",
        Skip.MAX_REPEATED_SEGMENT: "one path segment is repeated too often, as in a crawler trap",
        Skip.MAX_QUERIES_PER_PATH: "its path has too many different queries",
        Skip.ROBOTS_TXT: "a robots.txt file, which is not a page",
        Skip.DROPPED: "it had failed, and an operator dropped it",
        Skip.SITEMAPS: "a sitemap, while sitemaps are disabled",
        Skip.MANY_SITEMAPS: "the host has too many sitemaps, or they are nested too deeply",
        Skip.MAX_LINKS: "more links than are read from one page",
        Skip.MAX_MARKUP: "the end of a page with too much markup",
        Skip.MANY_METAS: "more meta elements than are read from one page",
        Skip.MANY_TITLES: "a page title that follows too many SVG titles",
        Skip.LONG_HEADER: "the end of a header or meta element that is too long",
        Skip.MANY_FRAGMENTS: "too many fragments or ids, or some that are too long",
        Skip.MANY_REQUISITES: "page requisites that are too many, too deeply nested, or past the "
        "part that was read",
        Skip.TANGLED: "the structure of a page, nested too deeply to be parsed into a tree",
    }
)


class _HostScope(Struct, frozen=True):
    """The part of the decision that is the same for all URLs of a host."""

    outside: bool
    include: Globs | None
    exclude: Globs | None
    drop_params: Globs | None
    types: Globs | None
    rules: ScopeRules


class Scope:
    """Judges URLs by the rules of their host and by the roots: the seeds and the targets of their
    redirects.

    rules_for: returns a host's rules, always the same ones until `judge_by` (a changed config).

    Decisions depend on the roots known so far, so add all of them before judging.
    """

    # Hosts in the cache, which is cleared when it is full.
    _HOSTS_KEPT = 50_000

    def __init__(
        self, rules_for: Callable[[str], ScopeRules], *, max_depth: float = math.inf
    ) -> None:
        self._rules_for = rules_for
        self._max_depth = max_depth
        self._root_hosts: set[str] = set()
        self._root_domains: set[str] = set()
        self._leads: set[str] = set()  # no more than seeds that redirect to external links
        self._hosts: dict[str, _HostScope] = {}

    def judge_by(self, rules_for: Callable[[str], ScopeRules], *, max_depth: float) -> None:
        """Use these rules from now on, with the same roots."""
        self._rules_for = rules_for
        self._max_depth = max_depth
        self._hosts.clear()

    def add_root(self, url: str) -> bool:
        """Add the host of a canonical URL, a seed or the final target of its redirects, to the
        scope. Returns whether that host is new."""
        host = without_root_dot(host_of(url))
        if host in self._root_hosts:
            return False
        self._root_hosts.add(host)
        self._root_domains.add(registrable_domain(host))
        self._hosts.clear()
        return True

    def admit(self, url: str, *, host: str | None = None) -> str:
        """The canonical URL without the query parameters in `drop_params` of its host.

        The other parameters keep their order, and an empty query is removed. Names are compared as
        they are in the canonical URL, with the glob patterns of `include`.
        """
        if "?" not in url:
            return url
        drop = self._host(host_of(url) if host is None else host).drop_params
        if drop is None:
            return url
        path, _, query = url.partition("?")
        params = query.split("&")
        kept = [param for param in params if not drop.match(param.partition("=")[0])]
        if len(kept) == len(params):
            return url
        query = "&".join(kept)
        return f"{path}?{query}" if query else path

    def judge(
        self,
        url: str,
        *,
        host: str,
        depth: int,
        seed: bool = False,
        requisite: bool = False,
        lead: bool = False,
        link: bool = False,
    ) -> Skip | None:
        """Return None if a canonical URL is in scope, otherwise the reason why not.

        host: that of the URL. depth: its links from a seed.
        seed: it was given by the user, so that include patterns, which select links, do not apply.
        requisite: it is needed to display a page, so that they do not apply either, and it may be
          on any host.
        lead: a seed redirects to it, so that it may be on any host. The scope is extended only by
          the final target.
        link: a page links or redirects to it, so that it may be external (`check_external`).
          Neither include patterns nor the depth limit apply to external links.
        """
        known = self._hosts.get(host) or self._host(host)
        external = known.outside and not (requisite or lead)
        if external and not (link and known.rules.check_external):
            return Skip.OUTSIDE
        if depth > self._max_depth and not external:
            return Skip.MAX_DEPTH
        if url.endswith("/robots.txt") and url.count("/") == 3:
            return Skip.ROBOTS_TXT
        rules = known.rules
        if len(url) > rules.max_url_bytes:  # canonical URLs are ASCII
            return Skip.MAX_URL_BYTES
        if known.exclude is not None and known.exclude.match(url):
            return Skip.EXCLUDED
        chosen = seed or requisite or external
        if known.include is not None and not chosen and not known.include.match(url):
            return Skip.NOT_INCLUDED
        slashes = url.count("/", 8)  # no fewer than segments, and far cheaper
        if slashes > rules.max_repeated_segment or slashes > rules.max_path_segments:
            return _judge_path(url, rules)
        return None

    def add_lead(self, url: str) -> None:
        """Note that a seed redirects to a URL, which may be queued as an external link."""
        if self.is_external(url, host_of(url)):
            self._leads.add(url)

    def is_lead(self, url: str) -> bool:
        """Return whether a seed redirects to a URL that was external."""
        return url in self._leads

    def is_external(self, url: str, host: str) -> bool:
        """Return whether a URL, no seed, is out of scope, and links to its host are checked."""
        known = self._hosts.get(host) or self._host(host)
        return known.outside and known.rules.check_external and url not in self._leads

    def wants_type(self, content_type: str | None, *, host: str) -> bool:
        """Return whether `content_types` of the host include a type; parameters are ignored.

        A missing type counts as `application/octet-stream` (RFC 9110, 8.3).
        """
        wanted = (self._hosts.get(host) or self._host(host)).types
        if wanted is None:
            return True
        declared = (content_type or "").partition(";")[0].strip().lower()
        return wanted.match(declared or "application/octet-stream")

    def _host(self, host: str) -> _HostScope:
        known = self._hosts.get(host)
        if known is None:
            rules = self._rules_for(host)
            known = _HostScope(
                outside=not self._follows(host, rules.follow),
                include=globs(rules.include),
                exclude=globs(rules.exclude),
                drop_params=globs(rules.drop_params),
                types=globs(tuple(map(str.lower, rules.content_types))),
                rules=rules,
            )
            if len(self._hosts) >= self._HOSTS_KEPT:
                self._hosts.clear()
            self._hosts[host] = known
        return known

    def _follows(self, host: str, follow: Follow) -> bool:
        if follow is Follow.ANY or without_root_dot(host) in self._root_hosts:
            return True
        return follow is Follow.DOMAIN and registrable_domain(host) in self._root_domains


def _judge_path(url: str, rules: ScopeRules) -> Skip | None:
    """The limits against crawler traps. Empty segments count, except after the last slash."""
    segments = url[url.index("/", 8) + 1 :].partition("?")[0].split("/")
    if not segments[-1]:
        segments.pop()
    if len(segments) > rules.max_path_segments:
        return Skip.MAX_PATH_SEGMENTS
    # Counting is needed only if there are enough duplicates.
    if (
        len(segments) - len(set(segments)) >= rules.max_repeated_segment
        and max(Counter(segments).values()) > rules.max_repeated_segment
    ):
        return Skip.MAX_REPEATED_SEGMENT
    return None
