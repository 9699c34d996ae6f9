"""Who may come in: the token, the sessions that its holders open in a browser, and patience with
those who guess."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass

from crawler.clock import Clock

SESSIONS_MAX = 1_000  # the oldest goes: nobody has so many browsers
SESSION_S = 12 * 3600.0  # a working day; then the token is asked for again
PEERS_MAX = 4_096  # of whom something is remembered; those seen longest ago are forgotten
FAILURES = 60  # wrong tokens of one peer at once: a program with an old one asks every route
FAILURES_PER_S = 1.0  # and then so many; beyond, none is logged any more


class Sessions:
    """Sessions of browsers, in memory alone: none outlives the process, its logout or its day."""

    def __init__(self, token: str, clock: Clock) -> None:
        self._digest = _digest(token)
        self._clock = clock
        self._ends: OrderedDict[bytes, float] = OrderedDict()  # hashes of names: none is in memory

    def is_token(self, given: str) -> bool:
        """Compared in the same time wherever the difference is."""
        return hmac.compare_digest(_digest(given), self._digest)

    def open(self) -> str:
        """A new session's name, which says nothing of the token."""
        while len(self._ends) >= SESSIONS_MAX:
            self._ends.popitem(last=False)
        name = secrets.token_urlsafe(32)
        self._ends[_digest(name)] = self._clock.monotonic() + SESSION_S
        return name

    def is_open(self, name: str) -> bool:
        key = _digest(name)
        ends_s = self._ends.get(key)
        if ends_s is None:
            return False
        if self._clock.monotonic() >= ends_s:
            del self._ends[key]
            return False
        return True

    def close(self, name: str) -> None:
        self._ends.pop(_digest(name), None)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


@dataclass(slots=True)
class _Bucket:
    left: float
    seen_s: float


class Allowance:
    """So many at once, and so many a second after that, for each peer."""

    def __init__(self, clock: Clock, *, at_once: float, per_s: float) -> None:
        self._clock = clock
        self._at_once = at_once
        self._per_s = per_s
        self._peers: OrderedDict[str, _Bucket] = OrderedDict()

    def _bucket(self, peer: str) -> _Bucket:
        now_s = self._clock.monotonic()
        bucket = self._peers.get(peer)
        if bucket is None:
            while len(self._peers) >= PEERS_MAX:
                self._peers.popitem(last=False)
            bucket = self._peers[peer] = _Bucket(self._at_once, now_s)
        self._peers.move_to_end(peer)
        bucket.left = min(self._at_once, bucket.left + (now_s - bucket.seen_s) * self._per_s)
        bucket.seen_s = now_s
        return bucket

    def wait_s(self, peer: str) -> float:
        """How long until this peer may spend one; 0.0: now."""
        left = self._bucket(peer).left
        return 0.0 if left >= 1 else (1 - left) / self._per_s

    def spend(self, peer: str) -> None:
        self._bucket(peer).left -= 1
