"""Rate limits per client."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from crawler.clock import Clock

PEERS_MAX = 4_096  # clients remembered; those seen longest ago are forgotten
FAILURES = 60  # wrong tokens of one client in a burst: a program with an old one tries every route
FAILURES_PER_S = 1.0  # after the burst; further ones are not logged


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
        """Return how long until this client may spend one; 0.0: now."""
        left = self._bucket(peer).left
        return 0.0 if left >= 1 else (1 - left) / self._per_s

    def spend(self, peer: str) -> None:
        self._bucket(peer).left -= 1
