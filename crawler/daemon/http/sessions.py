"""Browser sessions, and rate limits per client."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass

from crawler.clock import Clock
from crawler.daemon.http.accounts import Account, digest_of

SESSIONS_MAX = 1_000  # the oldest is dropped
SESSIONS_OF_ACCOUNT_MAX = 200  # the oldest of the account is dropped: it cannot end those of others
SESSION_S = 12 * 3600.0  # a working day; then the token is required again
PEERS_MAX = 4_096  # clients remembered; those seen longest ago are forgotten
FAILURES = 60  # wrong tokens of one client in a burst: a program with an old one tries every route
FAILURES_PER_S = 1.0  # after the burst; further ones are not logged


class Sessions:
    """Browser sessions, in memory only: one ends at logout, after SESSION_S or with the process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # By the hashes of their names.
        self._open: OrderedDict[bytes, tuple[float, Account]] = OrderedDict()

    def open(self, account: Account) -> str:
        """Open a session and return its name, which is random."""
        own = [key for key, (_, whose) in self._open.items() if whose.name == account.name]
        if len(own) >= SESSIONS_OF_ACCOUNT_MAX:
            del self._open[own[0]]
        while len(self._open) >= SESSIONS_MAX:
            self._open.popitem(last=False)
        name = secrets.token_urlsafe(32)
        self._open[digest_of(name)] = self._clock.monotonic() + SESSION_S, account
        return name

    def account(self, name: str) -> Account | None:
        """Whose session this is; None if it has ended."""
        key = digest_of(name)
        found = self._open.get(key)
        if found is None:
            return None
        ends_s, account = found
        if self._clock.monotonic() >= ends_s:
            del self._open[key]
            return None
        return account

    def close(self, name: str) -> None:
        self._open.pop(digest_of(name), None)


@dataclass(slots=True)
class _TokenBucket:
    left: float
    seen_s: float


class RateLimiter:
    """A token bucket for each client: a burst of `at_once`, then `per_s` a second."""

    def __init__(self, clock: Clock, *, at_once: float, per_s: float) -> None:
        self._clock = clock
        self._at_once = at_once
        self._per_s = per_s
        self._peers: OrderedDict[str, _TokenBucket] = OrderedDict()

    def _bucket(self, peer: str) -> _TokenBucket:
        now_s = self._clock.monotonic()
        bucket = self._peers.get(peer)
        if bucket is None:
            while len(self._peers) >= PEERS_MAX:
                self._peers.popitem(last=False)
            bucket = self._peers[peer] = _TokenBucket(self._at_once, now_s)
        self._peers.move_to_end(peer)
        bucket.left = min(self._at_once, bucket.left + (now_s - bucket.seen_s) * self._per_s)
        bucket.seen_s = now_s
        return bucket

    def wait_s(self, peer: str) -> float:
        """How long until this client may spend one; 0.0: now."""
        left = self._bucket(peer).left
        return 0.0 if left >= 1 else (1 - left) / self._per_s

    def spend(self, peer: str) -> None:
        self._bucket(peer).left -= 1
