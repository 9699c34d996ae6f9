"""Per-site settings of requests: headers, cookies, credentials, proxy, timeouts, TLS.

They apply to pages and robots.txt alike. The fetcher looks them up by the URL of each request, so
that nothing meant for one site can reach another, whoever made the request and wherever it was
redirected from.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import structs
from multidict import CIMultiDict

from crawler.config import Config, ConfigError, FetchConfig
from crawler.config.secrets import authorization
from crawler.fetching.cookies import Cookies
from crawler.fetching.request import FetchLimits, Request
from policies.header_field import may_leave_origin
from policies.url import origin_of
from storage.secret_sources import SecretError


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSettings:
    """The settings of one host.

    headers_of_all: the headers that are configured for every host.
    limits: only those that concern the connection count.
    tls: as aiohttp's `ssl`: True, False (certificates are not verified), or a context of its own.
    authorizations: origin → Authorization header, sent to that origin only.
    lends_credentials: whether requests of other programs are sent as the crawl's own.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers_of_all: Mapping[str, str] = field(default_factory=dict, repr=False)
    proxy: str | None = field(default=None, repr=False)
    limits: FetchLimits = field(default_factory=FetchLimits)
    cookies: bool = False
    tls: ssl.SSLContext | bool = True
    authorizations: Mapping[str, str] = field(default_factory=dict, repr=False)
    lends_credentials: bool = False

    @property
    def plain(self) -> bool:
        """Whether requests to the host differ in nothing but their paths and `headers`."""
        return not (self.cookies or self.authorizations or self.proxy)

    def limited(self, requested: FetchLimits) -> FetchLimits:
        """The limits of a request: total time and body size as requested, the others ours."""
        return _limited(requested, self.limits)

    def apply(self, request: Request, cookies: Cookies) -> Request:
        """The request with these settings. Its own headers and proxy take precedence."""
        headers = self.headers_of_all if request.bare else self.headers
        secret = cookie = None
        if request.anonymous:
            headers = {name: headers[name] for name in headers if may_leave_origin(name)}
        else:
            secret = self.authorizations.get(origin_of(request.url))
            cookie = cookies.header(request.url) if self.cookies else None
        if request.headers or secret or cookie:
            fields = CIMultiDict(headers)
            if secret:
                fields["Authorization"] = secret
            if cookie:
                fields.setdefault("Cookie", cookie)
            fields.update(request.headers)
            headers = fields
        return structs.replace(
            request,
            headers=headers,
            limits=self.limited(request.limits),
            proxy=request.proxy or self.proxy,
        )


@functools.lru_cache(maxsize=1024)
def _limited(requested: FetchLimits, own: FetchLimits) -> FetchLimits:
    return replace(
        requested,
        connect_s=own.connect_s,
        head_s=own.head_s,
        head_bytes_max=own.head_bytes_max,
        rate_bytes_per_s_min=own.rate_bytes_per_s_min,
    )


class SiteSettingsTable:
    """The settings of every host under a config.

    Secrets and certificates are read when it is created. Raises ConfigError, which lists all that
    could not be read.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._secrets: dict[str, str] = {}
        self._contexts: dict[Path, ssl.SSLContext] = {}
        self._known: dict[int, tuple[FetchConfig, SiteSettings]] = {}
        problems: list[str] = []
        for place, sources in config.given.all_of("fetch", "credentials"):
            for origin, source in sources.items():
                try:
                    self._secrets[source] = authorization(source)
                except SecretError as error:
                    problems.append(f"{place}: for {origin}: {error}")
        for place, ca_file in config.given.all_of("fetch", "ca_file"):
            if ca_file is None:
                continue
            try:
                context = ssl.create_default_context()
                context.load_verify_locations(cafile=ca_file)
                self._contexts[ca_file] = context
            except OSError as error:  # ssl.SSLError is one
                why = "holds no certificates" if isinstance(error, ssl.SSLError) else error.strerror
                problems.append(f"{place}: {ca_file}: {why}")
        if problems:
            raise ConfigError(*problems)

    def of(self, host: str) -> SiteSettings:
        """The settings of a host (lower case, no port)."""
        fetch = self._config.site(host).fetch
        known = self._known.get(id(fetch))  # hosts with the same tables share one object
        if known is None:
            known = self._known[id(fetch)] = (fetch, self._settings(fetch))
        return known[1]

    def _settings(self, fetch: FetchConfig) -> SiteSettings:
        tls: ssl.SSLContext | bool = fetch.tls_verify
        if tls and fetch.ca_file is not None:
            tls = self._contexts[fetch.ca_file]
        return SiteSettings(
            headers=fetch.headers,
            headers_of_all=self._config.fetch.headers,
            proxy=fetch.proxy,
            limits=FetchLimits(
                connect_s=fetch.connect_timeout_s,
                head_s=fetch.first_byte_timeout_s,
                head_bytes_max=fetch.max_header_bytes,
                rate_bytes_per_s_min=fetch.min_rate_bytes_per_s,
            ),
            cookies=fetch.cookies,
            tls=tls,
            authorizations={
                origin: self._secrets[source] for origin, source in fetch.credentials.items()
            },
            lends_credentials=fetch.lend_credentials,
        )
