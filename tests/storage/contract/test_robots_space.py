"""The store's contract: what large robots.txt files of one registrable domain take."""

from __future__ import annotations

import random
from typing import Any

import pytest

from policies.robots_state import NO_SPACE, RobotsState
from storage.engine import robots_copies
from tests.storage.contract.test_robots import put

KB = 1_000


def large(seed: int) -> RobotsState:
    """It cannot be packed."""
    return RobotsState(status=200, body=b"#" + random.Random(seed).randbytes(20 * KB), failures=0)


async def stored(rig: Any, n: int, seed: int, domain: str = "a.test") -> str | None:
    slot = f"h{n}.{domain}"
    done = await rig.store.robots_put(rig.session, slot, f"http://{slot}", large(seed))
    refused: str | None = done.refused
    return refused


@pytest.fixture(autouse=True)
def little_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_copies, "DOMAIN_BYTES_MAX", 100 * KB)


async def test_a_domain_has_its_space_and_others_have_theirs(rig: Any) -> None:
    assert [await stored(rig, n, n) for n in range(6)] == [None] * 4 + [NO_SPACE] * 2
    assert await rig.store.robots_get("http://h5.a.test") is None
    assert await stored(rig, 1, 100, "b.test") is None
    small = RobotsState(status=200, body=b"User-agent: *", failures=0)
    await put(rig, "http://h7.a.test", small, slot="h7.a.test")
    assert await rig.store.robots_get("http://h7.a.test") == small


async def test_identical_files_count_once(rig: Any) -> None:
    assert [await stored(rig, n, 1) for n in range(20)] == [None] * 20


async def test_files_that_only_explain_make_room(rig: Any) -> None:
    """Each host has another file each time: the one in force and none before it is needed."""
    for seed in range(30):
        assert await stored(rig, seed % 3, seed) is None
    for n in range(3):
        found = await rig.store.robots_get(f"http://h{n}.a.test")
        assert found is not None
        assert found.body == large(27 + n).body


async def test_a_lease_has_no_large_file(rig: Any) -> None:
    await put(rig, "http://a.test", large(1))
    await put(rig, "http://a.test:81", RobotsState(status=200, body=b"x", failures=0))
    lease = (await rig.store.acquire(rig.session, ["a.test"]))["a.test"]
    assert list(lease.robots) == ["http://a.test:81"]
    assert lease.robots_large == {"http://a.test": 20 * KB + 1}
    assert lease.robots_all
