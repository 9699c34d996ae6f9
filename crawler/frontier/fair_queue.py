"""Tickets of several parties, served so that none waits for another that asks for more."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from crawler.frontier.host_queue import HostQueue
from crawler.frontier.tickets import Ticket

T = TypeVar("T")

_FINISHED_MAX: Final = 1_024  # parties that have been served, of which it is known how much


_Line: TypeAlias = OrderedDict[str, deque[HostQueue]]  # by domain, in the order of their turns


class Entry(NamedTuple, Generic[T]):
    """An entry that waits in the queue."""

    party: str
    asker: T
    cost: float
    ticket: Ticket[T]


class FairQueue(Generic[T]):
    """Start-time fair queueing (Goyal, Vin and Cheng, 1996): the next ticket is that of the party
    that has been served least. A party that comes late counts as if it had had its share until
    then, and does not catch up on it."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Entry[T]]] = {}
        self._finished: dict[str, float] = {}  # how much each party has been served, in cost
        self._served = 0.0  # of the party that was served last

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def parties(self) -> Iterator[str]:
        """The parties that wait."""
        return iter(self._waiting)

    def first(self, party: str) -> T:
        """Return the entry that comes first of a party that waits."""
        return self._waiting[party][0].asker

    def put(self, party: str, asker: T, cost: float) -> Ticket[T]:
        """Wait for something that costs this much."""
        if not self._waiting:  # nobody has waited for another
            self._finished.clear()
            self._served = 0.0
        ticket: Ticket[T] = Ticket()
        self._waiting.setdefault(party, deque()).append(Entry(party, asker, cost, ticket))
        return ticket

    def take(self, may_be_served: Callable[[str], bool]) -> Entry[T] | None:
        """Remove and return the next entry of a party that may be served. Entries whose tickets
        were withdrawn are dropped."""
        for party in list(self._waiting):
            line = self._waiting[party]
            while line and line[0].ticket.done:
                line.popleft()
            if not line:
                del self._waiting[party]
        eligible = [party for party in self._waiting if may_be_served(party)]
        if not eligible:
            return None
        party = min(eligible, key=self._start_of)
        entry = self._waiting[party].popleft()
        if not self._waiting[party]:
            del self._waiting[party]
        self._served = self._start_of(party)
        self._finished[party] = self._served + entry.cost
        if len(self._finished) > _FINISHED_MAX:
            most = sorted(self._finished, key=self._finished.__getitem__)[_FINISHED_MAX // 2 :]
            self._finished = {name: self._finished[name] for name in most}
        return entry

    def close(self, why: str) -> None:
        """Refuse everybody who waits."""
        waiting, self._waiting = self._waiting, {}
        for line in waiting.values():
            for entry in line:
                if not entry.ticket.done:
                    entry.ticket.refuse(why)

    def _start_of(self, party: str) -> float:
        return max(self._served, self._finished.get(party, 0.0))


class ReadyLines:
    """Two lines that take turns, however long each is: hosts whose URLs cost a request when they
    were last judged, and hosts whose URLs cost none, because all were blocked. In each, registrable
    domains take turns: one with thousands of hosts does not hold up one with a single host."""

    def __init__(self) -> None:
        self._requesting: _Line = OrderedDict()
        self._judging: _Line = OrderedDict()
        self._judging_next = False
        self.waiting = 0  # hosts in both lines

    def append(self, host: HostQueue) -> None:
        host.in_line = True
        self.waiting += 1
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
                    self.waiting -= 1
                    if not hosts:
                        del line[host.domain]
        host.in_line = True
        self.waiting += 1
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
                    self.waiting -= 1
                    if hosts:
                        line.move_to_end(domain)
                    else:
                        del line[domain]
                    host.in_line = False
                    return host
        return None
