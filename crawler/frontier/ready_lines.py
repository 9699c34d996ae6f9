"""Ready hosts that wait for a worker."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TypeAlias

from crawler.frontier.host_queue import HostQueue
from policies.url import registrable_domain

_Line: TypeAlias = OrderedDict[str, deque[HostQueue]]  # by party, in the order of their turns


class ReadyLines:
    """Two lines that take turns, however long each is: hosts whose URLs cost a request when they
    were last judged, and hosts whose URLs cost none, because all were blocked. In each, registrable
    domains take turns: one with thousands of hosts does not hold up one with a single host."""

    def __init__(self) -> None:
        self._requesting: _Line = OrderedDict()
        self._judging: _Line = OrderedDict()
        self._judging_next = False

    def __bool__(self) -> bool:
        return bool(self._requesting or self._judging)

    def append(self, host: HostQueue) -> None:
        host.in_line = True
        line = self._judging if host.costs_nothing else self._requesting
        # The list of suffixes is loaded when there are several hosts.
        party = host.party = registrable_domain(host.slot) if line else host.slot
        if party in line:
            line[party].append(host)
        else:
            line[party] = deque((host,))

    def put_first(self, host: HostQueue) -> None:
        if host.in_line:
            for line in (self._judging, self._requesting):
                hosts = line.get(host.party)
                if hosts is not None and host in hosts:
                    hosts.remove(host)
                    if not hosts:
                        del line[host.party]
        host.in_line = True
        self._requesting.setdefault(host.party, deque()).appendleft(host)
        self._requesting.move_to_end(host.party, last=False)

    def pop(self) -> HostQueue:
        """The next host; there must be one."""
        self._judging_next = not self._judging_next
        line = self._judging if self._judging_next else self._requesting
        line = line or self._requesting or self._judging
        party, hosts = line.popitem(last=False)
        host = hosts.popleft()
        if hosts:
            line[party] = hosts
        host.in_line = False
        return host
