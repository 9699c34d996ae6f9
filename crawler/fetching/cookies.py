"""Cookies of the sites that are asked to have them: RFC 6265, each site's jar its own, in memory.

A site is a registrable domain: no cookie leaves the one it came from. Nor does it leave the scheme
and port it came from, though RFC 6265 (8.5) would let it: another service may answer there. It only
follows from http to https, both on their own ports. All input is hostile; what cannot be read is
left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from email.utils import mktime_tz, parsedate_tz
from itertools import islice
from typing import Final

from msgspec import Struct

from crawler.fetching.request import service_of
from policies.url import host_of, path_of, registrable_domain

# RFC 6265 6.1 asks browsers for at least 4,096 bytes a cookie and 50 cookies a domain.
COOKIE_CHARS_MAX: Final = 4096
COOKIES_MAX: Final = 100
# Servers take header fields of about 8 KiB.
HEADER_CHARS_MAX: Final = 8000
JARS_MAX: Final = 10_000
_log = logging.getLogger("courtly.cookies")
_AGE_S_MAX: Final = 400 * 86_400.0  # RFC 6265bis 5.5


class _Cookie(Struct, kw_only=True):
    value: str
    host_only: bool
    secure: bool
    service: str  # scheme and port, as `service_of` writes them
    expires_at: float | None  # Unix seconds; None: as long as the jar


# By name, domain, path and service, in the order of their making.
_Jar = dict[tuple[str, str, str, str], _Cookie]


class Cookies:
    """The jars. `wall` gives Unix seconds. URLs are canonical."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._jars: dict[str, _Jar] = {}
        self._told: set[str] = set()  # sites of which the log says that cookies were left out

    def learn(self, url: str, values: Iterable[str]) -> None:
        """Take in the Set-Cookie values of the answer for `url`."""
        host = host_of(url)
        site = registrable_domain(host)
        for number, value in enumerate(islice(values, COOKIES_MAX + 1)):
            if number == COOKIES_MAX or len(value) > COOKIE_CHARS_MAX:
                self._left_out(site)
            elif value.isascii() and value.isprintable():
                self._learn(url, host, site, value)

    def _left_out(self, site: str) -> None:
        """Log once for each site that a cookie of it was not kept, or is not sent."""
        if site not in self._told and len(self._told) < JARS_MAX:
            self._told.add(site)
            _log.warning(
                "cookies of %s were left out: of a site %d are kept, of %d characters each, and %d"
                " characters of them are sent",
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
        said: dict[str, str] = {}
        for attribute in attributes:
            key, _, text = attribute.partition("=")
            said[key.strip().lower()] = text.strip()  # the last one counts
        encrypted = url.startswith("https:")
        secure = "secure" in said
        if secure and not encrypted:
            return
        domain = said.get("domain", "").removeprefix(".").lower()
        host_only = not domain or domain == host == site
        if host_only:
            domain = host
        elif not (_within(host, domain) and _within(domain, site)):
            return
        path = said.get("path", "")
        prefix = name.lower()
        if prefix.startswith("__secure-") and not secure:
            return
        if prefix.startswith("__host-") and not (secure and "domain" not in said and path == "/"):
            return
        if not path.startswith("/"):
            path = path_of(url).partition("?")[0].rpartition("/")[0] or "/"
        jar = self._jars.pop(site, {})
        self._jars[site] = jar  # the one used last, last
        if len(self._jars) > JARS_MAX:
            del self._jars[next(iter(self._jars))]
        now_s = self._wall()
        expires_at = _expires_at(said, now_s)
        service = service_of(url)
        place = (name, domain, path, service)
        if expires_at is not None and expires_at <= now_s:
            jar.pop(place, None)
            return
        if len(jar) >= COOKIES_MAX and place not in jar:
            self._left_out(site)
            del jar[next(iter(jar))]
        jar[place] = _Cookie(
            value=content,
            host_only=host_only,
            secure=secure,
            service=service,
            expires_at=expires_at,
        )

    def header(self, url: str) -> str | None:
        """The Cookie header for a request for `url`; None: there is nothing to send."""
        host = host_of(url)
        jar = self._jars.get(registrable_domain(host))
        if not jar:
            return None
        now_s = self._wall()
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
                self._left_out(registrable_domain(host))
        return text or None


def _within(host: str, domain: str) -> bool:
    return host == domain or host.endswith("." + domain)


def _expires_at(said: dict[str, str], now_s: float) -> float | None:
    """Max-Age before Expires (RFC 6265 5.3); what cannot be read does not count."""
    age = said.get("max-age", "")
    if age.removeprefix("-").isdecimal():
        return now_s + (min(float(age[:12]), _AGE_S_MAX) if age[0] != "-" else -1.0)
    if date := said.get("expires"):
        try:
            parsed = parsedate_tz(date)
            return None if parsed is None else min(mktime_tz(parsed), now_s + _AGE_S_MAX)
        except (ValueError, OverflowError, TypeError, IndexError):
            return None
    return None
