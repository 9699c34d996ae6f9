"""Which robots.txt files are being fetched, parsed or stored, noted in the store for a crash."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator

from storage.store import Store


class RobotsInFlight:
    """A robots.txt noted here when the process dies becomes a suspect (`policies.quarantine`).
    While a suspect is in flight no other suspect is, robots.txt or page: if the process dies again,
    at most one of them can be to blame."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._noted: Counter[str] = Counter()
        self._suspect: object | None = None
        self._landed = asyncio.Event()

    @contextlib.contextmanager
    def noted(self, slot: str, origin: str) -> Iterator[None]:
        """The robots.txt of the origin is in flight meanwhile."""
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
    def suspect_in_flight(self) -> bool:
        return self._suspect is not None

    def begin(self, suspect: object) -> bool:
        """Put the suspect in flight; False if another one is."""
        if self._suspect not in (None, suspect):
            return False
        self._suspect = suspect
        self._landed.clear()
        return True

    def end(self, suspect: object) -> None:
        """The suspect is no longer in flight, if it was."""
        if self._suspect is suspect:
            self._suspect = None
            self._landed.set()

    async def landed(self) -> None:
        """Wait until the suspect in flight has ended."""
        await self._landed.wait()
