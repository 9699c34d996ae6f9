"""The store's contract: several workers that share a crawl, or the only one."""

from __future__ import annotations

import math

import pytest

from storage.store import Order, Pulse, StoreError, StoreTelemetry, WorkerStatus


async def test_the_only_worker_keeps_its_hosts_without_renewing(rig):
    if rig.store.shared:
        pytest.skip("of stores with one worker")
    assert await rig.store.pulse(rig.session, WorkerStatus()) == Pulse(lease_s=math.inf)
    await rig.store.publish(rig.session, Order(verb="pause"))
    assert (await rig.store.pulse(rig.session, WorkerStatus())).orders == ()
    assert await rig.reader.workers() == ()
    assert await rig.reader.table_sizes() == ()
    assert rig.store.telemetry() == StoreTelemetry()


async def test_a_pulse_reports_whether_the_crawl_is_paused(rig):
    await rig.store.set_paused(True)
    pulse = await rig.store.pulse(rig.session, WorkerStatus(idle=True))
    assert pulse is not None
    assert pulse.paused
    assert not pulse.lost


async def test_only_the_open_session_is_renewed(rig):
    with pytest.raises(StoreError):
        await rig.store.pulse(rig.session + 1, WorkerStatus())
