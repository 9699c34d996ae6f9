"""Sitemaps and feeds: queued like pages, never among them, and what they say of URLs."""

from __future__ import annotations

from typing import Any

import pytest

from policies.listing import Changefreq, Listing
from policies.robots_state import RobotsState

MAP = "http://a.test/sitemap.xml"
PAGE = "http://a.test/page"


async def read_once(rig: Any, **values: Any) -> Any:
    await rig.add(MAP, sitemap=True)
    lease = await rig.claim_one()
    (queued,) = lease.prefetched.urls
    assert queued.sitemap
    await rig.commit(lease, rig.read(queued, **values), release=True)
    return queued


async def test_a_sitemap_that_was_read_is_in_no_view_of_pages(rig: Any) -> None:
    await read_once(rig, error="cut short", kind=None)
    for view in ("visited", "blocked", "failed", "queued"):
        assert await rig.urls(view) == []
    (row,) = await rig.rows("sitemaps")
    assert row == {
        "url": MAP, "kind": None, "status": 200, "fetched_at": rig.wall_s, "body_bytes": 500,
        "urls": 3, "error": "cut short", "depth": 0, "referrer": None,
    }  # fmt: skip
    stats = await rig.reader.stats()
    assert (stats.visited, stats.queued) == (0, 0)
    known = await rig.reader.url(MAP)
    assert (known["state"], known["sitemap"], known["kind"]) == ("sitemaps", True, None)


async def test_neither_a_link_nor_its_name_queues_it_again(rig: Any) -> None:
    await read_once(rig)
    await rig.crash()
    await rig.add(MAP)
    await rig.add(MAP, sitemap=True)
    await rig.add(MAP, sitemap=True, again_before=rig.wall_s)
    assert await rig.urls("queued") == []
    assert await rig.claim() == []


@pytest.mark.parametrize(("back_s", "again"), [(80_000, False), (30 * 86_400, True)])
async def test_a_reading_that_lies_ahead_hides_nothing_until_then(
    rig: Any, back_s: float, again: bool
) -> None:
    """The wall clock was set back since."""
    await read_once(rig)
    rig.wall_s -= back_s
    await rig.add(MAP, sitemap=True, again_before=rig.wall_s - 60)
    assert await rig.urls("queued") == ([MAP] if again else [])


async def test_it_is_read_again_when_it_was_read_too_long_ago(rig: Any) -> None:
    await read_once(rig)
    added = await rig.add(MAP, sitemap=True, again_before=rig.wall_s + 1)
    assert dict(added.added) == {"a.test": 1}
    assert await rig.urls("queued") == [MAP]
    assert await rig.urls("sitemaps") == [MAP]  # as it was read before
    lease = await rig.claim_one()
    assert lease.prefetched.urls[0].sitemap
    rig.wall_s += 60
    await rig.commit(lease, rig.read(lease.prefetched.urls[0], urls=4))
    (row,) = await rig.rows("sitemaps")
    assert (row["urls"], row["fetched_at"]) == (4, rig.wall_s)


async def test_what_was_taken_for_a_page_becomes_a_sitemap(rig: Any) -> None:
    await rig.add(PAGE, MAP, depth=2)
    lease = await rig.claim_one()
    page, queued = lease.prefetched.urls
    await rig.commit(lease, rig.visited(page), rig.visited(queued))
    await rig.add(MAP, sitemap=True)
    assert await rig.urls("visited") == [PAGE]
    assert await rig.urls("queued") == [MAP]
    done = await rig.commit(lease, want=5)
    (queued,) = done.prefetched["a.test"].urls
    assert (queued.sitemap, queued.depth) == (True, 0)


async def test_a_page_in_the_queue_becomes_a_sitemap_there(rig: Any) -> None:
    await rig.add(MAP)
    await rig.add(MAP, sitemap=True)
    (queued,) = (await rig.claim_one()).prefetched.urls
    assert queued.sitemap


async def test_a_page_that_turns_out_to_be_a_sitemap_is_read_as_one(rig: Any) -> None:
    await rig.add(MAP, seed=True)
    lease = await rig.claim_one()
    await rig.commit(lease, rig.read(lease.prefetched.urls[0], kind="rss"))
    assert await rig.urls("sitemaps") == [MAP]
    assert [urls async for urls in rig.store.seeds()] == [[MAP]]


async def test_a_seed_that_proved_to_be_one_is_read_again_when_it_is_given_again(rig: Any) -> None:
    await rig.add(MAP, seed=True)
    lease = await rig.claim_one()
    await rig.commit(lease, rig.read(lease.prefetched.urls[0]), release=True)
    await rig.add(MAP, seed=True, again_before=rig.wall_s)
    assert await rig.urls("queued") == []
    await rig.add(MAP, seed=True, again_before=rig.wall_s + 1)
    assert await rig.urls("queued") == [MAP]


async def test_a_disallowed_sitemap_is_blocked_and_stays_one(rig: Any) -> None:
    await rig.add(MAP, sitemap=True)
    lease = await rig.claim_one()
    (queued,) = lease.prefetched.urls
    await rig.commit(lease, rig.blocked(queued))
    assert await rig.urls("blocked") == [MAP]
    await rig.store.rejudge(rig.session, kept=[], withdrawn=[], freed=[queued.id])
    done = await rig.commit(lease, want=5)
    assert done.prefetched["a.test"].urls[0].sitemap


async def test_it_is_retried_and_fails_like_a_page_and_stays_one(rig: Any) -> None:
    await rig.add(MAP, sitemap=True)
    lease = await rig.claim_one()
    (queued,) = lease.prefetched.urls
    done = await rig.commit(lease, rig.retry(queued, 0.0), want=5)
    assert done.prefetched["a.test"].urls[0].sitemap
    await rig.commit(lease, rig.failed(queued), release=True)
    assert await rig.urls("failed") == [MAP]
    await rig.store.retry_failed()
    lease = await rig.claim_one()
    assert lease.prefetched.urls[0].sitemap
    update = {"error": "dns: gone", "attempts": 1, "last_at": rig.wall_s}
    from storage.store import HostClock, HostUpdate

    held = HostUpdate(slot="a.test", epoch=lease.epoch, clock=HostClock())
    assert await rig.store.fail_host(rig.session, held, **update) == 1
    await rig.store.retry_failed()
    done = await rig.commit(lease, want=5)
    assert done.prefetched["a.test"].urls[0].sitemap


async def test_one_left_out_is_queued_again_by_a_link_as_what_the_link_says(rig: Any) -> None:
    from storage.store import Dropped

    await rig.add(MAP, sitemap=True)
    lease = await rig.claim_one()
    await rig.commit(
        lease,
        Dropped(id=lease.prefetched.urls[0].id, slot="a.test", reason="sitemaps"),
        release=True,
    )
    assert (await rig.reader.url(MAP))["state"] == "skipped"
    await rig.add(MAP)
    assert not (await rig.claim_one()).prefetched.urls[0].sitemap


async def test_its_redirect_is_a_link_to_a_sitemap(rig: Any) -> None:
    await rig.add(MAP, sitemap=True)
    lease = await rig.claim_one()
    target = rig.link("http://a.test/other.xml", sitemap=True, depth=1)
    await rig.commit(lease, rig.read(lease.prefetched.urls[0], status=301, links=[target]), want=5)
    assert await rig.urls("queued") == ["http://a.test/other.xml"]
    assert (await rig.reader.url("http://a.test/other.xml"))["referrer"] == MAP


async def test_entries_know_the_sitemap_that_lists_them(rig: Any) -> None:
    queued = await read_once(rig)
    listing = Listing(lastmod_at=1_700_000_000.0, changefreq=Changefreq.DAILY, priority=0.8)
    link = rig.link(PAGE, depth=1, priority=0.3, listing=listing)
    done = await rig.store.add([link], referrer=queued.id)
    assert dict(done.added) == {"a.test": 1}
    known = await rig.reader.url(PAGE)
    assert (known["state"], known["referrer"], known["priority"]) == ("queued", MAP, 0.3)
    row = {"url": PAGE, "lastmod_at": 1_700_000_000.0, "changefreq": "daily", "priority": 0.8}
    assert known["listing"] == row
    assert await rig.rows("listings") == [row]


async def test_what_is_said_last_counts_also_of_a_url_that_is_known(rig: Any) -> None:
    await rig.add(PAGE)
    for priority in (0.1, 0.9):
        await rig.store.add([rig.link(PAGE, listing=Listing(priority=priority))])
    (row,) = await rig.rows("listings")
    assert (row["priority"], row["lastmod_at"], row["changefreq"]) == (0.9, None, None)
    assert (await rig.reader.url(PAGE))["priority"] == 0.0  # as it was found first


async def test_entries_that_name_only_the_url_are_listed_too(rig: Any) -> None:
    """They replace nothing that an entry stated before, or states in the same batch."""
    other = "http://a.test/other"
    said = Listing(changefreq=Changefreq.DAILY)
    batch = [(PAGE, said), (PAGE, Listing()), (other, Listing())]
    await rig.store.add([rig.link(url, listing=listing) for url, listing in batch])
    await rig.store.add([rig.link(PAGE, listing=Listing())])
    found = {row["url"]: row["changefreq"] for row in await rig.rows("listings")}
    assert found == {PAGE: "daily", other: None}
    await rig.store.add([rig.link(other, listing=said)])
    found = {row["url"]: row["changefreq"] for row in await rig.rows("listings")}
    assert found == {PAGE: "daily", other: "daily"}


async def test_sitemaps_are_committed_with_the_robots_txt_that_names_them(rig: Any) -> None:
    await rig.add(PAGE)
    lease = await rig.claim_one()
    done = await rig.store.robots_put(
        rig.session, "a.test", "http://a.test", RobotsState(status=200, body=b""),
        links=[rig.link(MAP, sitemap=True), rig.link("http://cdn.test/map.xml", sitemap=True)],
    )  # fmt: skip
    assert dict(done.added) == {"a.test": 1, "cdn.test": 1}
    await rig.crash()
    assert sorted(await rig.urls("queued")) == sorted([MAP, PAGE, "http://cdn.test/map.xml"])
    assert lease.slot == "a.test"
