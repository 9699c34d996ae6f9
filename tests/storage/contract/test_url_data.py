"""Data that is added with URLs, and referrers: given with the URL, in every state of it."""

from __future__ import annotations

from typing import Any

from storage.store import Dropped, Moved, Queued
from tests.storage.conftest import selected

A, B = "http://a.test/1", "http://a.test/2"


async def prefetched(rig: Any, **values: Any) -> dict[str, Queued]:
    (lease,) = await rig.claim(1, 10, **values)
    await rig.commit(lease, release=True)
    return {queued.url: queued for queued in lease.prefetched.urls}


async def test_data_is_given_with_its_url_also_after_a_crash(rig: Any) -> None:
    await rig.add(A, data='{"id":1}', seed=True)
    await rig.add(B)
    await rig.crash()
    found = await prefetched(rig)
    assert (found[A].data, found[B].data) == ('{"id":1}', None)
    assert await selected(rig.store, "SELECT json FROM data") == [('{"id":1}',)]
    row = await rig.reader.url(A)
    assert row["data"] == '{"id":1}'
    assert (await rig.reader.url(B))["data"] is None


async def test_any_text_comes_back_as_it_was(rig: Any) -> None:
    text = '["\\ud800","\\u0000","\\"",1e400,12345678901234567890123,null]'
    await rig.add(A, data=text)
    assert (await prefetched(rig))[A].data == text


async def test_a_retry_keeps_it(rig: Any) -> None:
    await rig.add(A, data="1")
    lease = await rig.claim_one()
    await rig.commit(lease, rig.retry(lease.prefetched.urls[0], 0.0))
    done = await rig.commit(lease, want=5)
    assert [(one.attempts, one.data) for one in done.prefetched["a.test"].urls] == [(1, "1")]


async def test_a_link_to_a_known_url_does_not_change_its_data(rig: Any) -> None:
    await rig.add(A, data="1")
    await rig.add(A, data="2")
    await rig.add(B)
    await rig.add(B, data="2")
    found = await prefetched(rig)
    assert (found[A].data, found[B].data) == ("1", None)


async def test_a_seed_with_data_replaces_it(rig: Any) -> None:
    await rig.add(A, data="1")
    await rig.add(A, B, seed=True)
    assert (await prefetched(rig))[A].data == "1", "without data it changes nothing"
    await rig.add(A, B, data="2", seed=True)
    found = await prefetched(rig)
    assert (found[A].data, found[B].data) == ("2", "2")


async def test_the_links_of_a_page_have_data_of_their_own(rig: Any) -> None:
    await rig.add(A)
    lease = await rig.claim_one()
    links = [rig.link(B, data='"b"', depth=1), rig.link("http://b.test/", data='"c"', depth=1)]
    await rig.commit(lease, rig.visited(lease.prefetched.urls[0], links=links), release=True)
    leases = await rig.claim(referrers=True)
    found = {one.url: one for lease in leases for one in lease.prefetched.urls}
    assert (found[B].data, found["http://b.test/"].data) == ('"b"', '"c"')
    assert {one.referrer for one in found.values()} == {A}


async def test_referrers_are_given_where_they_are_asked_for(rig: Any) -> None:
    await rig.add(A)
    lease = await rig.claim_one()
    visited = rig.visited(lease.prefetched.urls[0], links=[rig.link(B, depth=1)])
    done = await rig.commit(lease, visited, want=5)
    assert [one.referrer for one in done.prefetched["a.test"].urls] == [None]
    done = await rig.commit(lease, want=5, referrers=True)
    assert [one.referrer for one in done.prefetched["a.test"].urls] == [A]


async def test_a_revisit_has_its_data_and_referrer(rig: Any) -> None:
    await rig.add(A)
    lease = await rig.claim_one()
    links = [rig.link(B, data="[2]", depth=1)]
    await rig.commit(lease, rig.visited(lease.prefetched.urls[0], links=links))
    (queued,) = (await rig.commit(lease, want=5)).prefetched["a.test"].urls
    await rig.commit(lease, rig.visited(queued, plan=rig.plan(0.0)))
    done = await rig.commit(lease, want=5, revisits=True, referrers=True)
    (again,) = done.prefetched["a.test"].urls
    assert again.before is not None
    assert (again.data, again.referrer) == ("[2]", A)


async def test_what_was_dropped_and_is_found_again_keeps_it_or_gets_another(rig: Any) -> None:
    for data, then, kept in (("1", None, "1"), ("1", "2", "2"), (None, "2", "2")):
        url = f"http://x{data}-{then}.test/".lower()
        slot = url[7:-1]
        await rig.add(url, data=data)
        lease = await rig.claim_one()
        await rig.commit(
            lease,
            Dropped(id=lease.prefetched.urls[0].id, slot=slot, reason="excluded"),
            release=True,
        )
        await rig.add(url, data=then)
        lease = await rig.claim_one()
        assert [one.data for one in lease.prefetched.urls] == [kept]
        await rig.commit(lease, rig.visited(lease.prefetched.urls[0], slot), release=True)


async def test_it_moves_with_its_origin_and_is_kept_when_a_failed_url_is_queued_again(
    rig: Any,
) -> None:
    await rig.add(A, data="1")
    lease = await rig.claim_one()
    (queued,) = lease.prefetched.urls
    await rig.commit(lease, Moved(id=queued.id, slot="a.test", to_slot="other"), release=True)
    (lease,) = await rig.claim()
    assert (lease.slot, [one.data for one in lease.prefetched.urls]) == ("other", ["1"])
    await rig.commit(lease, rig.failed(lease.prefetched.urls[0], "other"), release=True)
    assert (await rig.reader.url(A))["data"] == "1"
    assert await rig.store.retry_failed() == 1
    (lease,) = await rig.claim()
    assert [one.data for one in lease.prefetched.urls] == ["1"]
