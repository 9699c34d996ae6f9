"""Hosts that a caller with URLs of its own no longer uses."""

from __future__ import annotations

from typing import Any

import pytest

from policies.robots_state import RobotsState
from storage.store import HostClock
from tests.storage.conftest import selected

COPY = RobotsState(status=200, body=b"User-agent: *", copy_at=1.0, fetched_at=1.0, expires_at=9.9e9)


async def used(rig: Any, slot: str, copy: RobotsState = COPY) -> None:
    """Lease a host, store its robots.txt, and release it."""
    leases = await rig.store.acquire(rig.session, [slot])
    await rig.store.robots_put(rig.session, slot, f"http://{slot}", copy)
    await rig.commit(leases[slot], clock=HostClock(contacts=1), release=True)


async def hosts(rig: Any) -> list[str]:
    return [row["host"] for row in await rig.rows("hosts")]


async def test_a_store_in_memory_deletes_a_host_without_urls(rig: Any) -> None:
    await used(rig, "a.test")
    await used(rig, "b.test")
    await rig.store.forget("a.test")
    await rig.store.forget("never.test")
    forgets = rig.kind == "memory"
    assert await hosts(rig) == (["b.test"] if forgets else ["a.test", "b.test"])
    assert (await rig.store.robots_get("http://a.test") is None) is forgets
    assert await rig.store.robots_get("http://b.test") == COPY
    assert (await rig.store.stats()).hosts == len(await hosts(rig))
    await used(rig, "a.test")  # it may come back
    assert await hosts(rig) == ["a.test", "b.test"] or forgets
    assert sorted(await hosts(rig)) == ["a.test", "b.test"]
    assert await rig.store.robots_get("http://a.test") == COPY


@pytest.mark.parametrize("leased", [True, False])
async def test_a_host_with_urls_or_a_lease_is_kept(rig: Any, leased: bool) -> None:
    if leased:
        await rig.store.acquire(rig.session, ["a.test"])
    else:
        await rig.add("http://a.test/")
    await rig.store.forget("a.test")
    assert await hosts(rig) == ["a.test"]


async def test_robots_bodies_that_nothing_refers_to_are_deleted(rig: Any) -> None:
    """However often a host changes its robots.txt, it takes room twice: the copy before is kept."""
    for n in range(5):
        body = f"User-agent: *\nDisallow: /{n}".encode()
        await used(rig, "a.test", RobotsState(status=200, body=body, copy_at=1.0, fetched_at=1.0))
    assert await selected(rig.store, "SELECT count(*) FROM bodies") == [(2,)]
    assert (await rig.reader.robots_copy("http://a.test")).body.endswith(b"/4")
    assert (await rig.reader.robots_before("http://a.test")).body.endswith(b"/3")


async def test_the_body_of_a_verdict_outlives_its_copy(rig: Any) -> None:
    await rig.add("http://a.test/x")
    lease = await rig.claim_one()
    await rig.store.robots_put(rig.session, "a.test", "http://a.test", COPY)
    await rig.commit(lease, rig.blocked(lease.prefetched.urls[0]))
    newer = RobotsState(status=200, body=b"newer", copy_at=2.0, fetched_at=2.0)
    await rig.store.robots_put(rig.session, "a.test", "http://a.test", newer)
    assert await rig.reader.robots_body("http://a.test/x") == COPY.body
