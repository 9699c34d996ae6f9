"""A host of very many origins (`per = "domain"`): a hand looks at some of them, each time others,
and all come up."""

from __future__ import annotations

import pytest

from storage.engine import leases
from storage.engine.leases import COPIES_PER_LEASE

AT_ONCE = 8


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(leases, "ORIGINS_AT_ONCE", AT_ONCE)


async def filled(rig, origins, each=1):
    links = [
        rig.link(f"http://h{n}.a.test/{m}", slot="a.test")
        for n in range(origins)
        for m in range(each)
    ]
    await rig.store.add(links)
    return {link.url for link in links}


@pytest.mark.parametrize("origins", [1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 5 * AT_ONCE + 3])
@pytest.mark.parametrize("count", [1, 5, 16])
async def test_all_are_given_once(sqlite_rig, origins, count):
    rig = sqlite_rig
    urls = await filled(rig, origins, each=2)
    lease = await rig.claim_one(count)
    hand, given = lease.prefetched, []
    while hand.urls:
        assert len(hand.urls) <= count
        given += [queued.url for queued in hand.urls]
        left = len(urls) - len(given)
        assert hand.next_due_in_s == (0.0 if left else None)
        assert len(hand.urls) == count or not left
        done = [rig.visited(queued) for queued in hand.urls]
        hand = (await rig.commit(lease, *done, want=count)).prefetched["a.test"]
    assert sorted(given) == sorted(urls)


async def test_what_is_held_or_closed_is_passed_over(sqlite_rig):
    rig = sqlite_rig
    await filled(rig, 4 * AT_ONCE)
    lease = await rig.claim_one(3)
    held = [queued.id for queued in lease.prefetched.urls]
    closed = [f"http://h{n}.a.test" for n in range(4 * AT_ONCE) if n != 20]
    for _ in range(3):
        hand = (await rig.commit(lease, want=5, held=held, closed=closed)).prefetched["a.test"]
        assert [queued.url for queued in hand.urls] == ["http://h20.a.test/0"]
        assert hand.next_due_in_s is None


async def test_a_retry_anywhere_tells_when_it_falls_due(sqlite_rig):
    rig = sqlite_rig
    await filled(rig, 3 * AT_ONCE)
    lease = await rig.claim_one(3 * AT_ONCE)
    outcomes = [
        rig.retry(queued, 60.0) if n == 13 else rig.visited(queued)
        for n, queued in enumerate(lease.prefetched.urls)
    ]
    hand = (await rig.commit(lease, *outcomes, want=5)).prefetched["a.test"]
    assert (list(hand.urls), hand.next_due_in_s) == ([], 60.0)
    rig.wall_s += 60.0
    hand = (await rig.commit(lease, want=5)).prefetched["a.test"]
    assert [queued.attempts for queued in hand.urls] == [1]


async def test_a_lease_says_whether_its_copies_are_all(rig):
    for count, all_ in ((COPIES_PER_LEASE, True), (COPIES_PER_LEASE + 1, False)):
        slot = f"a{count}.test"
        await rig.store.add([rig.link(f"http://h{n}.{slot}/", slot=slot) for n in range(count)])
        (lease,) = (await rig.store.acquire(rig.session, [slot])).values()
        assert lease.robots_all is all_
