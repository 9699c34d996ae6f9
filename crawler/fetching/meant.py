"""The schemes and ports that the config's headers for a host are meant for: those of the URLs that
were given by name."""

from __future__ import annotations

from typing import Final

from crawler.fetching.request import service_of
from policies.url import host_of, registrable_domain

DOMAINS_MAX: Final = 50_000  # beyond it the one named longest ago has what any was named with
_NONE: Final[frozenset[str]] = frozenset()
_HTTP: Final = frozenset({"http:", "https:"})


def services_of(url: str) -> frozenset[str]:
    """Those that are meant by who names this URL: its own, and where that is http on its own port,
    https on its own as well."""
    service = service_of(url)
    return _HTTP if service == "http:" else frozenset({service})


class Meant:
    """Each registrable domain has its own: `http://b.test:8080/` does not stand for that port of
    `a.test`, if that was named, too. A domain of which nothing was named has those of all."""

    def __init__(self) -> None:
        self._all = _NONE
        self._of: dict[str, frozenset[str]] = {}
        self._alike = True  # all domains have the same: nothing else need be looked at

    def add(self, url: str) -> None:
        """A URL (canonical) that was named."""
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
        service = service_of(url)
        if self._alike or service not in self._all:
            return service in self._all
        return service in self._of.get(registrable_domain(host_of(url)), self._all)
