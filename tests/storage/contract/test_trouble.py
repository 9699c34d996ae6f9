"""What every store says of trouble that passes: nothing, where there is none."""

from __future__ import annotations

import asyncio

import pytest

from storage.transient_faults import FaultKind, TransientFault, TransientFaults


async def test_a_store_without_trouble_has_none(rig):
    await rig.add("http://a.test/")
    rig.store.set_patience(float("inf"))
    await rig.add("http://a.test/2")
    rig.store.set_patience(0.0)  # nothing is waited for: nothing fails
    await rig.add("http://a.test/3")
    assert rig.store.faults.now is None
    assert (await rig.store.stats()).queued == 3


async def test_changes_are_seen_and_the_beginning_is_kept():
    troubles = TransientFaults()
    waiting = asyncio.create_task(troubles.other_than(None))
    await asyncio.sleep(0)
    full = TransientFault(kind=FaultKind.NO_SPACE, what="it", sentence="it is full", since=1.0)
    troubles.found(full)
    assert await waiting == full
    later = TransientFault(kind=FaultKind.NO_SPACE, what="it", sentence="it is full", since=9.0)
    troubles.found(later)
    assert troubles.now == full  # the same trouble still
    waiting = asyncio.create_task(troubles.other_than(full))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(waiting), 0.01)
    troubles.set(None)
    assert await waiting is None
