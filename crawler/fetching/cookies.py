"""Cookies (RFC 6265), in memory, with a jar for each site.

A site is a registrable domain, and no cookie leaves the site it came from. Nor does it leave its
scheme and port, although RFC 6265 (8.5) permits that, because another service may answer there. The
only exception is from http to https on their default ports. Malformed cookies are ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from email.utils import mktime_tz, parsedate_tz
from itertools import islice
from typing import Final

from msgspec import Struct

from crawler.clock import Clock
from crawler.fetching.request import service_of
from policies.url import host_of, path_of, registrable_domain

# RFC 6265, 6.1 requires at least 4,096 bytes per cookie and 50 cookies per domain of browsers.
COOKIE_CHARS_MAX: Final = 4096
COOKIES_MAX: Final = 100
# Servers accept header fields of about 8 KiB.
HEADER_CHARS_MAX: Final = 8000
JARS_MAX: Final = 10_000
_log = logging.getLogger("courtly.cookies")
_AGE_S_MAX: Final = 400 * 86_400.0  # RFC 6265bis 5.5


class _Cookie(Struct, kw_only=True):
    value: str
    host_only: bool
    secure: bool
    service: str  # scheme and port, as `service_of` writes them
    expires_at: float | None  # Unix seconds; None: it never expires


# By name, domain, path and service, in order of creation.
_Jar = dict[tuple[str, str, str, str], _Cookie]


class Cookies:
    """The jars. URLs are canonical."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jars: dict[str, _Jar] = {}
        self._warned: set[str] = set()  # sites of which dropped cookies were logged

    def learn(self, url: str, values: Iterable[str]) -> None:
        """Store the cookies of an answer. values: those of its Set-Cookie fields."""
        host = host_of(url)
        site = registrable_domain(host)
        for number, value in enumerate(islice(values, COOKIES_MAX + 1)):
            if number == COOKIES_MAX or len(value) > COOKIE_CHARS_MAX:
                self._warn(site)
            elif value.isascii() and value.isprintable():
                self._learn(url, host, site, value)

    def _warn(self, site: str) -> None:
        """Log, once per site, that a cookie was not stored or is not sent."""
        if site not in self._warned and len(self._warned) < JARS_MAX:
            self._warned.add(site)
            _log.warning(
                "cookies of %s were dropped: a site may have %d cookies of %d characters each, of"
                " which %d characters are sent",
                site,
                COOKIES_MAX,
                COOKIE_CHARS_MAX,
                HEADER_CHARS_MAX,
            )

    def _learn(self, url: str, host: str, site: str, value: str) -> None:
        pair, *attributes = value.split(";")
        name, equals, content = (part.strip() for part in pair.partition("="))
        if not equals or not name:
            return
        given: dict[str, str] = {}
        for attribute in attributes:
            key, _, text = attribute.partition("=")
            given[key.strip().lower()] = text.strip()  # the last one counts
        encrypted = url.startswith("https:")
        secure = "secure" in given
        if secure and not encrypted:
            return
        domain = given.get("domain", "").removeprefix(".").lower()
        host_only = not domain or domain == host == site
        if host_only:
            domain = host
        elif not (_within(host, domain) and _within(domain, site)):
            return
        path = given.get("path", "")
        prefix = name.lower()
        if prefix.startswith("__secure-") and not secure:
            return
        if prefix.startswith("__host-") and not (secure and "domain" not in given and path == "/"):
            return
        if not path.startswith("/"):
            path = path_of(url).partition("?")[0].rpartition("/")[0] or "/"
        jar = self._jars.pop(site, {})
        self._jars[site] = jar  # least recently used first
        if len(self._jars) > JARS_MAX:
            del self._jars[next(iter(self._jars))]
        now_s = self._clock.wall()
        expires_at = _expires_at(given, now_s)
        service = service_of(url)
        place = (name, domain, path, service)
        if expires_at is not None and expires_at <= now_s:
            jar.pop(place, None)
            return
        if len(jar) >= COOKIES_MAX and place not in jar:
            self._warn(site)
            del jar[next(iter(jar))]
        jar[place] = _Cookie(
            value=content,
            host_only=host_only,
            secure=secure,
            service=service,
            expires_at=expires_at,
        )

    def header(self, url: str) -> str | None:
        """The Cookie header for a request, or None."""
        host = host_of(url)
        jar = self._jars.get(registrable_domain(host))
        if not jar:
            return None
        now_s = self._clock.wall()
        encrypted = url.startswith("https:")
        asked = path_of(url).partition("?")[0]
        services = {service_of(url)}
        if services == {"https:"}:
            services.add("http:")
        fitting: list[tuple[int, str]] = []
        for place, cookie in list(jar.items()):
            name, domain, path, service = place
            if cookie.expires_at is not None and cookie.expires_at <= now_s:
                del jar[place]
            elif (
                service in services
                and (host == domain if cookie.host_only else _within(host, domain))
                and (encrypted or not cookie.secure)
                and (asked == path or asked.startswith(path.rstrip("/") + "/"))
            ):
                fitting.append((-len(path), f"{name}={cookie.value}"))
        fitting.sort(key=lambda one: one[0])  # the longest path first, then the oldest
        text = ""
        for _, pair in fitting:
            longer = f"{text}; {pair}" if text else pair
            if len(longer) <= HEADER_CHARS_MAX:
                text = longer
            else:
                self._warn(registrable_domain(host))
        return text or None


def _within(host: str, domain: str) -> bool:
    return host == domain or host.endswith("." + domain)


def _expires_at(given: dict[str, str], now_s: float) -> float | None:
    """Max-Age takes precedence over Expires (RFC 6265, 5.3); malformed values are ignored."""
    age = given.get("max-age", "")
    if age.removeprefix("-").isdecimal():
        return now_s + (min(float(age[:12]), _AGE_S_MAX) if age[0] != "-" else -1.0)
    if date := given.get("expires"):
        try:
            parsed = parsedate_tz(date)
            return None if parsed is None else min(mktime_tz(parsed), now_s + _AGE_S_MAX)
        except (ValueError, OverflowError, TypeError, IndexError):
            return None
    return None
