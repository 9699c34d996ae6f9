"""The schemes and ports to which a host's configured headers are sent: those of the URLs that the
user has named, such as seeds."""

from __future__ import annotations

from typing import Final

from crawler.fetching.request import service_of
from policies.url import host_of, registrable_domain

DOMAINS_MAX: Final = 50_000  # beyond that the oldest is forgotten and has the services of all
_NONE: Final[frozenset[str]] = frozenset()
_HTTP: Final = frozenset({"http:", "https:"})


def services_of(url: str) -> frozenset[str]:
    """The services (scheme and port) that naming a URL stands for: its own, and for plain http on
    its default port also https on its default port."""
    service = service_of(url)
    return _HTTP if service == "http:" else frozenset({service})


class HeaderScope:
    """The services named for each registrable domain.

    `http://b.test:8080/` does not stand for that port of `a.test` if a URL of `a.test` was named as
    well. A domain of which no URL was named has the services of all.
    """

    def __init__(self) -> None:
        self._all = _NONE
        self._of: dict[str, frozenset[str]] = {}
        self._alike = True  # whether all domains have the same services

    def add(self, url: str) -> None:
        """Add a URL (canonical) that was named."""
        services, domain = services_of(url), registrable_domain(host_of(url))
        known = self._of.get(domain, _NONE)
        if services <= known:
            return
        known = self._of[domain] = known | services if known else services
        self._alike = self._alike and (known == self._all or len(self._of) == 1)
        self._all |= services
        if len(self._of) > DOMAINS_MAX:
            del self._of[next(iter(self._of))]

    def covers(self, url: str) -> bool:
        """Return whether the configured headers are sent to a URL."""
        service = service_of(url)
        if self._alike or service not in self._all:
            return service in self._all
        return service in self._of.get(registrable_domain(host_of(url)), self._all)
