"""The registrable domains whose hosts are in memory, which share time, permits and memory."""

from __future__ import annotations


class LeasedDomains:
    """Counts the hosts in memory by registrable domain. What one domain may use at most counts only
    while there are hosts of others."""

    def __init__(self) -> None:
        self._hosts_of: dict[str, int] = {}

    def add(self, domain: str) -> None:
        """Count one host of the domain more."""
        self._hosts_of[domain] = self._hosts_of.get(domain, 0) + 1

    def remove(self, domain: str) -> None:
        """Count one host of the domain less."""
        if (left := self._hosts_of.pop(domain) - 1) > 0:
            self._hosts_of[domain] = left

    @property
    def several(self) -> bool:
        """Whether there are hosts of more than one domain."""
        return len(self._hosts_of) > 1

    def may_crowd(self, domain: str) -> bool:
        """Return whether the domain has several hosts, and there are hosts of others."""
        return len(self._hosts_of) > 1 and self._hosts_of.get(domain, 1) > 1
