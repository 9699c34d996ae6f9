"""Ready hosts that wait for a worker."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TypeAlias

from crawler.frontier.host_queue import HostQueue

_Line: TypeAlias = OrderedDict[str, deque[HostQueue]]  # by domain, in the order of their turns


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
        if host.domain in line:
            line[host.domain].append(host)
        else:
            line[host.domain] = deque((host,))

    def put_first(self, host: HostQueue) -> None:
        if host.in_line:
            for line in (self._judging, self._requesting):
                hosts = line.get(host.domain)
                if hosts is not None and host in hosts:
                    hosts.remove(host)
                    if not hosts:
                        del line[host.domain]
        host.in_line = True
        self._requesting.setdefault(host.domain, deque()).appendleft(host)
        self._requesting.move_to_end(host.domain, last=False)

    def pop(self, may_be_served: Callable[[str, float], bool], now_s: float) -> HostQueue | None:
        """The next host of a domain that may be served; None if there is none."""
        self._judging_next = not self._judging_next
        lines = (self._judging, self._requesting)
        for line in lines if self._judging_next else reversed(lines):
            for domain, hosts in line.items():
                if may_be_served(domain, now_s):
                    host = hosts.popleft()
                    if hosts:
                        line.move_to_end(domain)
                    else:
                        del line[domain]
                    host.in_line = False
                    return host
        return None
