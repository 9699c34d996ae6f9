"""What the config asks of every request to a host, for pages and robots.txt alike: headers,
cookies, credentials, proxy, times, TLS.

The fetcher looks them up by the URL that it is about to ask for, so that nothing meant for one site
can go to another, whoever made the request and wherever it was redirected from.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import structs
from multidict import CIMultiDict

from crawler.config import Config, ConfigError, FetchConfig
from crawler.config.secrets import SecretError, authorization
from crawler.fetching.cookies import Cookies
from crawler.fetching.request import FetchLimits, Request
from policies.url import origin_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The terms of one host.

    tls: as aiohttp's `ssl`: True, False (certificates are not looked at), or a context of its own.
    authorizations: origin → Authorization header; sent to that origin and to no other.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers_of_all: Mapping[str, str] = field(default_factory=dict, repr=False)  # of every host
    proxy: str | None = field(default=None, repr=False)
    limits: FetchLimits = field(default_factory=FetchLimits)  # those of the connection count
    cookies: bool = False
    tls: ssl.SSLContext | bool = True
    authorizations: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def plain(self) -> bool:
        """Whether every request to the host is sent alike, but for its path: by `headers` alone."""
        return not (self.cookies or self.authorizations or self.proxy)

    def limited(self, asked: FetchLimits) -> FetchLimits:
        """The bounds of a request that asks for these."""
        return _limits(asked, self.limits)

    def dressed(self, request: Request, jars: Cookies) -> Request:
        """The request under these terms. What it says itself of headers and proxy wins."""
        headers = self.headers_of_all if request.bare else self.headers
        secret = self.authorizations.get(origin_of(request.url))
        crumbs = jars.header(request.url) if self.cookies else None
        if request.headers or secret or crumbs:
            fields = CIMultiDict(headers)
            if secret:
                fields["Authorization"] = secret
            if crumbs:
                fields.setdefault("Cookie", crumbs)
            fields.update(request.headers)
            headers = fields
        return structs.replace(
            request,
            headers=headers,
            limits=_limits(request.limits, self.limits),
            proxy=request.proxy or self.proxy,
        )


@functools.lru_cache(maxsize=1024)
def _limits(asked: FetchLimits, own: FetchLimits) -> FetchLimits:
    """Whole time and body as asked for; what concerns the connection, of the host's own."""
    return replace(
        asked,
        connect_s=own.connect_s,
        head_s=own.head_s,
        head_bytes_max=own.head_bytes_max,
        rate_bytes_per_s_min=own.rate_bytes_per_s_min,
    )


def terms_of(config: Config) -> Callable[[str], Terms]:
    """The terms of any host (lower case, no port). Secrets and certificates are read now. Raises
    ConfigError with all that cannot be had."""
    secrets: dict[str, str] = {}
    contexts: dict[Path, ssl.SSLContext] = {}
    problems: list[str] = []
    tables = {"fetch": config.given.values.get("fetch", {})}
    for pattern in config.sites:
        tables[f"site.{pattern}"] = config.given.sites[pattern].get("fetch", {})
    for name, table in tables.items():
        shown = name if name == "fetch" else f'site."{name[5:]}"'
        sources = table.get("credentials", {})
        assert isinstance(sources, Mapping)
        for origin, source in sources.items():
            try:
                secrets[source] = authorization(source)
            except SecretError as error:
                place = config.given.places.get(f"{name}.credentials", "config")
                problems.append(f"{place}: {shown}.credentials: for {origin}: {error}")
        ca_file = table.get("ca_file")
        if isinstance(ca_file, Path):
            try:
                contexts[ca_file] = _trusting(ca_file)
            except OSError as error:  # ssl.SSLError is one
                place = config.given.places.get(f"{name}.ca_file", "config")
                why = "holds no certificates" if isinstance(error, ssl.SSLError) else error.strerror
                problems.append(f"{place}: {shown}.ca_file: {ca_file}: {why}")
    if problems:
        raise ConfigError(*problems)
    made: dict[int, tuple[FetchConfig, Terms]] = {}

    def of(host: str) -> Terms:
        fetch = config.site(host).fetch
        known = made.get(id(fetch))  # hosts with the same tables share one object
        if known is None:
            terms = _terms(fetch, config.fetch.headers, secrets, contexts)
            known = made[id(fetch)] = (fetch, terms)
        return known[1]

    return of


def _trusting(ca_file: Path) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.load_verify_locations(cafile=ca_file)
    return context


def _terms(
    fetch: FetchConfig,
    headers_of_all: Mapping[str, str],
    secrets: Mapping[str, str],
    contexts: Mapping[Path, ssl.SSLContext],
) -> Terms:
    tls: ssl.SSLContext | bool = fetch.tls_verify
    if tls and fetch.ca_file is not None:
        tls = contexts[fetch.ca_file]
    return Terms(
        headers=fetch.headers,
        headers_of_all=headers_of_all,
        proxy=fetch.proxy,
        limits=FetchLimits(
            connect_s=fetch.connect_timeout_s,
            head_s=fetch.first_byte_timeout_s,
            head_bytes_max=fetch.max_header_bytes,
            rate_bytes_per_s_min=fetch.min_rate_bytes_per_s,
        ),
        cookies=fetch.cookies,
        tls=tls,
        authorizations={origin: secrets[source] for origin, source in fetch.credentials.items()},
    )
