"""Ready hosts that wait for a worker."""

from __future__ import annotations

from collections import deque

from crawler.frontier.host_queue import HostQueue


class ReadyLines:
    """Two lines that take turns, however long each is: hosts whose URLs cost a request when they
    were last judged, and hosts whose URLs cost none, because all were blocked."""

    def __init__(self) -> None:
        self._requesting: deque[HostQueue] = deque()
        self._judging: deque[HostQueue] = deque()
        self._judging_next = False

    def __bool__(self) -> bool:
        return bool(self._requesting or self._judging)

    def append(self, host: HostQueue) -> None:
        host.in_line = True
        (self._judging if host.costs_nothing else self._requesting).append(host)

    def put_first(self, host: HostQueue) -> None:
        if host.in_line and host in self._judging:
            self._judging.remove(host)
        elif host.in_line:
            self._requesting.remove(host)
        host.in_line = True
        self._requesting.appendleft(host)

    def pop(self) -> HostQueue:
        """The next host; there must be one."""
        self._judging_next = not self._judging_next
        line = self._judging if self._judging_next else self._requesting
        host = (line or self._requesting or self._judging).popleft()
        host.in_line = False
        return host
