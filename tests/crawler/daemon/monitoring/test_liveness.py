"""Keep-alives are sent only while the crawl is healthy."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from crawler.daemon.monitoring.health_monitor import LivenessReporter
from crawler.testing.jump_clock import JumpClock
from policies.holds import Hold
from storage.store import StoreError


class Patient:
    """The part of `Control` that `LivenessReporter` uses."""

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


async def test_an_unresponsive_store_is_unhealthy(hand: Any) -> None:
    watchdog, patient = LivenessReporter(hand), Patient()
    control: Any = patient
    assert await watchdog.is_healthy(control, 0.01)
    patient.answers = False
    assert not await watchdog.is_healthy(control, 0.01)
    patient.broken = True
    assert not await watchdog.is_healthy(control, 0.01)


async def test_a_look_that_fails_is_tried_again() -> None:
    patient: Any = Patient()
    alive: list[float] = []

    async def stats() -> None:
        if len(alive) == 1 and failures:
            raise failures.pop()

    patient.stats, failures = stats, [RuntimeError("once"), KeyError("twice")]
    async with JumpClock() as clock:
        notify: Any = SimpleNamespace(alive=lambda: alive.append(clock.monotonic()))
        report = LivenessReporter(clock).report(patient, notify, 30.0)
        reporting = asyncio.ensure_future(report)
        began_s = clock.monotonic()
        await clock.sleep_until(began_s + 45.0)
        reporting.cancel()
    assert [at_s - began_s for at_s in alive] == [0.0, 30.0, 40.0]


async def test_uncommitted_outcomes_are_unhealthy(hand: Any) -> None:
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
