"""Is this URL ours? In, or out for a reason that can be counted and shown.

What needs memory of the whole crawl is not here: the store counts queries per path, the engine
counts pages.
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
from policies.url import host_of, registrable_domain


class Follow(enum.StrEnum):
    """How far from the seeds' hosts links are followed; scheme and port are ignored."""

    HOST = "host"
    DOMAIN = "domain"
    ANY = "any"


class ScopeRules(Struct, frozen=True, kw_only=True):
    """The `[scope]` section. A limit may be `math.inf`: none."""

    follow: Annotated[
        Follow,
        Key("links to follow, relative to seeds and their redirect targets; scheme is ignored"),
    ] = Follow.HOST
    include: Annotated[
        tuple[str, ...],
        Key('glob patterns on whole URLs: ["*/docs/*"]; empty: all', parse=url_pattern),
    ] = ()
    exclude: Annotated[
        tuple[str, ...], Key("glob patterns on URLs to leave out", parse=url_pattern)
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
        int, Key("longer URLs are left out", "bytes", name="max_url_bytes", minimum=1)
    ] = 2048
    max_path_segments: Annotated[int, Key("deeper paths are left out", minimum=1)] = 20
    max_repeated_segment: Annotated[int, Key("maximum repeats of one path segment", minimum=1)] = 3
    max_queries_per_path: Annotated[int, Key("different queries of one path", restart=True)] = 1000
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

    @property
    def bounds_hosts(self) -> bool:
        """Whether a host has a limit on its pages or on their bytes."""
        return self.max_pages_per_host < math.inf or self.max_bytes_per_host < math.inf

    def host_limit(self, pages: int, body_bytes: int) -> Skip | None:
        """The limit that a host has reached with these visited pages and the bytes of their bodies;
        None if it may have more."""
        if pages >= self.max_pages_per_host:
            return Skip.MAX_PAGES_PER_HOST
        return Skip.MAX_BYTES_PER_HOST if body_bytes >= self.max_bytes_per_host else None


HOPS_MAX: Final = 100  # redirects in a row that may be followed at all


class Skip(enum.StrEnum):
    """Why a URL was left out; a limit's reason is its key, so that a summary can name it."""

    SCHEME = "scheme"
    UNPARSABLE = "unparsable"
    OUTSIDE = "outside-scope"
    NOT_INCLUDED = "not-included"
    EXCLUDED = "excluded"
    NOFOLLOW = "nofollow"
    CONTENT_TYPE = "content_type"
    MAX_DEPTH = "max_depth"
    MAX_PAGES = "max_pages"
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
    SITEMAPS = "sitemaps"
    MANY_SITEMAPS = "too-many-sitemaps"


# Of these, parts of a page were left out; its row in the view `visited` says so.
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

# Reason -> the config key that decides it. Those without one are the page's doing, or constants
# (docs/limits.md).
SKIP_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        Skip.OUTSIDE: "scope.follow",
        Skip.NOT_INCLUDED: "scope.include",
        Skip.EXCLUDED: "scope.exclude",
        Skip.CONTENT_TYPE: "scope.content_types",
        Skip.MAX_DEPTH: "crawl.max_depth",
        Skip.MAX_PAGES: "crawl.max_pages",
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
        Skip.OUTSIDE: "on a host that the seeds do not lead to",
        Skip.NOT_INCLUDED: "matched by no include pattern",
        Skip.EXCLUDED: "matched by an exclude pattern",
        Skip.NOFOLLOW: "the page asks not to follow the link",
        Skip.CONTENT_TYPE: "of a content type that is not wanted",
        Skip.MAX_DEPTH: "too many links away from a seed",
        Skip.MAX_PAGES: "the crawl has visited its number of pages",
        Skip.MAX_PAGES_PER_HOST: "its host has had its number of pages",
        Skip.MAX_BYTES_PER_HOST: "the pages of its host have had their number of bytes",
        Skip.MAX_URL_BYTES: "the URL is too long",
        Skip.MAX_PATH_SEGMENTS: "the path has too many segments",
        Skip.MAX_REPEATED_SEGMENT: "a segment recurs in the path as in a trap",
        Skip.MAX_QUERIES_PER_PATH: "its path has too many different queries",
        Skip.ROBOTS_TXT: "a robots.txt, which is read for its rules and is no page",
        Skip.SITEMAPS: "a sitemap, where none are read",
        Skip.MANY_SITEMAPS: "beyond the number and nesting of sitemaps read for one host",
        Skip.MAX_LINKS: "beyond the number of links taken from one page",
        Skip.MAX_MARKUP: "the end of a page with more markup than is read",
        Skip.MANY_METAS: "beyond the number of meta elements read of one page",
        Skip.MANY_TITLES: "the title of a page behind too many titles of drawings",
        Skip.LONG_HEADER: "the end of a header or meta element that is too long",
        Skip.MANY_FRAGMENTS: "fragments or ids of a page beyond their number or length",
        Skip.MANY_REQUISITES: "requisites beyond their number, their nesting or the part read",
        Skip.TANGLED: "the structure of a page nested too deep to build a tree of",
    }
)


class _HostScope(Struct, frozen=True):
    """What is the same for all URLs of a host, worked out once."""

    outside: bool
    include: Globs | None
    exclude: Globs | None
    drop_params: Globs | None
    types: Globs | None
    rules: ScopeRules


class Scope:
    """Judges URLs by the rules of their host and by the roots: the seeds, and where their redirects
    end.

    `rules_for(host)` gives a host's rules and must keep to its answer, until `judge_by` names other
    rules (a changed config). Every answer depends on the roots known so far, so add all
    of them before judging.
    """

    # So many hosts are remembered before starting over: a bound on memory, not on the crawl.
    _HOSTS_KEPT = 50_000

    def __init__(
        self, rules_for: Callable[[str], ScopeRules], *, max_depth: float = math.inf
    ) -> None:
        self._rules_for = rules_for
        self._max_depth = max_depth
        self._root_hosts: set[str] = set()
        self._root_domains: set[str] = set()
        self._hosts: dict[str, _HostScope] = {}

    def judge_by(self, rules_for: Callable[[str], ScopeRules], *, max_depth: float) -> None:
        """From now on by these rules, around the same roots."""
        self._rules_for = rules_for
        self._max_depth = max_depth
        self._hosts.clear()

    def add_root(self, url: str) -> bool:
        """Widen the scope to the host of a canonical URL: a seed, or where its redirects end. True
        if that host is new."""
        host = host_of(url)
        if host in self._root_hosts:
            return False
        self._root_hosts.add(host)
        self._root_domains.add(registrable_domain(host))
        self._hosts.clear()
        return True

    def admit(self, url: str, *, host: str | None = None) -> str:
        """The canonical URL without the query parameters that `drop_params` names for its host.

        The order of the others is kept; a query that becomes empty goes. Names are compared as
        they stand in the canonical URL, patterns such as `utm_*` as in `include`.
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
    ) -> Skip | None:
        """None if the canonical URL of this host, so many links from a seed, is ours; else why not.

        A `seed` was asked for by name: include patterns, which choose among links, do not apply.
        Nor do they to a `requisite`, without which a page of ours cannot be shown; it may be on
        any host. So may a `lead`, a URL that a seed redirects to: scope widens only where the
        redirects end.
        """
        known = self._hosts.get(host) or self._host(host)
        if known.outside and not (requisite or lead):
            return Skip.OUTSIDE
        if depth > self._max_depth:
            return Skip.MAX_DEPTH
        if url.endswith("/robots.txt") and url.count("/") == 3:
            return Skip.ROBOTS_TXT
        rules = known.rules
        if len(url) > rules.max_url_bytes:  # canonical URLs are ASCII
            return Skip.MAX_URL_BYTES
        if known.exclude is not None and known.exclude.match(url):
            return Skip.EXCLUDED
        chosen = seed or requisite
        if known.include is not None and not chosen and not known.include.match(url):
            return Skip.NOT_INCLUDED
        slashes = url.count("/", 8)  # at least as many as segments, and far cheaper
        if slashes > rules.max_repeated_segment or slashes > rules.max_path_segments:
            return _judge_path(url, rules)
        return None

    def wants_type(self, content_type: str | None, *, host: str) -> bool:
        """Whether `content_types` of the host lets a declared type in (parameters are ignored).

        No declared type counts as `application/octet-stream` (RFC 9110, 8.3).
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
        if follow is Follow.ANY or host in self._root_hosts:
            return True
        return follow is Follow.DOMAIN and registrable_domain(host) in self._root_domains


def _judge_path(url: str, rules: ScopeRules) -> Skip | None:
    """The trap limits. Empty segments count (`//` recurs too), not the one behind a last slash."""
    segments = url[url.index("/", 8) + 1 :].partition("?")[0].split("/")
    if not segments[-1]:
        segments.pop()
    if len(segments) > rules.max_path_segments:
        return Skip.MAX_PATH_SEGMENTS
    # A segment that occurs k times leaves k - 1 behind when the distinct ones are taken away.
    if (
        len(segments) - len(set(segments)) >= rules.max_repeated_segment
        and max(Counter(segments).values()) > rules.max_repeated_segment
    ):
        return Skip.MAX_REPEATED_SEGMENT
    return None
