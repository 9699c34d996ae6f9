"""Pages of hosts and of blocked URLs: complete, in order, each row once."""

from __future__ import annotations

from typing import Any

import pytest

from policies.robots_state import RobotsState
from storage.engine import page_queries
from storage.paging import HOST_SORTS, HostFilter, mark
from storage.store import HostClock
from tests.tables import each


async def names(rig: Any, **asked: Any) -> list[str]:
    """All pages of hosts, two rows at a time."""
    found: list[str] = []
    after = ""
    for _ in range(100):
        page = await rig.reader.hosts_page(limit=2, after=after, now_s=rig.wall_s, **asked)
        assert len(page.rows) <= 2
        found += [row["host"] for row in page.rows]
        if page.after is None:
            return found
        assert page.rows
        after = page.after
    raise AssertionError("the pages have no end")


@pytest.fixture
async def hosts(rig: Any) -> Any:
    """Seven hosts: one has been visited, one failed, one backs off, one is paused, one slowed."""
    for name, count in (("c", 3), ("a", 1), ("e", 2), ("b", 2), ("d", 5), ("f", 1), ("g.b", 1)):
        await rig.add(*(f"http://{name}.test/{number}" for number in range(count)))
    leases = {lease.slot: lease for lease in await rig.claim(10, 10)}

    def url(slot: str) -> Any:
        return leases[slot].prefetched.urls[0]

    done = rig.visited(url("a.test"), "a.test", body_bytes=7)
    await rig.commit(leases["a.test"], done, clock=HostClock(contacts=2), release=True)
    failed = rig.failed(url("b.test"), "b.test")
    await rig.commit(leases["b.test"], failed, clock=HostClock(latency_s=0.5), release=True)
    resting = HostClock(backoff_in_s=60.0, next_in_s=60.0, backoff_level=1)
    await rig.commit(leases["c.test"], clock=resting, release=True)
    await rig.commit(leases["d.test"], clock=HostClock(next_in_s=5.0), release=True)
    await rig.store.set_controls(["e.test"], paused=True)
    await rig.store.set_controls(["f.test"], slow_s=9.0)
    return rig


ALL = ["a.test", "b.test", "c.test", "d.test", "e.test", "f.test", "g.b.test"]


async def test_pages_follow_one_another_by_name(hosts: Any) -> None:
    assert await names(hosts) == ALL
    assert await names(hosts, sort="-host") == ALL[::-1]


async def test_a_page_has_the_columns_of_the_view(hosts: Any) -> None:
    (row,) = (await hosts.reader.hosts_page(search="d.t", now_s=hosts.wall_s)).rows
    assert row == (await hosts.rows("hosts", host="d.test"))[0]


@each("sort", [*HOST_SORTS, *(f"-{column}" for column in HOST_SORTS)])
async def test_every_order_has_every_host_once(hosts: Any, sort: str) -> None:
    found = await names(hosts, sort=sort)
    assert sorted(found) == ALL
    column = sort.removeprefix("-")
    rows = {row["host"]: row for row in await hosts.rows("hosts")}
    keys = [
        (rows[name][column] if rows[name][column] is not None else -1.0, name) for name in found
    ]
    assert keys == sorted(keys, reverse=sort.startswith("-"))


@each(
    ("state", "expected"),
    [
        (HostFilter.ALL, ALL), (HostFilter.QUEUED, ALL[1:]),
        (HostFilter.WAITING, ["c.test", "d.test"]), (HostFilter.PAUSED, ["e.test"]),
        (HostFilter.SLOWED, ["f.test"]), (HostFilter.BACKING_OFF, ["c.test"]),
        (HostFilter.FAILING, ["b.test"]), (HostFilter.DONE, ["a.test"]),
    ],
)  # fmt: skip
async def test_states(hosts: Any, state: HostFilter, expected: list[str]) -> None:
    assert await names(hosts, state=state.value) == expected
    assert sorted(await names(hosts, state=state.value, sort="-queued")) == expected


async def test_a_back_off_passes(hosts: Any) -> None:
    hosts.wall_s += 100.0
    assert await names(hosts, state="backing-off") == []
    assert await names(hosts, state="waiting") == []


async def test_search_is_for_a_part_and_ignores_case(hosts: Any) -> None:
    assert await names(hosts, search="B.T") == ["b.test", "g.b.test"]
    assert await names(hosts, search="%") == []
    assert await names(hosts, search="g", sort="-queued") == ["g.b.test"]


@each(
    ("pattern", "expected"),
    [
        ("*.test", ALL),
        ("*.b.test", ["b.test", "g.b.test"]),  # the name itself as well
        ("*b.test", ["b.test", "g.b.test"]),
        ("g*", ["g.b.test"]),
        ("?.test", []),
        ("_.test", []),  # what LIKE takes for any character is none here
        ("%", []),
        ("!%", []),
        ("b.test", ["b.test"]),
        ("b", []),
    ],
)
async def test_a_pattern_is_for_the_whole_name(
    hosts: Any, pattern: str, expected: list[str]
) -> None:
    assert await names(hosts, pattern=pattern) == expected
    assert sorted(await names(hosts, pattern=pattern, sort="-queued")) == expected


async def test_what_is_not_known_is_refused(rig: Any) -> None:
    for wrong in (
        {"sort": "colour"}, {"sort": "--host"}, {"state": "asleep"}, {"limit": 0},
        {"limit": 1_000_000}, {"after": "x"}, {"after": "bm90IGpzb24"}, {"after": "é"},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"."):
            await rig.reader.hosts_page(**wrong)
    for wrong in ({"limit": 0}, {"after": "WyJpZCIsMSwiYSJd"}, {"after": "[" * 50}):
        with pytest.raises(ValueError, match=r"."):
            await rig.reader.blocked_page(**wrong)


async def test_a_page_s_end_belongs_to_its_order(hosts: Any) -> None:
    page = await hosts.reader.hosts_page(limit=1)
    with pytest.raises(ValueError, match="sorted by host"):
        await hosts.reader.hosts_page(limit=1, sort="-host", after=page.after)


async def blocked(rig: Any, **asked: Any) -> list[str]:
    found: list[str] = []
    after = ""
    for _ in range(100):
        page = await rig.reader.blocked_page(limit=2, after=after, **asked)
        found += [row["url"] for row in page.rows]
        if page.after is None:
            return found
        after = page.after
    raise AssertionError("the pages have no end")


@pytest.fixture
async def forbidden(rig: Any) -> Any:
    """Nine blocked URLs of two hosts, two of one by another rule."""
    copy = RobotsState(status=200, body=b"User-agent: *\nDisallow: /x\nDisallow: /Y\n", copy_at=1.0)
    for name in ("a.test", "b.test"):
        await rig.add(*(f"http://{name}/x{number}" for number in range(4)))
    await rig.add("http://a.test:81/x", slot="a.test")
    for lease in await rig.claim(10, 10):
        for origin in {queued.url.rpartition("/")[0] for queued in lease.prefetched.urls}:
            await rig.store.robots_put(rig.session, lease.slot, origin, copy)
        outcomes = [
            rig.blocked(queued, lease.slot)
            if number
            else rig.blocked(queued, lease.slot, rule="Disallow: /Y", line=3)
            for number, queued in enumerate(sorted(lease.prefetched.urls, key=lambda one: one.url))
        ]
        await rig.commit(lease, *outcomes, release=True)
    return rig


async def test_blocked_pages_have_every_row_once(forbidden: Any) -> None:
    found = await blocked(forbidden)
    assert sorted(found) == sorted(await forbidden.urls("blocked"))
    assert len(found) == 9
    page = await forbidden.reader.blocked_page()
    rows = {row["url"]: row for row in await forbidden.rows("blocked")}
    assert all(row == rows[row["url"]] for row in page.rows)
    assert page.after is None


async def test_blocked_by_host_and_rule(forbidden: Any) -> None:
    assert sorted(await blocked(forbidden, host="a.test")) == sorted(
        await forbidden.urls("blocked", host="a.test")
    )
    assert len(await blocked(forbidden, rule="disallow: /y")) == 2
    assert await blocked(forbidden, host="b.test", rule="/Y") == ["http://b.test/x0"]
    assert await blocked(forbidden, host="c.test") == []
    assert await blocked(forbidden, rule="%") == []


async def test_blocked_by_exactly_this_rule_and_reason(forbidden: Any) -> None:
    assert await blocked(forbidden, rule="Disallow: /Y", exact=True, host="a.test") == [
        "http://a.test/x0"
    ]
    assert await blocked(forbidden, rule="/Y", exact=True) == []
    assert await blocked(forbidden, rule="", exact=True) == []
    assert len(await blocked(forbidden, reason="robots")) == 9
    assert await blocked(forbidden, reason="redirect") == []


async def test_blocked_by_host_and_rule_are_counted(forbidden: Any) -> None:
    found = await forbidden.reader.blocked_groups()
    rules = {"/x": "Disallow: /x", "/Y": "Disallow: /Y"}
    assert [(row["host"], row["rule"], row["line"], row["urls"]) for row in found.rows] == [
        ("a.test", rules["/x"], 2, 4),
        ("b.test", rules["/x"], 2, 3),
        ("a.test", rules["/Y"], 3, 1),
        ("b.test", rules["/Y"], 3, 1),
    ]
    assert (found.more, found.complete) == (False, True)
    for row in found.rows:  # each group leads to its URLs
        urls = await blocked(
            forbidden, host=row["host"], rule=row["rule"], exact=True, reason=row["reason"]
        )
        assert len(urls) == row["urls"]
        assert row["last_at"] > 0
    assert found.rows[1]["robots_url"] == "http://b.test/robots.txt"
    first = await forbidden.reader.blocked_groups(limit=1)
    assert (len(first.rows), first.more) == (1, True)
    of_host = await forbidden.reader.blocked_groups(host="b.test", rule="/y")
    assert [row["urls"] for row in of_host.rows] == [1]
    assert (await forbidden.reader.blocked_groups(host="nobody.test")).rows == []
    assert (await forbidden.reader.blocked_groups(reason="redirect")).rows == []
    with pytest.raises(ValueError, match="rows"):
        await forbidden.reader.blocked_groups(limit=0)


async def test_what_was_not_looked_at_is_admitted(
    forbidden: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_queries, "GROUPED_MAX", 5)
    found = await forbidden.reader.blocked_groups()
    assert sum(row["urls"] for row in found.rows) == 5
    assert not found.complete
    assert (await forbidden.reader.blocked_groups(host="b.test")).complete


async def test_lines_that_block(forbidden: Any) -> None:
    assert await forbidden.reader.blocked_lines("http://b.test") == {2: 3, 3: 1}
    assert await forbidden.reader.blocked_lines("http://nobody.test") == {}
    newer = RobotsState(status=200, body=b"User-agent: *\n", copy_at=2.0)
    (lease,) = (await forbidden.store.acquire(forbidden.session, ["b.test"])).values()
    await forbidden.store.robots_put(forbidden.session, lease.slot, "http://b.test", newer)
    assert await forbidden.reader.blocked_lines("http://b.test") == {}


async def test_robots_states_of_many_hosts_at_once(forbidden: Any) -> None:
    await forbidden.add("http://c.test/")
    states = await forbidden.reader.robots_states(["a.test", "b.test", "c.test", "nobody.test"])
    assert states == {"a.test": "rules", "b.test": "rules"}
    gone = RobotsState(failures=1, unreachable_since=1.0, error="timeout")
    (lease,) = (await forbidden.store.acquire(forbidden.session, ["a.test"])).values()
    await forbidden.store.robots_put(forbidden.session, lease.slot, "http://a.test:81", gone)
    assert (await forbidden.reader.robots_states(["a.test"])) == {"a.test": "unreachable"}
    assert await forbidden.reader.robots_states([]) == {}


@each("first", [-(2**70), 2**63, 10**30, "\ud800", True, [1]])
async def test_a_place_that_no_page_gave_is_refused(rig, first):
    with pytest.raises(ValueError, match="after"):
        await rig.reader.blocked_page(after=mark("id", (first, 1)))
    with pytest.raises(ValueError, match="after"):
        await rig.reader.hosts_page(
            sort="queued", after=mark("queued", (first, "a.test")), now_s=rig.wall_s
        )
