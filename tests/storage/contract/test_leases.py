"""The store's contract: hosts, their clocks, and who holds them."""

from __future__ import annotations

import pytest

from storage.store import Contact, HostClock, HostUpdate, StoreError

FULL_CLOCK = HostClock(
    next_in_s=2.5, rested_s=0.25, delay_s=2.5, delay_source="Crawl-delay", latency_s=0.5,
    backoff_level=2, backoff_in_s=1.5, denials=3, connect_failures=1, contacts=7,
    backoff_status=429,
    smallest_rest_s=2.25, peak_concurrency=4, breaches=5, unproven=6,
)  # fmt: skip


async def test_a_host_is_held_by_one_at_a_time(rig):
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    assert await rig.claim() == []
    assert await rig.store.acquire(rig.session, ["a.test"]) == {}
    await rig.commit(lease, release=True)
    again = await rig.claim_one()
    assert again.epoch > lease.epoch
    assert again.clean


async def test_a_clock_comes_back_as_it_was(rig):
    await rig.add("http://a.test/", "http://a.test/2")
    lease = await rig.claim_one()
    assert lease.clock == HostClock()
    await rig.commit(lease, clock=FULL_CLOCK, release=True)
    assert await rig.claim() == []
    leases = await rig.store.acquire(rig.session, ["a.test"])
    assert leases["a.test"].clock == FULL_CLOCK
    (row,) = await rig.rows("hosts")
    assert row["next_at"] == rig.wall_s + 2.5
    assert row["backoff_until"] == rig.wall_s + 1.5
    shown = set(row) & set(HostClock.__struct_fields__)
    assert len(shown) >= 9
    assert {name: row[name] for name in shown} == {
        name: getattr(FULL_CLOCK, name) for name in shown
    }


async def test_hosts_that_rest_are_left_alone_until_they_may_be_contacted(rig):
    await rig.add("http://a.test/", "http://b.test/")
    for lease, rest_s in zip(await rig.claim(), (5.0, 2.0), strict=True):
        await rig.commit(lease, clock=HostClock(next_in_s=rest_s), release=True)
    assert await rig.claim() == []
    assert (await rig.store.outlook(rig.session)).claimable_in_s == pytest.approx(2.0)
    rig.wall_s += 2.0
    assert [lease.slot for lease in await rig.claim()] == ["b.test"]
    rig.wall_s += 10.0
    assert [lease.slot for lease in await rig.claim()] == ["a.test"]
    assert (await rig.store.outlook(rig.session)).claimable_in_s is None


async def test_the_host_that_could_move_first_is_claimed_first(rig):
    await rig.add("http://a.test/", "http://b.test/", "http://c.test/")
    for lease, rest_s in zip(await rig.claim(), (3.0, 1.0, 2.0), strict=True):
        await rig.commit(lease, clock=HostClock(next_in_s=rest_s), release=True)
    rig.wall_s += 60.0
    assert [lease.slot for lease in await rig.claim()] == ["b.test", "c.test", "a.test"]


async def test_among_equals_the_one_served_longest_ago_is_claimed_first(rig):
    await rig.add("http://a.test/", "http://b.test/", "http://c.test/")
    order = []
    for _ in range(6):
        lease = await rig.claim_one()
        order.append(lease.slot)
        await rig.commit(lease, clock=HostClock(next_in_s=0.0), release=True)
    assert order == ["a.test", "b.test", "c.test"] * 2


async def test_a_back_off_holds_a_host_even_if_its_rest_is_over(rig):
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    clock = HostClock(next_in_s=1.0, backoff_in_s=60.0, backoff_level=1)
    await rig.commit(lease, clock=clock, release=True)
    rig.wall_s += 59.0
    assert await rig.claim() == []
    rig.wall_s += 1.0
    assert len(await rig.claim()) == 1


async def test_a_host_whose_urls_all_wait_is_left_alone(rig):
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    await rig.commit(lease, rig.retry(lease.prefetched.urls[0], 10.0), release=True)
    assert await rig.claim() == []
    assert (await rig.store.outlook(rig.session)).claimable_in_s == pytest.approx(10.0)
    await rig.add("http://a.test/new")
    assert [q.url for q in (await rig.claim_one()).prefetched.urls] == ["http://a.test/new"]


async def test_paused_hosts_are_left_alone(rig):
    await rig.add("http://a.test/")
    assert await rig.store.set_controls(["a.test"], paused=True)
    assert not await rig.store.set_controls(["b.test"], paused=True)
    assert await rig.claim() == []
    assert (await rig.store.outlook(rig.session)).claimable_in_s is None
    assert [row["paused"] for row in await rig.rows("hosts")] == [1]
    lease = (await rig.store.acquire(rig.session, ["a.test"]))["a.test"]
    assert lease.paused
    await rig.commit(lease, release=True)
    assert await rig.store.set_controls(["a.test"], paused=False, slow_s=9.0)
    assert (await rig.claim_one()).slow_s == 9.0
    assert await rig.store.set_controls(["a.test"], clear_slow=True)
    assert [row["slow_s"] for row in await rig.rows("hosts")] == [None]


async def test_several_hosts_are_controlled_in_one_transaction(rig):
    await rig.add("http://a.test/", "http://b.test/", "http://c.test/")
    assert await rig.store.set_controls(["a.test", "b.test", "nobody.test"], paused=True) == 2
    assert [row["paused"] for row in await rig.rows("hosts")] == [1, 1, 0]
    assert await rig.store.set_controls(["b.test", "c.test"], slow_s=7.0) == 2
    assert [row["slow_s"] for row in await rig.rows("hosts")] == [None, 7.0, 7.0]
    assert await rig.store.set_controls(["b.test"], paused=False, clear_slow=True) == 1
    found = [(row["paused"], row["slow_s"]) for row in await rig.rows("hosts")]
    assert found == [(1, None), (0, None), (0, 7.0)]
    assert await rig.store.set_controls([], paused=True) == 0


async def test_an_address_rests_for_the_longest_delay_of_its_hosts(rig):
    async def rest_s(address="192.0.2.1"):
        return await rig.store.address_delay_s(address)

    def clock(delay_s, rested_s, address="192.0.2.1"):
        return HostClock(rested_s=rested_s, address=address, address_delay_s=delay_s)

    await rig.add(*(f"http://{host}.test/" for host in "abcd"))
    assert await rest_s() == 0.0
    a, b, c, d = await rig.claim()
    await rig.commit(a, clock=clock(50.0, 10.0), release=True)
    assert await rest_s() == pytest.approx(40.0, abs=1.0)
    await rig.commit(b, clock=clock(60.0, 30.0), release=True)
    await rig.commit(c, clock=clock(90.0, 1.0, "2001:db8::1"), release=True)
    await rig.commit(d, clock=clock(70.0, None), release=True)  # it was never contacted
    assert await rest_s() == pytest.approx(40.0, abs=1.0)
    assert await rest_s("2001:db8::1") == pytest.approx(89.0, abs=1.0)
    (again,) = (await rig.store.acquire(rig.session, ["b.test"])).values()
    await rig.commit(again, clock=HostClock(rested_s=1.0))  # its address is not known yet
    assert await rest_s() == pytest.approx(60.0)  # and whoever holds it may have contacted it
    await rig.crash()
    assert await rest_s() == pytest.approx(60.0)


async def test_a_host_falls_due_with_the_first_of_its_urls(rig):
    await rig.add("http://a.test/1", "https://a.test/2", "http://b.test/3")
    a, b = await rig.claim()
    one, two = sorted(a.prefetched.urls, key=lambda queued: queued.url)
    await rig.commit(a, rig.retry(one, 30.0), rig.retry(two, 10.0), release=True)
    await rig.commit(b, rig.retry(b.prefetched.urls[0], 20.0, "b.test"), release=True)

    async def claimable_in_s():
        return (await rig.store.outlook(rig.session)).claimable_in_s

    assert await rig.claim() == []
    assert await claimable_in_s() == pytest.approx(10.0)
    rig.wall_s += 10.0
    assert await claimable_in_s() == 0.0
    (lease,) = await rig.claim()
    assert [q.url for q in lease.prefetched.urls] == [two.url]
    await rig.commit(lease, rig.visited(two), release=True)
    assert await rig.claim() == []
    assert await claimable_in_s() == pytest.approx(10.0)  # of b.test


async def test_a_host_given_back_for_long_is_left_alone_until_then(rig):
    """All it has is closed for lack of a robots.txt: its owner says when to look again."""
    await rig.add("http://a.test/1", "http://a.test/2")
    lease = await rig.claim_one(1)
    await rig.commit(lease, clock=HostClock(next_in_s=3600.0, delay_s=1.0), release=True)
    await rig.add("http://a.test/new")  # which is no reason to come back earlier

    async def left_alone(for_s):
        outlook = await rig.store.outlook(rig.session)
        assert outlook.claimable_in_s == pytest.approx(for_s)
        assert await rig.claim() == []

    await left_alone(3600.0)
    rig.wall_s += 3000.0
    await left_alone(600.0)
    await rig.crash()
    await left_alone(600.0)
    rig.wall_s += 600.0
    assert (await rig.store.outlook(rig.session)).claimable_in_s == 0.0
    (lease,) = await rig.claim()
    assert [q.url[-1] for q in lease.prefetched.urls] == ["1", "2", "w"]
    assert (lease.clean, lease.clock.next_in_s, lease.clock.delay_s) == (True, 0.0, 1.0)


async def test_hosts_not_known_can_be_acquired(rig):
    leases = await rig.store.acquire(rig.session, ["a.test", "b.test"])
    assert sorted(leases) == ["a.test", "b.test"]
    assert all(lease.clean and not lease.prefetched.urls for lease in leases.values())
    assert (await rig.store.stats()).hosts == 2


async def test_a_lease_says_how_many_pages_its_host_has_had(rig):
    await rig.add("http://a.test/1", "http://a.test/2", "http://a.test/3")
    lease = await rig.claim_one(2)
    await rig.commit(lease, *(rig.visited(q) for q in lease.prefetched.urls), release=True)
    lease = await rig.claim_one()
    sizes = [int(str(row["body_bytes"])) for row in await rig.rows("visited")]
    assert (lease.visited, lease.body_bytes) == (2, sum(sizes))
    assert lease.body_bytes > 0


async def test_a_stale_outcome_is_dropped_and_its_links_are_kept(rig):
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    (url,) = lease.prefetched.urls
    await rig.crash()
    taken = await rig.claim_one()
    late = rig.visited(url, links=["http://a.test/new"])
    done = await rig.commit(lease, late, clock=HostClock(next_in_s=99.0), release=True)
    assert done.stale == {"a.test"}
    assert dict(done.added) == {"a.test": 1}
    assert await rig.urls("visited") == []
    assert await rig.urls("queued") == ["http://a.test/", "http://a.test/new"]
    done = await rig.commit(taken, rig.visited(url), want=5)  # the new holder is not disturbed
    assert done.stale == frozenset()
    assert [q.url for q in done.prefetched["a.test"].urls] == ["http://a.test/new"]


async def test_an_outcome_without_its_hosts_update_is_stale(rig):
    await rig.add("http://a.test/", "http://b.test/")
    a, b = await rig.claim()
    done = await rig.commit(a, rig.visited(b.prefetched.urls[0], "b.test"))
    assert done.stale == {"b.test"}


async def test_after_a_crash_hosts_are_free_but_not_clean(rig):
    await rig.add("http://a.test/", "http://b.test/")
    a, b = await rig.claim()
    await rig.commit(a, clock=HostClock(delay_s=5.0, contacts=1))
    await rig.commit(b, release=True)
    await rig.crash()
    leases = {lease.slot: lease for lease in await rig.claim()}
    assert (leases["a.test"].clean, leases["b.test"].clean) == (False, True)
    assert leases["a.test"].clock.delay_s == 5.0
    assert [q.url for q in leases["a.test"].prefetched.urls] == ["http://a.test/"]
    await rig.commit(leases["a.test"], release=True)
    assert (await rig.claim_one()).clean


async def test_a_rest_outlives_a_crash(rig):
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    await rig.commit(lease, clock=HostClock(next_in_s=60.0, backoff_in_s=60.0, backoff_level=3))
    await rig.crash()
    assert await rig.claim() == []
    rig.wall_s += 20.0
    (again,) = (await rig.store.acquire(rig.session, ["a.test"])).values()
    assert again.clock.next_in_s == pytest.approx(40.0)
    assert (again.clock.backoff_level, again.clean) == (3, False)


async def test_a_wall_clock_set_back_lengthens_no_rest(rig):
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    await rig.commit(lease, clock=HostClock(next_in_s=5.0), release=True)
    rig.wall_s -= 3600.0
    assert (await rig.store.outlook(rig.session)).claimable_in_s == pytest.approx(5.0)
    rig.wall_s += 5.0
    assert len(await rig.claim()) == 1


async def test_a_wall_clock_set_back_between_sessions_lengthens_no_rest(rig):
    if rig.kind == "postgres":
        pytest.skip("it reads the server's clock: tests/storage/postgres/test_server_time.py")
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    await rig.commit(lease, clock=HostClock(next_in_s=5.0), release=True)
    rig.wall_s -= 3600.0
    await rig.crash()
    assert (await rig.store.outlook(rig.session)).claimable_in_s == pytest.approx(5.0, abs=1.0)
    rig.wall_s += 6.0
    assert len(await rig.claim()) == 1


async def test_with_a_monotonic_clock_a_wall_clock_set_forward_cuts_no_rest(rig):
    if rig.kind == "postgres":
        pytest.skip("it reads the server's clock: tests/storage/postgres/test_server_time.py")
    await rig.close()
    rig._reader, rig.path = None, rig.path.with_name("other.db")
    now_s = 0.0
    await rig.open(monotonic=lambda: now_s)
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    await rig.commit(lease, clock=HostClock(next_in_s=5.0), release=True)
    rig.wall_s += 3600.0
    assert await rig.claim() == []
    await rig.add("http://b.test/")  # a write, which notes how far the clocks are apart
    row = (await rig.rows("hosts"))[0]
    assert row["next_at"] == pytest.approx(rig.wall_s + 5.0)
    now_s = 5.0
    assert len(await rig.claim(1)) == 1


async def test_the_ring_keeps_the_newest_contacts(rig):
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    contacts = [
        Contact(start_at=float(n), end_at=n + 0.5, kind="page", status=200) for n in range(130)
    ]
    for start, end in ((0, 30), (30, 45), (45, 130)):
        await rig.commit(lease, contacts=contacts[start:end])
        row = await rig.reader.host("a.test")
        assert row is not None
        ring = row["contacts"]
        assert isinstance(ring, list)
        assert [c["start_at"] for c in ring] == [c.start_at for c in contacts[:end]][-50:]
    await rig.commit(
        lease, contacts=[Contact(start_at=999.0, end_at=1000.0, kind="robots", status=None)]
    )
    row = await rig.reader.host("a.test")
    assert row is not None
    assert row["contacts"][-1] == {
        "start_at": 999.0, "end_at": 1000.0, "kind": "robots", "status": None,
    }  # fmt: skip


async def test_a_closed_store_raises(rig):
    await rig.store.close()
    with pytest.raises(StoreError):
        await rig.add("http://a.test/")
    update = HostUpdate(slot="a.test", epoch=1, clock=HostClock())
    with pytest.raises(StoreError):
        await rig.store.fail_host(rig.session, update, error="x: y", attempts=1, last_at=0.0)
    with pytest.raises(StoreError):
        await rig.claim()


async def test_the_end_of_the_last_contact_is_remembered_until_there_is_another(rig):
    """A rest that is made longer or shorter counts from there, also in the next run."""
    await rig.add("http://a.test/", "http://a.test/2")
    lease = await rig.claim_one()
    assert lease.clock.rested_s is None
    await rig.commit(lease, clock=HostClock(rested_s=1.5))
    rig.wall_s += 2.0
    await rig.commit(lease, clock=HostClock(), release=True)  # it says nothing of it
    await rig.crash()
    rig.wall_s += 4.0
    # At least: of the time between the two commits, nothing was said.
    assert (await rig.claim_one()).clock.rested_s == pytest.approx(5.5)


async def test_pauses_and_paces_outlive_a_crash_and_a_release(rig):
    await rig.add("http://a.test/", "http://b.test/")
    (a, _) = sorted(await rig.claim(), key=lambda lease: lease.slot)
    assert await rig.store.set_controls(["a.test"], paused=True, slow_s=4.0)  # while it is held
    await rig.commit(a, release=True)
    await rig.crash()
    assert [lease.slot for lease in await rig.claim()] == ["b.test"]
    lease = (await rig.store.acquire(rig.session, ["a.test"]))["a.test"]
    assert (lease.paused, lease.slow_s) == (True, 4.0)
    assert await rig.store.set_controls(["a.test"], paused=False)  # the pace stays
    await rig.commit(lease, release=True)
    (lease,) = await rig.claim()
    assert (lease.paused, lease.slow_s) == (False, 4.0)


async def test_the_pause_of_the_whole_crawl_is_remembered(rig):
    assert not await rig.store.paused()
    assert await rig.reader.paused() is False
    await rig.store.set_paused(True)
    assert await rig.reader.paused() is True
    await rig.crash()
    assert await rig.store.paused()
    await rig.store.set_paused(False)
    assert not await rig.store.paused()


async def test_a_session_can_be_given_another_name(rig):
    await rig.store.name_session(rig.session, "another")
    assert next(iter(await rig.reader.sessions())) == "another"
    with pytest.raises(StoreError):
        await rig.store.name_session(rig.session + 1, "not yet")


async def test_hosts_that_only_rest_can_be_roused(rig):
    """Their delay may be shorter now: who leases them knows when their last contact ended."""
    await rig.add("http://a.test/", "http://b.test/", "http://c.test/", "http://d.test/")
    for lease in await rig.claim():
        clock = HostClock(next_in_s=100.0, rested_s=0.0, delay_s=100.0)
        if lease.slot == "b.test":  # a rest after a crash
            clock = HostClock(next_in_s=100.0, rested_s=0.0, delay_s=10.0)
        if lease.slot == "c.test":  # a back-off on top
            clock = HostClock(next_in_s=100.0, rested_s=0.0, delay_s=100.0, backoff_in_s=60.0)
        await rig.commit(lease, clock=clock, release=lease.slot != "d.test")
    rig.wall_s += 20.0
    assert await rig.claim() == []
    await rig.store.recheck_delays(rig.session)
    (a,) = await rig.claim()
    assert (a.slot, a.clock.next_in_s, a.clock.rested_s) == ("a.test", 80.0, 20.0)
    rig.wall_s += 40.0
    assert [lease.slot for lease in await rig.claim()] == ["c.test"]
    rig.wall_s += 40.0
    assert [lease.slot for lease in await rig.claim()] == ["b.test"]


async def test_a_host_whose_pace_is_changed_by_hand_is_roused(rig):
    await rig.add("http://a.test/", "http://b.test/")
    for lease in await rig.claim():
        clock = HostClock(next_in_s=100.0, rested_s=0.0, delay_s=100.0)
        await rig.commit(lease, clock=clock, release=True)
    await rig.store.set_controls(["a.test"], paused=True)
    await rig.store.set_controls(["a.test"], paused=False)  # is no change of pace
    await rig.store.set_controls(["b.test"], slow_s=2.0)
    await rig.store.set_controls(["nobody.test"], slow_s=2.0)
    assert [lease.slot for lease in await rig.claim()] == ["b.test"]


async def test_a_glance_changes_nothing(rig):
    """Of an unknown host, a free one, and one that another session leases."""
    assert await rig.store.glance(rig.session, "unknown.test") is None
    assert await rig.store.acquire(rig.session, []) == {}
    assert await rig.reader.host("unknown.test") is None
    await rig.add("http://a.test/")
    before = await rig.reader.host("a.test")
    found = await rig.store.glance(rig.session, "a.test")
    assert (found.paused, found.slow_s, found.clock.contacts) == (False, None, 0)
    assert await rig.reader.host("a.test") == before
    assert [lease.slot for lease in await rig.claim()] == ["a.test"]
    assert (await rig.store.glance(rig.session, "a.test")).clock is None  # it is in memory
