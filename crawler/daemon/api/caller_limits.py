"""How much the clients of the API may have under way: each has a share that no other can take."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from crawler.daemon.problem import Problem

BUSY_S = 5.0  # before a client tries again when there is no room


class Limit(Struct, frozen=True, kw_only=True):
    """The limit of one kind of thing. what: the kind, in words. total: by all clients together.
    of_one: by one of them. share: as much is left to a client even if others have taken all they
    may; a part of the total (`reserve`) is kept for those that have no more than this."""

    what: str
    total: int
    of_one: int
    share: int
    reserve: int


class Room:
    """Counts what each client has, and refuses more than a limit allows."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._taken = 0
        self._of: Counter[str] = Counter()

    @contextlib.contextmanager
    def taken(self, client: str, amount: int = 1) -> Iterator[None]:
        """Take as much until the block ends. Raises Problem: 429 if the client itself has too much,
        503 if all clients together have."""
        self.check(client, amount)
        self._count(client, amount)
        try:
            yield
        finally:
            self._count(client, -amount)

    def check(self, client: str, amount: int = 1) -> None:
        """Raises what `taken` raises."""
        limit, mine = self._limit, self._of[client] + amount
        if mine > limit.of_one:
            raise Problem(
                429,
                f"this client has {limit.of_one} {limit.what}, which is its limit",
                kind="busy",
                retry_after_s=BUSY_S,
            )
        free = limit.total if mine <= limit.share else limit.total - limit.reserve
        if self._taken + amount > free:
            raise Problem(
                503,
                f"all clients together have {self._taken} {limit.what}; the rest is kept for "
                f"clients that have at most {limit.share}",
                kind="busy",
                retry_after_s=BUSY_S,
            )

    def _count(self, client: str, amount: int) -> None:
        self._taken += amount
        self._of[client] += amount
        if not self._of[client]:
            del self._of[client]
