"""The store's contract: robots.txt copies, chains of redirects, verdicts made again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import pairwise

import pytest

from policies.robots_state import RobotsState
from storage.read_records import EarlierCopy
from storage.store import BlockReason, Contact, HostClock, HostUpdate, Judged, RobotsDue

FULL = RobotsState(
    status=200, body=b"User-agent: *\nDisallow: /x\n" * 40, copy_at=5.5, etag='"e"',
    last_modified="Sat, 01 Jan 2000 00:00:00 GMT", validators_url="http://a.test/robots.txt",
    fetched_at=6.5, expires_at=1_800_000_100.5, retry_at=None, failures=0,
    unreachable_since=None, gone_since=7.5, error=None, truncated=True,
)  # fmt: skip
ABSENT = RobotsState(status=404, fetched_at=1.0, expires_at=2_000_000_000.0)
FAILING = RobotsState(failures=2, retry_at=1_800_000_010.0, error="timeout", unreachable_since=3.0)


async def put(rig, origin, access, slot="a.test", **values):
    await rig.store.robots_put(rig.session, slot, origin, access, **values)


async def chain(rig, *urls):
    """Visit URLs that redirect each to the next; give the id of the last, which stays queued."""
    await rig.add(urls[0])
    (lease,) = await rig.claim(1)
    for here, there in pairwise(urls):
        done = await rig.commit(lease, want=50)
        queued = next(q for q in done.prefetched[lease.slot].urls if q.url == here)
        await rig.commit(lease, rig.redirect(queued, there))
    done = await rig.commit(lease, want=50)
    last = next((q for q in done.prefetched[lease.slot].urls if q.url == urls[-1]), None)
    return lease, last


@pytest.mark.parametrize("access", [FULL, ABSENT, FAILING, RobotsState(status=200, body=b"")])
async def test_a_copy_comes_back_field_by_field(rig, access):
    await put(rig, "http://a.test", access)
    assert await rig.store.robots_get("http://a.test") == access
    assert await rig.reader.robots_copy("http://a.test") == access
    leases = await rig.store.acquire(rig.session, ["a.test"])
    assert leases["a.test"].robots == {"http://a.test": access}


async def test_the_rows_of_robots(rig):
    await put(rig, "http://a.test", FULL)
    await put(rig, "https://a.test", ABSENT)
    await put(rig, "http://b.test:81", FAILING, slot="b.test")
    await put(rig, "http://c.test", RobotsState(body=b"x", failures=1), slot="c.test")
    rows = {row["origin"]: row for row in await rig.rows("robots")}
    assert {origin: row["state"] for origin, row in rows.items()} == {
        "http://a.test": "rules", "https://a.test": "absent", "http://b.test:81": "unreachable",
        "http://c.test": "stale",
    }  # fmt: skip
    assert rows["http://a.test"]["body_bytes"] == len(FULL.body or b"")
    assert rows["http://b.test:81"]["host"] == "b.test"
    assert len(await rig.rows("robots", host="a.test")) == 2
    row = await rig.reader.host("a.test")
    assert row is not None
    assert [r["origin"] for r in row["robots"]] == ["http://a.test", "https://a.test"]


async def test_a_copy_is_put_with_its_hosts_clock(rig):
    (lease,) = (await rig.store.acquire(rig.session, ["a.test"])).values()
    contact = Contact(start_at=1.0, end_at=2.0, kind="robots", status=200)
    update = HostUpdate(
        slot="a.test", epoch=lease.epoch, clock=HostClock(next_in_s=3.0, contacts=1),
        contacts=[contact], release=True,
    )  # fmt: skip
    await put(rig, "http://a.test", FULL, also=update)
    row = await rig.reader.host("a.test")
    assert row is not None
    assert (row["contacts"], row["next_at"]) == (
        [{"start_at": 1.0, "end_at": 2.0, "kind": "robots", "status": 200}],
        rig.wall_s + 3.0,
    )
    late = HostUpdate(slot="a.test", epoch=lease.epoch, clock=HostClock(next_in_s=99.0))
    await put(rig, "http://a.test", ABSENT, also=late)
    assert [row["next_at"] for row in await rig.rows("hosts")] == [rig.wall_s + 3.0]


async def test_copies_outlive_a_crash(rig):
    await put(rig, "http://a.test", FULL)
    await rig.crash()
    assert await rig.store.robots_get("http://a.test") == FULL


async def test_robots_is_due_where_it_governs_something(rig):
    await rig.add("http://a.test/")
    await put(rig, "http://a.test", FAILING)
    await put(rig, "http://b.test", FAILING, slot="b.test")  # nothing there
    assert await rig.store.robots_due(rig.session, limit=9) == []
    outlook = await rig.store.outlook(rig.session)
    assert outlook.robots_in_s == pytest.approx(10.0)
    assert outlook.robots_delay_s is None  # it is not due yet
    rig.wall_s += 10.0
    due = [RobotsDue(slot="a.test", origin="http://a.test")]
    assert await rig.store.robots_due(rig.session, limit=9) == due
    lease = await rig.claim_one()
    assert await rig.store.robots_due(rig.session, limit=9) == []
    assert (await rig.store.outlook(rig.session)).robots_in_s is None
    await rig.commit(lease, rig.visited(lease.prefetched.urls[0], ungoverned=True), release=True)
    assert await rig.store.robots_due(rig.session, limit=9) == due
    await rig.store.set_controls(["a.test"], paused=True)
    assert await rig.store.robots_due(rig.session, limit=9) == []


async def test_robots_of_a_resting_host_is_due_when_it_may_be_contacted(rig):
    await rig.add("http://a.test/x")
    await put(rig, "http://a.test", FAILING)
    rig.wall_s += 10.0
    lease = await rig.claim_one()
    clock = HostClock(next_in_s=7.0)
    await rig.commit(lease, rig.blocked(lease.prefetched.urls[0]), clock=clock, release=True)
    assert await rig.store.robots_due(rig.session, limit=9) == []
    outlook = await rig.store.outlook(rig.session)
    assert outlook.robots_in_s == outlook.robots_delay_s == pytest.approx(7.0)
    rig.wall_s += 7.0
    assert len(await rig.store.robots_due(rig.session, limit=9)) == 1


async def test_pages_fetched_for_lack_of_an_answer_are_judged_again(rig):
    await rig.add("http://a.test/1", "http://a.test/2", "http://a.test/3")
    lease = await rig.claim_one()
    one, two, three = lease.prefetched.urls
    await rig.commit(
        lease, rig.visited(one, ungoverned=True), rig.visited(two, ungoverned=True),
        rig.visited(three),
    )  # fmt: skip
    judged = await rig.store.ungoverned("http://a.test", limit=9)
    assert judged == [Judged(id=one.id, url=one.url), Judged(id=two.id, url=two.url)]
    assert len(await rig.store.ungoverned("http://a.test", limit=1)) == 1
    await rig.store.rejudge(rig.session, kept=[one.id], withdrawn=[rig.blocked(two)], freed=[])
    assert await rig.store.ungoverned("http://a.test", limit=9) == []
    assert await rig.urls("visited") == [one.url, three.url]
    (row,) = await rig.rows("blocked")
    assert (row["url"], row["withdrawn"]) == (two.url, 1)
    assert (await rig.store.stats()).body_bytes == 200


async def test_freed_urls_come_back(rig):
    await rig.add("http://a.test/x", "http://a.test/y")
    lease = await rig.claim_one()
    x, y = lease.prefetched.urls
    await rig.commit(lease, rig.blocked(x), rig.visited(y, ungoverned=True), release=True)
    await rig.store.rejudge(rig.session, kept=[], withdrawn=[rig.blocked(y)], freed=[])
    judged = await rig.store.blocked_by_robots("http://a.test", after=0, limit=9)
    assert [one.url for one in judged] == [x.url, y.url]
    assert await rig.store.blocked_by_robots("http://a.test", after=x.id, limit=9) == judged[1:]
    done = await rig.store.rejudge(
        rig.session, kept=[], withdrawn=[], freed=[one.id for one in judged]
    )
    assert dict(done.added) == {"a.test": 2}
    assert await rig.store.blocked_by_robots("http://a.test", after=0, limit=9) == []
    lease = await rig.claim_one()
    assert [q.url for q in lease.prefetched.urls] == [x.url, y.url]
    await rig.commit(lease, *(rig.blocked(q) for q in lease.prefetched.urls))
    rows = {row["url"]: row["withdrawn"] for row in await rig.rows("blocked")}
    assert rows == {x.url: 0, y.url: 1}  # the second had been fetched before


async def test_what_leads_to_a_blocked_url_is_blocked(rig):
    urls = [f"http://a.test/{n}" for n in range(4)]
    lease, last = await chain(rig, *urls)
    assert [row["redirect_url"] for row in await rig.rows("visited")] == urls[1:]
    rig.wall_s += 1.0
    await rig.commit(lease, rig.blocked(last))
    assert await rig.urls("visited") == []
    rows = await rig.rows("blocked")
    assert {row["url"]: row["reason"] for row in rows} == {
        urls[0]: "redirect", urls[1]: "redirect", urls[2]: "redirect", urls[3]: "robots",
    }  # fmt: skip
    for row in rows:
        assert (row["dialect"], row["rule"], row["line"], row["robots_url"], row["withdrawn"]) == (
            "slurp", "Disallow: /x", 2, "http://a.test/robots.txt", 0,
        )  # fmt: skip
    judged = await rig.store.blocked_by_robots("http://a.test", after=0, limit=9)
    assert [one.url for one in judged] == [urls[3]]


async def test_a_redirect_to_a_blocked_url_is_blocked_at_once(rig):
    await rig.add("http://a.test/x", "http://a.test/r")
    lease = await rig.claim_one()
    x, r = lease.prefetched.urls
    await rig.commit(lease, rig.blocked(x))
    await rig.commit(lease, rig.redirect(r, "http://a.test/x"))
    assert await rig.urls("visited") == []
    rows = {row["url"]: row["reason"] for row in await rig.rows("blocked")}
    assert rows == {x.url: "robots", r.url: "redirect"}


async def test_freeing_a_url_frees_what_led_to_it(rig):
    urls = [f"http://a.test/{n}" for n in range(3)]
    lease, last = await chain(rig, *urls)
    await rig.commit(lease, rig.blocked(last), release=True)
    done = await rig.store.rejudge(rig.session, kept=[], withdrawn=[], freed=[last.id])
    assert dict(done.added) == {"a.test": 3}
    assert sorted(await rig.urls("queued")) == urls
    lease = await rig.claim_one()
    await rig.commit(lease, *(rig.visited(q) for q in lease.prefetched.urls))
    assert [row["redirect_url"] for row in await rig.rows("visited")] == [None] * 3


async def test_a_withdrawn_target_withdraws_what_leads_to_it(rig):
    urls = ["http://a.test/r", "http://a.test/p"]
    lease, last = await chain(rig, *urls)
    await rig.commit(lease, rig.visited(last, ungoverned=True))
    await rig.store.rejudge(rig.session, kept=[], withdrawn=[rig.blocked(last)], freed=[])
    rows = {row["url"]: (row["reason"], row["withdrawn"]) for row in await rig.rows("blocked")}
    assert rows == {urls[0]: ("redirect", 1), urls[1]: ("robots", 1)}


async def test_redirect_loops_end(rig):
    urls = ["http://a.test/1", "http://a.test/2", "http://a.test/1"]
    lease, _ = await chain(rig, *urls)
    (first,) = lease.prefetched.urls
    assert sorted(await rig.urls("visited")) == sorted(set(urls))
    one = await rig.reader.url("http://a.test/1")
    assert one is not None
    judged = [q for q in await rig.rows("visited") if q["redirect_url"] == "http://a.test/2"]
    assert len(judged) == 1
    await rig.add("http://a.test/3")
    done = await rig.commit(lease, want=5)
    (three,) = done.prefetched["a.test"].urls
    await rig.commit(lease, rig.redirect(three, "http://a.test/1"))
    assert len(await rig.urls("visited")) == 3
    # a page of the loop is withdrawn: all that leads to it goes with it, and the walk ends
    await rig.store.rejudge(rig.session, kept=[], withdrawn=[rig.blocked(first)], freed=[])
    reasons = {row["url"][-1]: row["reason"] for row in await rig.rows("blocked")}
    assert reasons == {"1": "robots", "2": "redirect", "3": "redirect"}
    done = await rig.store.rejudge(rig.session, kept=[], withdrawn=[], freed=[first.id])
    assert sum(done.added.values()) == 3


async def test_a_redirect_out_of_scope_is_kept_whole_and_counts_nowhere(rig):
    await rig.add("http://a.test/r", "http://a.test/s")
    lease = await rig.claim_one()
    r, s = lease.prefetched.urls
    out = "https://elsewhere.test/p?q=1"
    await rig.commit(lease, rig.redirect(r, out, links=[]))
    (row,) = await rig.rows("visited")
    assert row["redirect_url"] == out
    stats = await rig.store.stats()
    assert (stats.queued, stats.hosts) == (1, 1)
    assert [row["host"] for row in await rig.rows("hosts")] == ["a.test"]
    about = await rig.reader.url(out)
    assert about is not None
    assert (about["state"], about["reason"]) == ("skipped", None)
    # scope is widened, it is found after all, and blocked
    done = await rig.commit(lease, rig.visited(s, links=[out]))
    assert dict(done.added) == {"elsewhere.test": 1}
    (other,) = await rig.claim()
    block = rig.blocked(other.prefetched.urls[0], "elsewhere.test")
    await rig.commit(other, block)
    assert sorted(await rig.urls("blocked")) == [r.url, out]


async def test_a_block_remembers_the_copy_it_was_made_by(rig):
    await rig.add("http://a.test/x", "http://a.test/r")
    await put(rig, "http://a.test", FULL)
    lease = await rig.claim_one()
    x, r = lease.prefetched.urls
    await rig.commit(lease, rig.blocked(x), rig.redirect(r, "http://a.test/x"))
    await put(rig, "http://a.test", ABSENT)
    assert await rig.reader.robots_copy("http://a.test") == ABSENT
    assert await rig.reader.robots_body(x.url) == FULL.body
    assert await rig.reader.robots_body(r.url) == FULL.body
    assert await rig.reader.robots_body("http://a.test/none") is None


async def test_rejudging_what_has_changed_meanwhile_does_nothing(rig):
    await rig.add("http://a.test/1")
    lease = await rig.claim_one()
    (one,) = lease.prefetched.urls
    block = rig.blocked(one, reason=BlockReason.ROBOTS)
    done = await rig.store.rejudge(
        rig.session, kept=[one.id, 99], withdrawn=[block], freed=[one.id, 99]
    )
    assert dict(done.added) == {}
    assert await rig.urls("queued") == [one.url]


async def due_again(rig, limit=9):
    return [one.origin for one in await rig.store.rejudge_due(rig.session, limit=limit)]


async def test_what_is_to_be_judged_again_is_remembered_until_it_is_done(rig):
    await rig.add("http://a.test/x", "https://a.test/p", "http://b.test/")
    leases = {lease.slot: lease for lease in await rig.claim()}
    x, p = leases["a.test"].prefetched.urls
    await rig.commit(leases["a.test"], rig.blocked(x), rig.visited(p, ungoverned=True))
    await put(rig, "https://a.test", FULL, rejudge=True)
    rig.wall_s += 1.0
    await put(rig, "http://b.test", FULL, slot="b.test", rejudge=True)  # nothing was judged there
    await put(rig, "http://a.test", FULL, rejudge=True)
    assert await rig.store.rejudge_due(rig.session, limit=9) == [
        RobotsDue(slot="a.test", origin="https://a.test"),
        RobotsDue(slot="a.test", origin="http://a.test"),
    ]  # though the host is held
    await rig.crash()
    rig.wall_s += 1.0
    await put(rig, "https://a.test", FULL, rejudge=True)  # keeps its place
    await put(rig, "http://a.test", ABSENT)  # and its mark
    assert await due_again(rig) == ["https://a.test", "http://a.test"]
    assert await due_again(rig, limit=1) == ["https://a.test"]
    await rig.store.rejudge_done(rig.session, "https://a.test")
    await rig.store.set_controls(["a.test"], paused=True)
    assert await due_again(rig) == ["http://a.test"]
    await rig.store.rejudge_done(rig.session, "http://a.test")
    await rig.store.rejudge_done(rig.session, "http://unheard-of.test")
    assert await due_again(rig) == []
    await rig.crash()
    assert await due_again(rig) == []


async def test_what_was_judged_before_but_is_committed_after_the_mark_is_judged_again(rig):
    await rig.add("http://a.test/p")
    lease = await rig.claim_one()
    await put(rig, "http://a.test", FULL, rejudge=True)
    assert await due_again(rig) == []
    page = lease.prefetched.urls[0]
    await rig.commit(lease, rig.visited(page, ungoverned=True))
    assert await due_again(rig) == ["http://a.test"]
    await rig.store.rejudge(rig.session, kept=[page.id], withdrawn=[], freed=[])
    assert await due_again(rig) == []


async def test_the_mark_of_a_host_given_back_outlives_a_crash(rig):
    await rig.add("http://a.test/x")
    lease = await rig.claim_one()
    await rig.commit(lease, rig.blocked(lease.prefetched.urls[0]))
    update = HostUpdate(slot="a.test", epoch=lease.epoch, clock=HostClock(), release=True)
    await put(rig, "http://a.test", FULL, also=update, rejudge=True)
    await rig.crash()
    assert await rig.store.robots_get("http://a.test") == FULL
    assert await due_again(rig) == ["http://a.test"]


async def test_a_page_that_comes_after_all_was_judged_marks_its_origin(rig):
    """It was asked for while there was no answer; the crawl may die before it is judged."""
    await rig.add("http://a.test/1", "http://a.test/2", "http://a.test/3")
    lease = await rig.claim_one()
    one, two, three = lease.prefetched.urls
    await put(rig, "http://a.test", FAILING)
    await rig.commit(lease, rig.visited(one, ungoverned=True))
    assert await due_again(rig) == []  # there is nothing yet to judge it by
    await put(rig, "http://a.test", FULL)
    await rig.commit(lease, rig.visited(two))
    assert await due_again(rig) == []
    await rig.commit(lease, rig.visited(three, ungoverned=True))
    assert await due_again(rig) == ["http://a.test"]
    await rig.store.rejudge_done(rig.session, "http://a.test")
    assert await due_again(rig) == []


async def test_all_that_was_judged_can_be_marked_to_be_judged_again(rig):
    """The config reads robots.txt in another way now: what was blocked may be free."""
    await rig.add("http://a.test/x", "http://a.test/y", "http://b.test/", "http://c.test/")
    for lease in await rig.claim():
        first, *_ = lease.prefetched.urls
        if lease.slot == "a.test":
            await rig.commit(lease, rig.blocked(first), release=True)
        if lease.slot == "b.test":
            await rig.commit(lease, rig.visited(first, "b.test", ungoverned=True))
    assert await due_again(rig) == []
    await rig.store.rejudge_all(rig.session)
    assert sorted(await due_again(rig)) == ["http://a.test", "http://b.test"]
    await rig.crash()
    assert sorted(await due_again(rig)) == ["http://a.test", "http://b.test"]
    await rig.store.rejudge_done(rig.session, "http://a.test")
    assert await due_again(rig) == ["http://b.test"]


def version(number, *, at):
    body = f"User-agent: *\nDisallow: /{number}\n".encode()
    return RobotsState(status=200, body=body, copy_at=at, fetched_at=at)


async def test_the_copy_before_is_kept_and_only_that(rig):
    before = rig.reader.robots_before
    assert await before("http://a.test") is None
    await put(rig, "http://a.test", version(1, at=1.0))
    assert await before("http://a.test") is None
    confirmed = RobotsState(status=304, body=version(1, at=1.0).body, copy_at=5.0, fetched_at=5.0)
    await put(rig, "http://a.test", confirmed)
    assert await before("http://a.test") is None  # it is the same file
    await put(rig, "http://a.test", version(2, at=9.0))
    first = EarlierCopy(body=version(1, at=1.0).body, copy_at=5.0, replaced_at=9.0)
    assert await before("http://a.test") == first
    await put(rig, "http://a.test", version(3, at=11.0))
    second = EarlierCopy(body=version(2, at=9.0).body, copy_at=9.0, replaced_at=11.0)
    assert await before("http://a.test") == second
    await put(rig, "http://a.test", version(2, at=12.0))  # back again
    assert (await before("http://a.test")).body == version(3, at=11.0).body
    assert (await rig.reader.robots_copy("http://a.test")).body == version(2, at=9.0).body
    assert await before("http://b.test") is None
    if rig.kind == "sqlite":
        with closing(sqlite3.connect(rig.path)) as db:  # nothing else is kept
            assert db.execute("SELECT count(*) FROM bodies").fetchone() == (2,)


async def test_the_copy_before_an_absent_one(rig):
    await put(rig, "http://a.test", version(1, at=1.0))
    await put(rig, "http://a.test", RobotsState(status=404, fetched_at=3.0))
    gone = EarlierCopy(body=version(1, at=1.0).body, copy_at=1.0, replaced_at=3.0)
    assert await rig.reader.robots_before("http://a.test") == gone
    await put(rig, "http://a.test", version(2, at=4.0))
    assert await rig.reader.robots_before("http://a.test") == gone
    unreachable = RobotsState(
        body=version(2, at=4.0).body, copy_at=4.0, failures=1, retry_at=9.0, error="timeout"
    )
    await put(rig, "http://a.test", unreachable)
    assert await rig.reader.robots_before("http://a.test") == gone
