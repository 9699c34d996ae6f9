"""Shares the event loop's time between the network and parsing: the network goes first.

A page takes hundreds of microseconds to parse. Were each parsed as soon as it is there, then of two
hundred that come together the last would delay its host's next request by all the others. So a page
waits here until everything that the network has brought is dealt with.

A page of a quarter of a megabyte may take fifty times as long, and every request needs several
passes of the loop. A domain whose page took that long waits as long before its next page is parsed,
so that at least half of the time is left to others.
"""

from __future__ import annotations

import asyncio
import itertools
from asyncio import Future
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final

from crawler.clock import Clock
from crawler.documents.page_parser import ParsingBrokenOffError
from crawler.leased_domains import LeasedDomains

PASS_S: Final = 0.001  # what is parsed in one pass of the loop: the network waits no longer
AT_ONCE_MAX: Final = 16
LONG_S: Final = 0.002  # a pass for whose pages their domains wait


class ParseQueue:
    """The queue of pages to be parsed: `await wait(domain)` before parsing.

    Domains alternate, and the callers of each pass in order, each after a whole pass of the event
    loop, in which requests that may begin do; in one pass as many as PASS_S is probably enough for,
    because looking at the network costs about 5 µs, too.

    domains: those of the crawl; a single one waits for nobody. `wait` raises
    ParsingBrokenOffError to those that wait when the run ends.
    """

    def __init__(self, clock: Clock, domains: LeasedDomains) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._domains = domains
        self._waiting: OrderedDict[str, deque[Future[None]]] = OrderedDict()  # by domain
        self._free_s: dict[str, float] = {}  # until when domains wait, if that is not over
        self._at_once = 1
        self._passing = False
        self.passed_s = 0.0  # when this pass began
        self._let_through: list[str] = []  # domains, in the last pass

    async def wait(self, domain: str) -> None:
        mine: Future[None] = self._loop.create_future()
        if domain in self._waiting:
            self._waiting[domain].append(mine)
        else:
            self._waiting[domain] = deque((mine,))
        if not self._passing:
            self._begin()
        await mine

    def charge(self, domain: str, began_s: float) -> None:
        """A page of the domain has been read, which took several passes since then."""
        now_s = self._clock.monotonic()
        if now_s - began_s > LONG_S and self._domains.several:
            until_s = now_s + (now_s - began_s)
            self._free_s[domain] = max(until_s, self._free_s.get(domain, 0.0))

    def break_off(self) -> None:
        """End the wait of all that wait now."""
        waiting, self._waiting = self._waiting, OrderedDict()
        for futures in waiting.values():
            for one in futures:
                if not one.done():  # else cancelled
                    one.set_exception(ParsingBrokenOffError)

    def _begin(self) -> None:
        if self._waiting and not self._passing:
            self._passing = True
            self._at_once = 1  # how long these take is not known
            self.passed_s = self._clock.monotonic()
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        """Let the first few through. They run in the next pass of the loop, and so does this."""
        now_s = self._clock.monotonic()
        elapsed_s, self.passed_s = now_s - self.passed_s, now_s
        if elapsed_s > PASS_S:
            self._at_once = max(1, self._at_once // 2)
        elif elapsed_s < PASS_S / 2 and self._let_through:
            self._at_once = min(2 * self._at_once, AT_ONCE_MAX)
        if self._free_s:
            self._free_s = {name: at_s for name, at_s in self._free_s.items() if at_s > now_s}
        if elapsed_s > LONG_S and self._domains.several:
            self._free_s.update(dict.fromkeys(self._let_through, now_s + elapsed_s))
        self._let_some_through()
        self._passing = bool(self._let_through)
        if self._let_through:
            self._loop.call_soon(self._next)
        elif self._waiting:
            self._clock.call_at(min(self._free_s.values()), self._begin)

    def _let_some_through(self) -> None:
        """Let a few through, of each domain one at a time."""
        self._let_through.clear()
        ready: Iterable[str] = self._waiting
        if self._free_s:
            ready = (one for one in self._waiting if one not in self._free_s)
        domains = deque(itertools.islice(ready, self._at_once))
        while domains and len(self._let_through) < self._at_once:
            domain = domains.popleft()
            futures = self._waiting[domain]
            first = futures.popleft()
            if futures:
                self._waiting.move_to_end(domain)
                domains.append(domain)
            else:
                del self._waiting[domain]
            if not first.done():  # else cancelled
                first.set_result(None)
                self._let_through.append(domain)
