"""Renews the session of a worker whose store is shared, about once a second."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from crawler.clock import Clock
from crawler.frontier.frontier import Frontier
from policies.holds import HoldReason
from storage.store import Pulse, Store, WorkerStatus

RENEW_EVERY_S: Final = 1.0


class Renewal:
    """Renews the session of a crawl or of callers, and with it the deadline until which its
    frontier may contact hosts."""

    def __init__(self, frontier: Frontier, store: Store, session: int, clock: Clock) -> None:
        self._frontier = frontier
        self._store = store
        self._session = session
        self._clock = clock
        self.asked_s = clock.monotonic()  # when the latest pulse was asked for

    async def renew(self, status: WorkerStatus) -> Pulse | None:
        """One pulse; None: the database cannot be reached now. Raises StoreError."""
        self.asked_s = self._clock.monotonic()
        asked_boottime_s = self._clock.boottime()  # the lease counts from before the call
        permits = self._frontier.permits
        status = replace(status, addresses=permits.wanted_addresses())
        pulse = await self._store.pulse(self._session, status)
        if pulse is not None:
            self._frontier.renewed(asked_boottime_s + pulse.lease_s, lost=pulse.lost)
            permits.hold_addresses(pulse.addresses)
            if pulse.settling:
                self._frontier.holds.begin(HoldReason.DATABASE_WENT_BACK)
            else:
                self._frontier.holds.end(HoldReason.DATABASE_WENT_BACK)
        return pulse

    async def rest(self) -> None:
        """Wait until the next pulse is due."""
        await self._clock.sleep_until(
            max(self.asked_s + RENEW_EVERY_S, self._clock.monotonic() + RENEW_EVERY_S / 4)
        )
