"""Faults of the database and of the sinks hold the whole crawl until they have passed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from crawler.frontier.system_holds import SystemHolds
from policies.holds import HoldReason
from storage.transient_faults import FaultKind, TransientFault, TransientFaults

_REASONS: Final[Mapping[FaultKind, HoldReason]] = {
    FaultKind.LOCKED: HoldReason.DATABASE_LOCKED,
    FaultKind.UNREACHABLE: HoldReason.DATABASE_UNREACHABLE,
    FaultKind.NO_SPACE: HoldReason.DISK_FULL,
    FaultKind.IO: HoldReason.DISK_ERROR,
    FaultKind.MEMORY: HoldReason.MEMORY,
    FaultKind.DESCRIPTORS: HoldReason.FILES,  # an answer of a host says nothing of it
    FaultKind.UNKNOWN: HoldReason.DATABASE_ERROR,
}
_EXPLAINED: Final = frozenset((FaultKind.IO, FaultKind.UNREACHABLE, FaultKind.UNKNOWN))


class StorageHolds:
    """Begins and ends holds as the problems of its sources do. Two sources that wait for the same
    reason are one hold."""

    def __init__(self, holds: SystemHolds, sources: Sequence[TransientFaults]) -> None:
        self._holds = holds
        self._sources = sources
        self._active: set[HoldReason] = set()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for source in self._sources:
                group.create_task(self._watch(source))

    async def _watch(self, source: TransientFaults) -> None:
        known: TransientFault | None = None
        while True:
            known = await source.other_than(known)
            self._settle()

    def _settle(self) -> None:
        troubles = [now for source in self._sources if (now := source.now) is not None]
        reasons = {_REASONS[trouble.kind] for trouble in troubles}
        for reason in self._active - reasons:
            self._holds.end(reason)
        self._active = reasons
        for trouble in troubles:
            detail = trouble.sentence if trouble.kind in _EXPLAINED else trouble.what
            self._holds.begin(_REASONS[trouble.kind], detail)
