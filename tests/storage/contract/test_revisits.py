"""Visited URLs that are visited again: due, handed out among new ones, in one state throughout."""

from __future__ import annotations

from typing import Any

from policies.listing import Changefreq, Listing
from policies.robots_state import RobotsState
from storage.store import Moved

PAGE = "http://a.test/page"
HOUR_S = 3600.0


async def planned(rig: Any, *urls: str, in_s: float = HOUR_S, release: bool = True) -> Any:
    """Visited once, each to be visited again in so many seconds; the lease."""
    await rig.add(*(urls or (PAGE,)))
    lease = await rig.claim_one()
    outcomes = [rig.visited(queued, plan=rig.plan(in_s)) for queued in lease.prefetched.urls]
    await rig.commit(lease, *outcomes, release=release)
    return lease


async def due(rig: Any, count: int = 9, **values: Any) -> tuple[Any, Any]:
    """The host leased, and what it is given."""
    (lease,) = (await rig.store.acquire(rig.session, ["a.test"])).values()
    done = await rig.commit(lease, want=count, revisits=True, **values)
    return lease, done.prefetched["a.test"]


async def test_it_stays_visited_and_falls_due(rig: Any) -> None:
    await planned(rig)
    assert await rig.claim() == []
    assert await rig.store.revisits_due(rig.session, limit=9) == []
    assert (await rig.store.outlook(rig.session)).revisit_in_s == HOUR_S
    rig.wall_s += HOUR_S
    assert await rig.store.revisits_due(rig.session, limit=9) == ["a.test"]
    assert (await rig.store.outlook(rig.session)).revisit_in_s == 0.0
    _, hand = await due(rig)
    (queued,) = hand.urls
    assert (queued.url, queued.before.status, queued.before.plan.visits) == (PAGE, 200, 1)
    assert await rig.urls("visited") == [PAGE]
    assert await rig.urls("queued") == []
    assert (await rig.store.stats()).queued == 0
    assert await rig.store.revisits_due(rig.session, limit=9) == []  # it is held


async def test_only_who_wants_revisits_is_given_them(rig: Any) -> None:
    await planned(rig)
    rig.wall_s += 2 * HOUR_S
    (lease,) = (await rig.store.acquire(rig.session, ["a.test"])).values()
    done = await rig.commit(lease, want=9)
    assert (done.prefetched["a.test"].urls, done.prefetched["a.test"].next_revisit_in_s) == (
        [],
        None,
    )


async def test_what_is_held_or_closed_is_not_given(rig: Any) -> None:
    await planned(rig, PAGE, "https://a.test/other")
    rig.wall_s += 2 * HOUR_S
    lease, hand = await due(rig)
    ids = {queued.url: queued.id for queued in hand.urls}
    done = await rig.commit(lease, want=9, revisits=True, held=[ids[PAGE]])
    assert [queued.url for queued in done.prefetched["a.test"].urls] == ["https://a.test/other"]
    done = await rig.commit(lease, want=9, revisits=True, closed=["http://a.test"])
    assert [queued.url for queued in done.prefetched["a.test"].urls] == ["https://a.test/other"]


async def test_when_the_next_one_is_due(rig: Any) -> None:
    await rig.add(*(f"http://a.test/{n}" for n in range(3)))
    lease = await rig.claim_one()
    outcomes = [
        rig.visited(queued, plan=rig.plan(in_s))
        for queued, in_s in zip(lease.prefetched.urls, (10.0, 20.0, 30.0), strict=True)
    ]
    done = await rig.commit(lease, *outcomes, want=9, revisits=True)
    assert (done.prefetched["a.test"].urls, done.prefetched["a.test"].next_revisit_in_s) == (
        [],
        10.0,
    )
    rig.wall_s += 20
    done = await rig.commit(lease, want=1, revisits=True)
    assert [queued.url for queued in done.prefetched["a.test"].urls] == ["http://a.test/0"]
    assert done.prefetched["a.test"].next_revisit_in_s == 0.0
    done = await rig.commit(lease, want=9, revisits=True)
    assert done.prefetched["a.test"].next_revisit_in_s == 10.0


async def test_new_urls_go_first_but_for_a_quarter(rig: Any) -> None:
    await planned(rig, *(f"http://a.test/old/{n}" for n in range(9)))
    await rig.add(*(f"http://a.test/new/{n}" for n in range(9)))
    rig.wall_s += 2 * HOUR_S
    _, hand = await due(rig, 8)
    kinds = [queued.url.split("/")[3] for queued in hand.urls]
    assert kinds == ["new"] * 6 + ["old"] * 2
    assert (hand.next_due_in_s, hand.next_revisit_in_s) == (0.0, 0.0)


async def test_only_revisits_may_be_wanted(rig: Any) -> None:
    await planned(rig)
    await rig.add("http://a.test/new")
    rig.wall_s += 2 * HOUR_S
    _, hand = await due(rig, queued=False)
    assert [queued.url for queued in hand.urls] == [PAGE]
    assert hand.next_due_in_s is None


async def test_nothing_new_moves_its_next_visit_alone(rig: Any) -> None:
    await planned(rig)
    (before,) = await rig.rows("visited")
    rig.wall_s += 2 * HOUR_S
    lease, hand = await due(rig)
    plan = rig.plan(7200.0, visits=2, changed_at=5.0, etag='"1"', last_modified="x", failures=3)
    outcome = rig.revisited(hand.urls[0], 1.0)
    await rig.commit(lease, type(outcome)(id=outcome.id, slot="a.test", plan=plan))
    (row,) = await rig.rows("visited")
    moved = {"visits": 2, "checked_at": rig.wall_s, "changed_at": 5.0}
    assert row == before | moved | {"next_visit_at": rig.wall_s + 7200.0}
    rig.wall_s += 7200.0
    done = await rig.commit(lease, want=1, revisits=True)
    (queued,) = done.prefetched["a.test"].urls
    known = queued.before.plan
    assert (known.etag, known.last_modified, known.failures) == ('"1"', "x", 3)
    assert (known.interval_s, known.changed_at) == (100.0, 5.0)


async def test_a_change_replaces_the_page(rig: Any) -> None:
    await planned(rig)
    rig.wall_s += 2 * HOUR_S
    lease, hand = await due(rig)
    await rig.commit(
        lease,
        rig.visited(
            hand.urls[0], again=True, status=404, body_bytes=7, links=["http://a.test/new"],
            plan=rig.plan(50.0, visits=2), body_hash="00000000000000ff",
        ),
    )  # fmt: skip
    (row,) = await rig.rows("visited")
    assert (row["status"], row["body_bytes"], row["visits"]) == (404, 7, 2)
    assert (await rig.store.stats()).body_bytes == 7
    assert await rig.urls("queued") == ["http://a.test/new"]
    rig.wall_s += 50.0
    done = await rig.commit(lease, want=4, revisits=True)
    (again,) = [one for one in done.prefetched["a.test"].urls if one.before]
    assert (again.before.status, again.before.body_hash) == (404, "00000000000000ff")


async def test_a_redirect_of_before_is_known(rig: Any) -> None:
    await rig.add(PAGE)
    lease = await rig.claim_one()
    (queued,) = lease.prefetched.urls
    target = "http://a.test/there"
    await rig.commit(lease, rig.redirect(queued, target, plan=rig.plan(1.0)))
    rig.wall_s += 2
    done = await rig.commit(lease, want=4, revisits=True)
    (again,) = [one for one in done.prefetched["a.test"].urls if one.before]
    assert (again.before.redirect_url, again.before.status) == (target, 301)


async def test_what_is_disallowed_by_now_is_withdrawn(rig: Any) -> None:
    await planned(rig)
    rig.wall_s += 2 * HOUR_S
    lease, hand = await due(rig)
    await rig.commit(lease, rig.blocked(hand.urls[0]), release=True)
    assert await rig.urls("visited") == []
    (row,) = await rig.rows("blocked")
    assert (row["url"], row["withdrawn"]) == (PAGE, 1)
    assert (await rig.store.outlook(rig.session)).revisit_in_s is None


async def test_without_a_plan_it_is_not_visited_again(rig: Any) -> None:
    await planned(rig)
    rig.wall_s += 2 * HOUR_S
    lease, hand = await due(rig)
    await rig.commit(lease, rig.revisited(hand.urls[0], None), release=True)
    assert (await rig.store.outlook(rig.session)).revisit_in_s is None
    (row,) = await rig.rows("visited")
    assert (row["visits"], row["next_visit_at"]) == (1, None)


async def test_outcomes_of_a_visit_again_count_for_visited_urls_only(rig: Any) -> None:
    await rig.add(PAGE)
    lease = await rig.claim_one()
    (queued,) = lease.prefetched.urls
    again = rig.visited(queued, again=True, plan=rig.plan(1.0))
    await rig.commit(lease, again, rig.revisited(queued, 1.0))
    assert await rig.urls("queued") == [PAGE]
    await rig.commit(lease, rig.visited(queued))
    await rig.commit(lease, rig.retry(queued, 5.0), rig.failed(queued), rig.visited(queued))
    assert await rig.urls("visited") == [PAGE]


async def test_plans_outlive_a_crash(rig: Any) -> None:
    await planned(rig, release=False)
    rig.wall_s += 2 * HOUR_S
    await rig.crash()
    assert await rig.store.revisits_due(rig.session, limit=9) == ["a.test"]
    _, hand = await due(rig)
    assert [queued.url for queued in hand.urls] == [PAGE]
    await rig.crash()  # while it is being visited
    _, hand = await due(rig)
    assert [queued.url for queued in hand.urls] == [PAGE]
    assert await rig.urls("visited") == [PAGE]


async def test_hosts_that_are_paused_or_rest_are_left_alone(rig: Any) -> None:
    from storage.store import HostClock

    lease = await planned(rig, release=False)
    await rig.commit(lease, clock=HostClock(next_in_s=2 * HOUR_S), release=True)
    rig.wall_s += HOUR_S
    assert await rig.store.revisits_due(rig.session, limit=9) == []
    assert (await rig.store.outlook(rig.session)).revisit_in_s == HOUR_S
    rig.wall_s += HOUR_S
    await rig.store.set_controls(["a.test"], paused=True)
    assert await rig.store.revisits_due(rig.session, limit=9) == []
    assert (await rig.store.outlook(rig.session)).revisit_in_s is None
    await rig.store.set_controls(["a.test"], paused=False)
    assert await rig.store.revisits_due(rig.session, limit=9) == ["a.test"]


async def test_hosts_whose_pages_wait_longest_come_first(rig: Any) -> None:
    for host, in_s in (("a.test", 30.0), ("b.test", 10.0), ("c.test", 20.0)):
        await rig.add(f"http://{host}/")
        lease = await rig.claim_one()
        page = rig.visited(lease.prefetched.urls[0], host, plan=rig.plan(in_s))
        await rig.commit(lease, page, release=True)
    rig.wall_s += 60
    assert list(await rig.store.revisits_due(rig.session, limit=2)) == ["b.test", "c.test"]


async def test_a_sitemap_that_knows_of_a_change_hastens_the_next_visit(rig: Any) -> None:
    await planned(rig)
    visited_at = rig.wall_s
    rig.wall_s += 60
    for lastmod_at, in_s in (
        (visited_at - 5, HOUR_S - 60), (rig.wall_s + 9, HOUR_S - 60), (visited_at + 5, 0.0)
    ):  # fmt: skip
        listing = Listing(lastmod_at=lastmod_at, changefreq=Changefreq.DAILY)
        await rig.store.add([rig.link(PAGE, listing=listing)])
        assert (await rig.store.outlook(rig.session)).revisit_in_s == in_s
    _, hand = await due(rig)
    assert hand.urls[0].listing.changefreq is Changefreq.DAILY


async def test_a_queued_url_knows_what_a_sitemap_says(rig: Any) -> None:
    listing = Listing(changefreq=Changefreq.HOURLY, lastmod_at=1_700_000_000.0, priority=0.5)
    await rig.store.add([rig.link(PAGE, listing=listing), rig.link("http://a.test/2")])
    lease = await rig.claim_one()
    assert [queued.listing for queued in lease.prefetched.urls] == [listing, None]


async def test_pages_visited_before_anybody_wanted_to_come_back_get_a_plan(rig: Any) -> None:
    await rig.add(PAGE, "http://a.test/2", "http://a.test/3")
    lease = await rig.claim_one()
    one, two, three = lease.prefetched.urls
    await rig.commit(
        lease,
        rig.visited(one),
        rig.visited(two, status=404),
        rig.visited(three, plan=rig.plan(9.0)),
        release=True,
    )  # fmt: skip
    found, after = await rig.store.unplanned(rig.session, after=0, limit=9)
    assert [(page.url, page.status) for page in found] == [(PAGE, 200), ("http://a.test/2", 404)]
    assert after is None
    some, after = await rig.store.unplanned(rig.session, after=0, limit=1)
    more, after = await rig.store.unplanned(rig.session, after=after, limit=9)
    assert ([*some, *more], after) == (found, None)
    plans = {page.id: rig.plan(5.0) for page in found} | {
        three.id: rig.plan(1.0),
        99: rig.plan(1.0),
    }
    await rig.store.plan(rig.session, plans)
    assert await rig.store.unplanned(rig.session, after=0, limit=9) == ([], None)
    assert (await rig.store.outlook(rig.session)).revisit_in_s == 5.0


async def test_plans_move_with_their_origin(rig: Any) -> None:
    lease = await planned(rig, release=False)
    await rig.add("http://a.test/new")
    done = await rig.commit(lease, want=1)
    (queued,) = done.prefetched["a.test"].urls
    await rig.commit(lease, Moved(id=queued.id, slot="a.test", to_slot="test"), release=True)
    rig.wall_s += 2 * HOUR_S
    assert await rig.store.revisits_due(rig.session, limit=9) == ["test"]


async def test_what_became_a_sitemap_is_no_page_to_be_visited_again(rig: Any) -> None:
    await planned(rig)
    await rig.add(PAGE, sitemap=True)
    assert (await rig.store.outlook(rig.session)).revisit_in_s is None


async def test_a_page_withdrawn_by_a_late_robots_txt_is_not_visited_again(rig: Any) -> None:
    await rig.add(PAGE)
    lease = await rig.claim_one()
    (queued,) = lease.prefetched.urls
    await rig.commit(lease, rig.visited(queued, ungoverned=True, plan=rig.plan(1.0)), release=True)
    await rig.store.robots_put(
        rig.session, "a.test", "http://a.test", RobotsState(status=200, body=b"")
    )
    await rig.store.rejudge(rig.session, kept=[], withdrawn=[rig.blocked(queued)], freed=[])
    assert (await rig.store.outlook(rig.session)).revisit_in_s is None


async def test_a_sitemap_is_read_again_when_its_plan_says_so(rig: Any) -> None:
    await rig.add(PAGE, sitemap=True)
    lease = await rig.claim_one()
    read = rig.read(lease.prefetched.urls[0], plan=rig.plan(HOUR_S, etag='"1"'))
    await rig.commit(lease, read, release=True)
    rig.wall_s += HOUR_S
    assert await rig.store.revisits_due(rig.session, limit=9) == ["a.test"]
    lease, hand = await due(rig)
    (queued,) = hand.urls
    assert (queued.sitemap, queued.before.status, queued.before.plan.etag) == (True, 200, '"1"')
    again = rig.read(queued, urls=9, again=True, plan=rig.plan(HOUR_S))
    await rig.commit(lease, again, release=True)
    assert [row["urls"] for row in await rig.rows("sitemaps")] == [9]
    rig.wall_s += HOUR_S
    lease, hand = await due(rig)
    await rig.commit(lease, rig.revisited(hand.urls[0], 5.0), release=True)
    assert (await rig.store.outlook(rig.session)).revisit_in_s == 5.0
    await rig.add(PAGE, sitemap=True, again_before=rig.wall_s + 1)  # named anew, before its time
    assert (await rig.store.outlook(rig.session)).revisit_in_s is None
    assert await rig.urls("queued") == [PAGE]
    lease = await rig.claim_one()
    (queued,) = lease.prefetched.urls
    assert queued.before is None
    await rig.commit(lease, rig.read(queued, again=True))
    assert await rig.urls("queued") == [PAGE]
    await rig.commit(lease, rig.read(queued, plan=rig.plan(3.0)), release=True)
    assert (await rig.store.outlook(rig.session)).revisit_in_s == 3.0


async def test_what_was_said_of_its_use_is_handed_back(rig: Any) -> None:
    """As written; and without it, "" for a page that was recorded without any restriction."""
    said: list[dict[str, Any]] = [
        {"declared": "x-robots-tag=noindex"},
        {},
        {"declared": ""},
    ]
    pages: list[dict[str, Any]] = [{}, {}, {"indexable": False}, {"usage": "tdm-reservation: 1"}]
    urls = {}
    for place, (plan, page) in enumerate((plan, page) for plan in said for page in pages):
        urls[f"http://a.test/{place}"] = (plan.get("declared"), page)
    await rig.add(*urls)
    lease = await rig.claim_one(99)
    outcomes = []
    for queued in lease.prefetched.urls:
        declared, page = urls[queued.url]
        plan = rig.plan(HOUR_S, declared=declared)
        outcomes.append(rig.visited(queued, plan=plan, **page))
    await rig.commit(lease, *outcomes, release=True)
    rig.wall_s += HOUR_S
    _, hand = await due(rig, 99)
    assert {queued.url: queued.before.plan.declared for queued in hand.urls} == {
        url: "" if declared is None and not page else declared
        for url, (declared, page) in urls.items()
    }
