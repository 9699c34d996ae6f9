"""The next URLs of a host are those that are leased next; and some URLs of an origin."""

from __future__ import annotations

from typing import Any

import pytest


async def urls(rig: Any, host: str, **asked: Any) -> list[str]:
    rows = await rig.reader.next_urls(host, now_s=rig.wall_s, **asked)
    return [row["url"] for row in rows]


async def test_they_come_in_the_order_of_a_lease(rig: Any) -> None:
    for number, priority in ((1, 0.0), (2, 5.0), (3, -1.0), (4, 5.0)):
        await rig.add(f"http://a.test/{number}", priority=priority)
    await rig.add("https://a.test/x", slot="a.test", priority=2.0)
    await rig.add("http://b.test/")
    expected = [
        "http://a.test/2", "http://a.test/4", "https://a.test/x", "http://a.test/1",
        "http://a.test/3",
    ]  # fmt: skip
    assert await urls(rig, "a.test") == expected
    assert await urls(rig, "a.test", limit=3) == expected[:3]
    assert await urls(rig, "nobody.test") == await urls(rig, "\0") == []
    leases = {lease.slot: lease for lease in await rig.claim(5, 5)}
    assert [queued.url for queued in leases["a.test"].prefetched.urls] == expected
    assert await urls(rig, "a.test") == expected  # a lease changes nothing
    (row, *_) = await rig.reader.next_urls("a.test", now_s=rig.wall_s)
    assert (row["priority"], row["depth"], row["due_at"]) == (5.0, 0, None)
    assert (row["attempts"], row["error"], row["sitemap"]) == (0, None, False)


async def test_retries_come_when_they_are_due(rig: Any) -> None:
    await rig.add("http://a.test/1", "http://a.test/2", "http://a.test/3")
    lease = await rig.claim_one(3)
    first, second, _ = lease.prefetched.urls
    await rig.commit(lease, rig.retry(first, 100.0), rig.retry(second, 10.0))
    assert await urls(rig, "a.test") == ["http://a.test/3", "http://a.test/2", "http://a.test/1"]
    later = (await rig.reader.next_urls("a.test", now_s=rig.wall_s))[2]
    assert later["due_at"] == pytest.approx(rig.wall_s + 100.0, abs=1.0)
    assert (later["attempts"], bool(later["error"])) == (1, True)
    rig.wall_s += 1_000.0
    due = await urls(rig, "a.test")
    assert set(due) == {f"http://a.test/{number}" for number in (1, 2, 3)}


async def test_some_urls_of_an_origin(rig: Any) -> None:
    await rig.add(*(f"http://a.test/{number}" for number in range(6)), "http://b.test/")
    lease = next(one for one in await rig.claim(5, 3) if one.slot == "a.test")
    gone, seen, forbidden = lease.prefetched.urls
    await rig.commit(lease, rig.failed(gone), rig.visited(seen), rig.blocked(forbidden))
    sampled = await rig.reader.sampled_urls("http://a.test")
    known = {f"http://a.test/{number}" for number in range(6)}
    assert set(sampled) == known - {gone.url, forbidden.url}
    assert len(await rig.reader.sampled_urls("http://a.test", limit=2)) <= 2
    assert list(await rig.reader.sampled_urls("http://nobody.test")) == []


async def test_a_wrong_limit_is_refused(rig: Any) -> None:
    with pytest.raises(ValueError, match="rows"):
        await rig.reader.next_urls("a.test", limit=0, now_s=rig.wall_s)
