"""Which robots.txt are in flight, noted in the store; suspects fly one at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator

from storage.store import Store


class Flights:
    """A robots.txt in flight is being fetched, read or stored. If the process dies then, it becomes
    a suspect (`policies.quarantine`). While one is in flight no other is, and no page that is one:
    if the process dies again, one of them is to blame at most."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._noted: Counter[str] = Counter()
        self._suspect: object | None = None
        self._landed = asyncio.Event()

    @contextlib.contextmanager
    def noted(self, slot: str, origin: str) -> Iterator[None]:
        """The robots.txt of an origin is in flight meanwhile."""
        self._noted[origin] += 1
        if self._noted[origin] == 1:
            self._store.robots_in_flight(slot, origin)
        try:
            yield
        finally:
            self._noted[origin] -= 1
            if not self._noted[origin]:
                del self._noted[origin]
                self._store.robots_not_in_flight(slot, origin)

    @property
    def taken(self) -> bool:
        """Is a suspect in flight?"""
        return self._suspect is not None

    def begin(self, suspect: object) -> bool:
        """Its flight begins, unless another suspect is in flight."""
        if self._suspect not in (None, suspect):
            return False
        self._suspect = suspect
        self._landed.clear()
        return True

    def end(self, suspect: object) -> None:
        """If its flight had begun."""
        if self._suspect is suspect:
            self._suspect = None
            self._landed.set()

    async def landed(self) -> None:
        """Wait until the suspect in flight is done with."""
        await self._landed.wait()
