"""The store's contract: what becomes of URLs."""

from __future__ import annotations

import itertools

import pytest

from storage.store import Batch, BlockReason, Dropped, HostClock, HostUpdate, Moved, Prefetch, Stats


async def test_a_link_is_inserted_once(rig):
    first = await rig.add("http://a.test/", "http://a.test/b", "http://a.test/")
    again = await rig.add("http://a.test/b", "http://b.test/")
    assert dict(first.added) == {"a.test": 2}
    assert dict(again.added) == {"b.test": 1}
    assert await rig.urls("queued") == ["http://a.test/", "http://a.test/b", "http://b.test/"]
    assert await rig.store.stats() == Stats(
        visited=0, blocked=0, failed=0, queued=3, hosts=2, body_bytes=0
    )


async def test_what_a_page_needs_to_be_shown_stays_marked(rig):
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    links = [rig.link("http://a.test/i.png", requisite=True), rig.link("http://a.test/b")]
    done = await rig.commit(lease, rig.visited(lease.prefetched.urls[0], links=links), want=5)
    marks = {q.url: q.requisite for q in done.prefetched["a.test"].urls}
    assert marks == {"http://a.test/i.png": True, "http://a.test/b": False}
    one = next(q for q in done.prefetched["a.test"].urls if q.requisite)
    await rig.commit(lease, rig.failed(one))
    assert await rig.store.retry_failed() == 1
    again = (await rig.commit(lease, want=5)).prefetched["a.test"].urls
    assert {q.url: q.requisite for q in again} == marks


async def test_a_requisite_that_is_visited_again_is_still_one(rig):
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    link = rig.link("http://a.test/i.css", requisite=True, requisite_depth=3, hops=100)
    done = await rig.commit(lease, rig.visited(lease.prefetched.urls[0], links=[link]), want=5)
    (new,) = done.prefetched["a.test"].urls
    await rig.commit(lease, rig.visited(new, plan=rig.plan(10.0)))
    rig.wall_s += 11
    (again,) = (await rig.commit(lease, want=5, revisits=True)).prefetched["a.test"].urls
    assert again.before is not None
    for queued in (new, again):
        assert (queued.requisite, queued.requisite_depth, queued.hops) == (True, 3, 100)


async def test_retries_are_made_in_the_order_of_their_attempts(rig):
    """After what was not tried yet, whatever their depth, at one moment as well."""
    for depth, name in enumerate("abcd"):
        await rig.add(f"http://a.test/{name}", depth=depth)
    lease = await rig.claim_one()
    a, b, c, _ = lease.prefetched.urls
    await rig.commit(lease, rig.retry(c, 0.0))
    await rig.commit(lease, rig.retry(b, 0.0), rig.retry(a, 0.0))
    hand = (await rig.commit(lease, want=9)).prefetched["a.test"].urls
    assert [q.url[-1] for q in hand] == ["d", "c", "b", "a"]


async def test_links_that_one_engine_could_not_store_are_left_out(rig):
    """Both refuse the same, and store the others."""
    wrong = [
        rig.link("http://a.test/1", depth=2**31), rig.link("http://a.test/2", depth=-(2**31)),
        rig.link("http://a.test/3", requisite_depth=2**15),
        rig.link("http://a.test/4", hops=2**23), rig.link("http://a.test/5", priority=1e301),
    ]  # fmt: skip
    right = [
        rig.link("http://a.test/6", depth=2**31 - 1),
        rig.link("http://a.test/7", depth=1, requisite_depth=2**15 - 1, hops=255),
    ]
    await rig.store.add([*wrong, *right])
    assert sorted(await rig.urls("queued")) == ["http://a.test/6", "http://a.test/7"]


async def test_a_hand_is_best_first(rig):
    """Priority, then breadth, then age."""
    await rig.add("http://a.test/deep", depth=3)
    await rig.add("http://a.test/late", depth=1)
    await rig.add("http://a.test/later", depth=1)
    await rig.add("http://a.test/urgent", depth=9, priority=0.5)
    await rig.add("http://a.test/idle", depth=0, priority=-1.0)
    lease = await rig.claim_one()
    assert [q.url.rpartition("/")[2] for q in lease.prefetched.urls] == [
        "urgent", "late", "later", "deep", "idle",
    ]  # fmt: skip
    assert lease.prefetched.next_due_in_s is None


async def test_a_visited_url_and_its_links(rig):
    await rig.add("http://a.test/", seed=True)
    lease = await rig.claim_one()
    links = [
        rig.link("http://a.test/b", depth=1, anchor="Bee"),
        rig.link("http://c.test/", depth=1),
    ]
    page = rig.visited(lease.prefetched.urls[0], links=links, title="Home", indexable=False)
    done = await rig.commit(lease, page, want=5)
    assert dict(done.added) == {"a.test": 1, "c.test": 1}
    assert [q.url for q in done.prefetched["a.test"].urls] == ["http://a.test/b"]
    assert await rig.rows("visited") == [
        {
            "url": "http://a.test/", "status": 200, "fetched_at": rig.wall_s,
            "content_type": "text/html", "body_bytes": 100, "elapsed_s": 0.25, "depth": 0,
            "referrer": None, "redirect_url": None, "title": "Home", "indexable": 0,
            "followable": 1, "archivable": 1, "canonical_url": None,
            "body_hash": None, "usage": None, "visits": 1, "checked_at": rig.wall_s,
                "changed_at": None, "next_visit_at": None, "cut": None,
        }
    ]  # fmt: skip
    about = await rig.reader.url("http://a.test/b")
    assert about is not None
    assert (about["state"], about["referrer"], about["anchor"]) == (
        "queued", "http://a.test/", "Bee",
    )  # fmt: skip
    assert await rig.store.stats() == Stats(
        visited=1, blocked=0, failed=0, queued=2, hosts=2, body_bytes=100
    )


async def test_what_is_empty_is_not_what_is_absent(rig):
    values = itertools.product((None, "", "text/html"), (None, "", "http: tdm-reservation=1"))
    said = {f"http://a.test/{n}": pair for n, pair in enumerate(values)}
    await rig.add(*said)
    lease = await rig.claim_one()
    for queued in lease.prefetched.urls:
        content_type, usage = said[queued.url]
        await rig.commit(lease, rig.visited(queued, content_type=content_type, usage=usage))
    rows = await rig.rows("visited")
    assert {row["url"]: (row["content_type"], row["usage"]) for row in rows} == said


async def test_a_blocked_and_a_failed_url(rig):
    await rig.add("http://a.test/x", "http://a.test/y")
    lease = await rig.claim_one()
    x, y = lease.prefetched.urls
    await rig.commit(lease, rig.blocked(x), rig.failed(y))
    assert await rig.rows("blocked") == [
        {
            "url": "http://a.test/x", "reason": "robots", "dialect": "slurp",
            "rule": "Disallow: /x", "line": 2, "robots_url": "http://a.test/robots.txt",
            "blocked_at": rig.wall_s, "withdrawn": 0, "anchor": None, "referrer": None,
        }
    ]  # fmt: skip
    assert await rig.rows("failed") == [
        {
            "url": "http://a.test/y", "error": "timeout: no answer within 30 s", "attempts": 3,
            "last_at": rig.wall_s,
        }
    ]  # fmt: skip
    (host,) = await rig.rows("hosts")
    assert (host["queued"], host["blocked"], host["failed"]) == (0, 1, 1)


async def test_a_retry_goes_behind_what_was_not_tried(rig):
    await rig.add("http://a.test/1", "http://a.test/2")
    await rig.add("http://a.test/3", depth=5)
    lease = await rig.claim_one(1)
    done = await rig.commit(lease, rig.retry(lease.prefetched.urls[0], 0.0, refusals=1), want=5)
    hand = done.prefetched["a.test"].urls
    assert [q.url[-1] for q in hand] == ["2", "3", "1"]
    assert (hand[2].attempts, hand[2].refusals) == (1, 1)
    assert dict(done.added) == {}


async def test_a_retry_waits_until_it_is_due(rig):
    await rig.add("http://a.test/1")
    lease = await rig.claim_one()
    done = await rig.commit(lease, rig.retry(lease.prefetched.urls[0], 30.0), want=5)
    assert done.prefetched["a.test"].urls == []
    assert done.prefetched["a.test"].next_due_in_s == pytest.approx(30.0)
    (row,) = await rig.rows("queued")
    assert (row["due_at"], row["attempts"]) == (rig.wall_s + 30.0, 1)
    about = await rig.reader.url("http://a.test/1")
    assert about is not None
    assert about["error"] == "timeout: no answer within 30 s"
    rig.wall_s += 30.0
    done = await rig.commit(lease, want=5)
    assert [q.attempts for q in done.prefetched["a.test"].urls] == [1]


async def test_a_hand_leaves_out_what_is_held_and_what_is_closed(rig):
    await rig.add(*(f"http://a.test/{n}" for n in range(4)), "https://a.test/s")
    lease = await rig.claim_one(2)
    assert lease.prefetched.next_due_in_s == 0.0
    held = [q.id for q in lease.prefetched.urls]
    done = await rig.commit(lease, want=1, held=held, closed=["https://a.test"])
    assert [q.url[-1] for q in done.prefetched["a.test"].urls] == ["2"]
    assert done.prefetched["a.test"].next_due_in_s == 0.0
    done = await rig.commit(lease, want=5, held=held, closed=["http://a.test"])
    assert [q.url for q in done.prefetched["a.test"].urls] == ["https://a.test/s"]
    assert done.prefetched["a.test"].next_due_in_s is None


async def test_what_a_commit_ends_is_not_held(rig):
    await rig.add("http://a.test/1")
    lease = await rig.claim_one()
    (url,) = lease.prefetched.urls
    done = await rig.commit(lease, rig.retry(url, 5.0), want=1, held=[url.id])
    assert done.prefetched["a.test"].next_due_in_s == pytest.approx(5.0)


async def test_a_dropped_url_is_in_no_view_until_it_is_found_again(rig):
    await rig.add("http://a.test/1", "http://a.test/2")
    lease = await rig.claim_one()
    one = lease.prefetched.urls[0]
    await rig.commit(lease, Dropped(id=one.id, slot="a.test", reason="max_depth"))
    assert await rig.urls("queued") == ["http://a.test/2"]
    assert await rig.rows("skipped") == [{"reason": "max_depth", "count": 1}]
    about = await rig.reader.url(one.url)
    assert about is not None
    assert (about["state"], about["reason"]) == ("skipped", "max_depth")
    found = await rig.add(one.url, depth=2)
    assert dict(found.added) == {"a.test": 1}
    about = await rig.reader.url(one.url)
    assert about is not None
    assert (about["state"], about["depth"], about["error"]) == ("queued", 2, None)


async def test_an_origin_moves_with_its_url(rig):
    await rig.add("http://a.test/1", "http://a.test/2", "https://a.test/s")
    lease = await rig.claim_one()
    one = next(q for q in lease.prefetched.urls if q.url == "http://a.test/1")
    done = await rig.commit(lease, Moved(id=one.id, slot="a.test", to_slot="test"), want=5)
    assert dict(done.added) == {"test": 2}
    assert [q.url for q in done.prefetched["a.test"].urls] == ["https://a.test/s"]
    (other,) = await rig.claim()
    assert (other.slot, len(other.prefetched.urls)) == ("test", 2)
    later = await rig.add("http://a.test/3")
    assert dict(later.added) == {"test": 1}
    counts = {row["host"]: row["queued"] for row in await rig.rows("hosts")}
    assert counts == {"a.test": 1, "test": 3}


async def test_an_origin_moves_with_what_is_left_of_it_after_the_other_outcomes(rig):
    await rig.add("http://a.test/1", "http://a.test/2", "http://a.test/3", "https://a.test/s")
    lease = await rig.claim_one()
    one, two, three = [q for q in lease.prefetched.urls if q.url.startswith("http://")]
    moved = Moved(id=one.id, slot="a.test", to_slot="test")
    done = await rig.commit(lease, moved, rig.failed(two), rig.visited(three))
    assert dict(done.added) == {"test": 1}
    rows = {row["host"]: row for row in await rig.rows("hosts")}
    columns = ("queued", "visited", "failed")
    assert [rows["test"][column] for column in columns] == [1, 1, 1]
    assert [rows["a.test"][column] for column in columns] == [1, 0, 0]


async def test_a_shorter_way_lowers_the_depth_of_a_queued_url(rig):
    await rig.add("http://a.test/1", depth=3)
    await rig.add("http://a.test/2", "http://a.test/3", depth=2)
    await rig.add("http://a.test/3", depth=5, priority=9.0)  # a longer way changes nothing
    lease = await rig.claim_one()
    assert [(q.url[-1], q.depth) for q in lease.prefetched.urls] == [("2", 2), ("3", 2), ("1", 3)]
    done = await rig.add("http://a.test/1", depth=1, priority=9.0, anchor="Again")
    assert dict(done.added) == {}
    links = [rig.link("http://a.test/3", depth=n) for n in (1, 0, 4)]
    done = await rig.commit(lease, rig.visited(lease.prefetched.urls[0], links=links), want=9)
    assert dict(done.added) == {}
    hand = done.prefetched["a.test"].urls
    assert [(q.url[-1], q.depth, q.priority) for q in hand] == [("3", 0, 0.0), ("1", 1, 0.0)]
    about = await rig.reader.url("http://a.test/1")
    assert about is not None
    assert (about["referrer"], about["anchor"]) == (None, None)  # as it was found first


async def test_the_shortest_of_many_ways_in_one_commit_counts(rig):
    links = [rig.link("http://a.test/1", depth=n) for n in (4, 2, 3)]
    await rig.store.add([*links, rig.link("http://a.test/2", depth=3)])
    hand = (await rig.claim_one()).prefetched.urls
    assert [(q.url[-1], q.depth) for q in hand] == [("1", 2), ("2", 3)]


async def test_a_shorter_way_counts_for_a_url_that_waits_for_its_retry(rig):
    await rig.add("http://a.test/1", depth=3)
    lease = await rig.claim_one()
    await rig.commit(lease, rig.retry(lease.prefetched.urls[0], 5.0))
    await rig.add("http://a.test/1", depth=1)
    rig.wall_s += 5.0
    (again,) = (await rig.commit(lease, want=1)).prefetched["a.test"].urls
    assert (again.depth, again.attempts) == (1, 1)


async def test_a_shorter_way_to_a_url_that_is_not_queued_changes_nothing(rig):
    paths = ("v", "b", "f", "d")
    await rig.add(*(f"http://a.test/{path}" for path in paths), depth=5)
    lease = await rig.claim_one()
    v, b, f, d = lease.prefetched.urls
    await rig.commit(lease, rig.visited(v), rig.blocked(b), rig.failed(f))
    await rig.add(v.url, b.url, f.url, depth=3)
    assert [row["depth"] for row in await rig.rows("visited")] == [5]
    # back in the queue they are as they were, and found by a shorter way from then on
    assert await rig.store.retry_failed() == 1
    await rig.store.rejudge(rig.session, kept=[], withdrawn=[], freed=[b.id])
    assert {row["url"]: row["depth"] for row in await rig.rows("queued")} == {
        b.url: 5, f.url: 5, d.url: 5,
    }  # fmt: skip
    await rig.crash()  # nor does the store rely on what it remembers
    await rig.add(b.url, f.url, depth=4)
    await rig.add(b.url, depth=3)
    # left out and found again, it is as deep as it was found last
    lease = await rig.claim_one()
    await rig.commit(lease, Dropped(id=d.id, slot="a.test", reason="max_depth"))
    await rig.add(d.url, depth=7)
    await rig.add(d.url, depth=6)
    assert {row["url"]: row["depth"] for row in await rig.rows("queued")} == {
        b.url: 3, f.url: 4, d.url: 6,
    }  # fmt: skip


async def test_seeds_come_in_pieces(rig, monkeypatch):
    monkeypatch.setattr("storage.engine.link_table.SEEDS_AT_ONCE", 2)
    assert [urls async for urls in rig.store.seeds()] == []
    urls = [f"http://{name}.test/" for name in "abcde"]
    for url in urls:
        await rig.add(url, seed=True)
    for one in (rig.store, rig.reader):
        assert [some async for some in one.seeds()] == [urls[:2], urls[2:4], urls[4:]]


async def test_seeds_are_remembered(rig):
    await rig.add("http://a.test/", seed=True)
    await rig.add("http://a.test/b", depth=4)
    await rig.add("http://a.test/b", seed=True)
    assert [urls async for urls in rig.store.seeds()] == [["http://a.test/", "http://a.test/b"]]
    lease = await rig.claim_one()
    assert [(q.depth, q.seed) for q in lease.prefetched.urls] == [(0, True), (0, True)]


async def test_where_the_redirects_of_a_seed_end_is_a_seed_as_well(rig):
    """What lies between is none, nor what has not answered yet."""
    await rig.add("http://a.test/", seed=True)
    lease = await rig.claim_one()
    (first,) = lease.prefetched.urls
    assert first.hops == 0
    middle = rig.link("http://a.test/b", seed=True, hops=1)
    done = await rig.commit(lease, rig.redirect(first, middle.url, links=[middle]), want=5)
    (second,) = done.prefetched["a.test"].urls
    assert (second.hops, second.seed) == (1, True)
    last = rig.link("http://a.test/c", seed=True, hops=2)
    done = await rig.commit(lease, rig.redirect(second, last.url, links=[last]), want=5)
    (third,) = done.prefetched["a.test"].urls
    assert (third.hops, third.seed) == (2, True)
    assert [urls async for urls in rig.store.seeds()] == [["http://a.test/"]]
    await rig.commit(lease, rig.visited(third))
    assert [urls async for urls in rig.store.seeds()] == [["http://a.test/", "http://a.test/c"]]


async def test_add_may_revive_what_failed(rig):
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    await rig.commit(lease, rig.failed(lease.prefetched.urls[0]), release=True)
    assert dict((await rig.add("http://a.test/")).added) == {}
    done = await rig.store.add([rig.link("http://a.test/")], revive=True)
    assert dict(done.added) == {"a.test": 1}
    assert await rig.urls("failed") == []
    (again,) = (await rig.claim_one()).prefetched.urls
    assert again.attempts == 0


async def test_queries_per_path_are_limited(rig):
    await rig.close()
    if rig.kind == "sqlite":
        rig.path = rig.path.with_name("other.db")
        rig._reader = None
    await rig.open(queries_per_path_max=2)
    done = await rig.add("http://a.test/p?1", "http://a.test/p?2", "http://a.test/p?3")
    assert dict(done.added) == {"a.test": 2}
    await rig.add("http://a.test/p?3", "http://a.test/p?1", "http://a.test/q?1", "http://a.test/p")
    await rig.add("http://a.test/p?4", seed=True)
    assert sorted(await rig.urls("queued")) == [
        "http://a.test/p", "http://a.test/p?1", "http://a.test/p?2", "http://a.test/p?4",
        "http://a.test/q?1",
    ]  # fmt: skip
    assert await rig.rows("skipped") == [{"reason": "max_queries_per_path", "count": 2}]


async def test_skips_add_up(rig):
    for _ in range(2):
        await rig.store.complete(rig.session, Batch(skipped={"max_depth": 2, "nofollow": 1}))
    assert await rig.rows("skipped") == [
        {"reason": "max_depth", "count": 4},
        {"reason": "nofollow", "count": 2},
    ]


async def test_a_host_fails_as_a_whole_and_comes_back(rig):
    await rig.add(*(f"http://a.test/{n}" for n in range(5)), "http://b.test/")
    lease = next(lease for lease in await rig.claim() if lease.slot == "a.test")
    await rig.commit(lease, rig.retry(lease.prefetched.urls[0], 60.0))
    update = HostUpdate(
        slot="a.test",
        epoch=lease.epoch,
        clock=HostClock(connect_failures=3, backoff_level=1, backoff_in_s=900.0, next_in_s=900.0),
        release=True,
    )
    error = "dns: there is no host a.test"
    count = await rig.store.fail_host(
        rig.session, update, error=error, attempts=3, last_at=rig.wall_s
    )
    assert count == 5
    assert {row["error"] for row in await rig.rows("failed")} == {error}
    assert await rig.urls("queued") == ["http://b.test/"]
    assert await rig.store.retry_failed("a.test") == 5
    assert await rig.store.retry_failed() == 0
    assert await rig.urls("failed") == []
    (again,) = await rig.claim()
    assert (again.slot, len(again.prefetched.urls)) == ("a.test", 5)
    assert (again.clock.connect_failures, again.clock.backoff_level) == (0, 0)
    assert {q.attempts for q in again.prefetched.urls} == {0}


async def test_one_origin_of_a_host_fails_and_the_others_go_on(rig):
    await rig.add("http://a.test/1", "https://a.test/1", "https://a.test/2")
    lease = await rig.claim_one()
    update = HostUpdate(slot="a.test", epoch=lease.epoch, clock=HostClock())
    count = await rig.store.fail_host(
        rig.session, update, error="tls: no", attempts=3, last_at=1.0, origin="https://a.test"
    )
    assert count == 2
    assert await rig.urls("failed") == ["https://a.test/1", "https://a.test/2"]
    assert await rig.urls("queued") == ["http://a.test/1"]


async def test_a_late_answer_counts_for_a_url_that_failed_with_its_host(rig):
    await rig.add("http://a.test/1", "http://a.test/2")
    lease = await rig.claim_one()
    one, two = lease.prefetched.urls
    update = HostUpdate(slot="a.test", epoch=lease.epoch, clock=HostClock())
    await rig.store.fail_host(rig.session, update, error="connect: no", attempts=3, last_at=1.0)
    await rig.commit(lease, rig.visited(one), rig.retry(two, 1.0))
    assert await rig.urls("visited") == [one.url]
    assert await rig.urls("failed") == [two.url]


async def test_an_outcome_counts_once(rig):
    await rig.add("http://a.test/1")
    lease = await rig.claim_one()
    (one,) = lease.prefetched.urls
    await rig.commit(lease, rig.visited(one), rig.visited(one, status=404))
    await rig.commit(lease, rig.failed(one))
    assert [row["status"] for row in await rig.rows("visited")] == [200]
    assert (await rig.store.stats()).failed == 0


async def test_rows_can_be_narrowed_to_a_host_and_limited(rig):
    await rig.add("http://a.test/1", "http://a.test:81/2", "http://b.test/3")
    assert await rig.urls("queued", host="a.test") == ["http://a.test/1", "http://a.test:81/2"]
    assert await rig.urls("queued", host="a.test", limit=1) == ["http://a.test/1"]
    assert [row["host"] for row in await rig.rows("hosts", host="b.test")] == ["b.test"]
    assert await rig.rows("visited", host="a.test") == []
    with pytest.raises(ValueError, match="cannot be filtered by host"):
        await rig.rows("skipped", host="a.test")
    with pytest.raises(ValueError, match="no view"):
        await rig.rows("nonsense")


async def test_what_is_not_known_has_no_row(rig):
    assert await rig.reader.url("http://a.test/") is None
    assert await rig.reader.url("nonsense") is None
    assert await rig.reader.host("a.test") is None
    assert await rig.reader.robots_copy("http://a.test") is None
    assert await rig.store.robots_get("http://a.test") is None


async def test_large_commits_are_one_transaction_like_small_ones(rig):
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    links = [f"http://h{n % 40}.test/{n}" for n in range(1_500)]
    done = await rig.commit(lease, rig.visited(lease.prefetched.urls[0], links=links))
    assert sum(done.added.values()) == 1_500
    leases = await rig.claim(hosts=100, urls=100)
    assert sum(len(lease.prefetched.urls) for lease in leases) == 1_500
    outcomes = [rig.visited(q, lease.slot) for lease in leases for q in lease.prefetched.urls]
    hosts = [HostUpdate(slot=x.slot, epoch=x.epoch, clock=HostClock()) for x in leases]
    wants = [Prefetch(slot=x.slot, count=1) for x in leases]
    done = await rig.store.complete(
        rig.session, Batch(outcomes=outcomes, hosts=hosts, prefetch=wants)
    )
    assert len(done.prefetched) == 40
    assert (await rig.store.stats()).visited == 1_501


async def test_the_reason_of_a_block_may_be_a_noindex_line(rig):
    await rig.add("http://a.test/x")
    lease = await rig.claim_one()
    block = rig.blocked(
        lease.prefetched.urls[0], reason=BlockReason.NOINDEX_LINE, rule=None, line=None
    )
    await rig.commit(lease, block)
    (row,) = await rig.rows("blocked")
    assert (row["reason"], row["rule"], row["line"]) == ("noindex-line", None, None)
