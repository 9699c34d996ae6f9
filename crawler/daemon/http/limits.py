"""How much one client may ask for: requests, guesses of the token, and event streams."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from crawler.clock import Clock
from crawler.daemon.problem import Problem
from crawler.front_door.rate_limit import FAILURES, FAILURES_PER_S, RateLimiter

REQUESTS = 400  # of one account in a burst: some tabs with all their parts
REQUESTS_PER_S = 100.0  # after the burst
CALLS = 400  # the same for requests of other programs, which send them through the crawl
CALLS_PER_S = 200.0
LINKS = 60  # the same for pages that links on other sites lead to
LINKS_PER_S = 5.0
STREAMS_MAX = 64  # listeners to /api/events in total
STREAMS_OF_ACCOUNT_MAX = 32
STREAMS_OF_PEER_MAX = 16
# Requests of other programs: these are cheap here, and wait for the hosts.
_CALLS: Final = re.compile(r"/api/(fetch|permit|may-fetch|next-turn|robots/state)(/|\Z)")


class Limits:
    """The rate limits of a server. All of them raise Problem (429)."""

    def __init__(self, clock: Clock) -> None:
        self.requests = RateLimiter(clock, at_once=REQUESTS, per_s=REQUESTS_PER_S)
        self.calls = RateLimiter(clock, at_once=CALLS, per_s=CALLS_PER_S)
        self.links = RateLimiter(clock, at_once=LINKS, per_s=LINKS_PER_S)
        self.guesses = RateLimiter(clock, at_once=FAILURES, per_s=FAILURES_PER_S)

    def request(self, who: str, path: str, *, linked: bool = False) -> None:
        """Count a request that was accepted. who: the account, or the address without one. linked:
        a link on another site led to it."""
        ours = self.calls if _CALLS.match(path) else self.requests
        limiter = self.links if linked else ours
        _spend(limiter, who, Problem(429, "too many requests"))

    def guess(self, peer: str) -> None:
        """Count a wrong token."""
        _spend(self.guesses, peer, Problem(429, "too many failed login attempts", field="token"))


def _spend(limiter: RateLimiter, who: str, problem: Problem) -> None:
    if wait_s := limiter.wait_s(who):
        problem.retry_after_s = wait_s
        raise problem
    limiter.spend(who)


class Streams:
    """Counts the listeners to the event stream."""

    def __init__(self) -> None:
        self._open = 0
        self._of_account: Counter[str] = Counter()
        self._of_peer: Counter[str] = Counter()

    @contextlib.contextmanager
    def one(self, account: str, peer: str) -> Iterator[None]:
        """Count a listener while this is open. account: "" if there is none. Raises Problem (503)
        if there are too many."""
        if (
            self._open >= STREAMS_MAX
            or (account and self._of_account[account] >= STREAMS_OF_ACCOUNT_MAX)
            or self._of_peer[peer] >= STREAMS_OF_PEER_MAX
        ):
            raise Problem(503, "too many listeners", retry_after_s=10.0)
        self._count(account, peer, 1)
        try:
            yield
        finally:
            self._count(account, peer, -1)

    def _count(self, account: str, peer: str, more: int) -> None:
        self._open += more
        for counter, name in ((self._of_account, account), (self._of_peer, peer)):
            counter[name] += more
            if not counter[name]:
                del counter[name]
