"""The watchdog is told that all is well only while it is."""

from __future__ import annotations

import asyncio
from typing import Any

from crawler.daemon.monitoring.liveness import LivenessReporter
from policies.holds import Hold
from storage.store import StoreError


class Patient:
    """What `LivenessReporter` looks at of a `Control`."""

    held: tuple[Hold, ...] = ()

    def __init__(self) -> None:
        self.uncommitted = 0
        self.answers = True
        self.broken = False

    async def stats(self) -> None:
        if self.broken:
            raise StoreError("the disk is gone")
        if not self.answers:
            await asyncio.Event().wait()

    def status(self) -> Patient:
        return self


async def test_a_store_that_does_not_answer_is_no_sign_of_life(hand: Any) -> None:
    watchdog, patient = LivenessReporter(hand), Patient()
    control: Any = patient
    assert await watchdog.is_healthy(control, 0.01)
    patient.answers = False
    assert not await watchdog.is_healthy(control, 0.01)
    patient.broken = True
    assert not await watchdog.is_healthy(control, 0.01)


async def test_outcomes_that_nobody_commits_are_no_sign_of_life(hand: Any) -> None:
    watchdog, patient = LivenessReporter(hand), Patient()
    control: Any = patient
    hand.advance(3_600.0)  # idle: nothing was committed for an hour
    patient.uncommitted = 1
    assert await watchdog.is_healthy(control, 30.0)  # it has only just been recorded
    hand.advance(20.0)
    assert await watchdog.is_healthy(control, 30.0)
    hand.advance(11.0)
    assert not await watchdog.is_healthy(control, 30.0)
    watchdog.committed(0.01, 1, 0)
    assert await watchdog.is_healthy(control, 30.0)
    patient.uncommitted = 0
    assert await watchdog.is_healthy(control, 30.0)
