"""A store in memory and one of another engine in lockstep, against a model of dictionaries."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from policies.listing import Listing
from policies.robots_state import RobotsState
from policies.scope import HOPS_MAX
from policies.url import host_of, origin_of
from storage.columns import REPORTS, VIEWS
from storage.postgres import maintenance, server_reader, server_store
from storage.reader import Reader
from storage.sqlite import file_reader, file_store, memory_store
from storage.sqlite.maintenance import check
from storage.store import (
    Batch,
    Blocked,
    BlockReason,
    Contact,
    Dropped,
    Failed,
    HostClock,
    HostUpdate,
    Lease,
    Link,
    Looked,
    Malformed,
    Moved,
    Outcome,
    Outlink,
    Plan,
    Pointer,
    Prefetch,
    Rel,
    Retry,
    Revisited,
    Row,
    SitemapRead,
    Store,
    Visited,
)
from storage.timekeeper import Timekeeper, Uptime
from tests.postgres_server import PostgresServer
from tests.storage.conftest import server_location


async def _rows(rows: AsyncIterator[Row]) -> list[tuple[object, ...]]:
    return [tuple(row.values()) async for row in rows]


pytestmark = pytest.mark.timeout(400)  # twice as long on a busy machine

START_S = 1_800_000_000.0
ORIGINS = ("http://a.test", "https://a.test", "http://b.test", "http://c.test:8080")
PATHS = ("/", "/1", "/2", "/3", "/q?1", "/q?2", "/q?3")
URLS = tuple(origin + path for origin in ORIGINS for path in PATHS)
SLOTS = ("a.test", "b.test", "c.test")

urls = st.sampled_from(URLS)
quarters = st.integers(0, 40).map(lambda n: n / 4)  # exact in every representation
links = st.lists(
    st.builds(
        lambda url, depth, priority, seed, sitemap, again_before, hops, needs: Link(
            url=url, slot=host_of(url), host=host_of(url), depth=depth, priority=priority,
            seed=seed, hops=hops, requisite=needs is not None, requisite_depth=needs or 0,
            sitemap=sitemap and "?" not in url,
            again_before=again_before if sitemap or seed else None,
            listing=Listing(priority=priority) if priority else None,
        ),
        urls,
        st.integers(0, 3),
        st.sampled_from((0.0, 0.0, 1.0)),
        st.sampled_from((False, False, False, True)),
        st.sampled_from((False, False, False, True)),
        st.sampled_from((None, START_S + 3)),
        st.sampled_from((0, 0, 1, HOPS_MAX)),
        st.sampled_from((None, None, 0, 1, 10)),
    ),
    max_size=6,
)  # fmt: skip
clocks = st.builds(
    HostClock, next_in_s=quarters, rested_s=st.sampled_from((None, 0.0, 2.5)), delay_s=quarters,
    backoff_in_s=st.sampled_from((0.0, 0.0, 8.0)), contacts=st.integers(0, 5),
    connect_failures=st.integers(0, 1),
)  # fmt: skip
contacts = st.lists(
    st.builds(
        Contact, start_at=quarters, end_at=quarters, kind=st.just("page"),
        status=st.sampled_from((None, 200)),
    ),
    max_size=3,
)  # fmt: skip
closed = st.lists(st.sampled_from(ORIGINS), max_size=2, unique=True)
accesses = st.builds(
    RobotsState, status=st.sampled_from((200, 404, None)),
    body=st.sampled_from((None, b"", b"User-agent: *")), failures=st.integers(0, 1),
    expires_at=st.sampled_from((None, START_S + 5)), retry_at=st.sampled_from((None, START_S + 3)),
)  # fmt: skip
kinds = st.sampled_from(
    ("visited", "redirect", "redirect", "blocked", "blocked", "failed", "retry", "dropped", "moved",
     "read")
)  # fmt: skip


class Stores(RuleBasedStateMachine):
    """What a crawl could do, in any order, with crashes between any two steps."""

    reports: tuple[str, ...] = tuple(REPORTS)  # compared after each step

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "crawl.db"
        self.runner = asyncio.Runner()
        self.wall_s = START_S
        self.memory = memory_store(wall=self.wall, queries_per_path_max=2)
        self.memory._calls.time._uptime = self.uptime  # it has none of its own
        self.second = self.other_store()
        self.sessions = self.run(self._open())
        self.reader = self.other_reader()
        self.leases: dict[str, tuple[Lease, Lease]] = {}  # memory's and sqlite's
        self.hand: dict[str, dict[str, tuple[int, int]]] = {}  # slot -> URL -> its two ids
        # The model: where each URL is, and where it leads.
        self.state: dict[str, str] = {}
        self.target: dict[str, str] = {}
        self.copies: dict[str, RobotsState] = {}
        self.sitemaps: set[str] = set()
        self.read: dict[str, float] = {}  # sitemaps that were read, and are not queued
        self.planned: dict[str, float] = {}  # of those: to be read again, and when last looked at
        self.again: set[str] = set()  # in hand because they are to be visited again
        self.marked: set[str] = set()  # origins to be judged again
        self.paused = False

    def wall(self) -> float:
        return self.wall_s

    def uptime(self) -> Uptime:
        """Both measure the time between two sessions by this, so that they lose none of it."""
        return Uptime("the machine of the model", self.wall_s)

    def run(self, awaitable: Any) -> Any:
        return self.runner.run(awaitable)

    async def _open(self) -> tuple[int, int]:
        return await self.memory.open_session("test"), await self.second.open_session("test")

    # ------------------------------------------------------------ the second engine

    def other_store(self) -> Store:
        return file_store(self.path, wall=self.wall, uptime=self.uptime, queries_per_path_max=2)

    def other_reader(self) -> Reader:
        return file_reader(self.path)

    def problems(self) -> list[str]:
        return check(self.path)

    def teardown(self) -> None:
        self.run(self.reader.close())
        self.run(self.second.close())
        self.runner.close()
        assert self.problems() == []
        self.folder.cleanup()

    # ------------------------------------------------------------ how answers are compared

    def leased(self, one: Lease, other: Lease) -> None:
        assert (one.slot, one.clean, one.clock, one.paused, one.slow_s) == (
            other.slot, other.clean, other.clock, other.paused, other.slow_s,
        )  # fmt: skip
        assert (one.visited, one.body_bytes) == (other.visited, other.body_bytes)
        assert dict(one.robots) == dict(other.robots)
        self.leases[one.slot] = (one, other)
        self.hand[one.slot] = {}
        self.handed(one.slot, one.prefetched, other.prefetched)

    def handed(self, slot: str, one: Any, other: Any) -> None:
        shown = [
            [
                (
                    q.url, q.depth, q.priority, q.attempts, q.refusals, q.seed, q.sitemap, q.hops,
                    q.requisite, q.requisite_depth,
                )
                for q in hand.urls
            ]
            for hand in (one, other)
        ]  # fmt: skip
        assert shown[0] == shown[1]
        assert one.next_due_in_s == other.next_due_in_s
        assert one.next_revisit_in_s == other.next_revisit_in_s
        for a, b in zip(one.urls, other.urls, strict=True):
            assert (a.before is None) == (b.before is None)
            if a.before is not None and b.before is not None:
                assert a.before == b.before
                assert self.state.get(a.url) == "visited" or a.url in self.planned
                self.again.add(a.url)
            else:
                assert self.state[a.url] == "queued"
                self.again.discard(a.url)
            assert a.sitemap == (a.url in self.sitemaps)
            assert a.url not in self.hand[slot]
            self.hand[slot][a.url] = (a.id, b.id)

    def found(self, links: list[Link]) -> None:
        """The model's insert; the limit on queries is the stores' own affair."""
        for link in links:
            url, state = link.url, self.state.get(link.url)
            if state is None and url not in self.read:
                if "?" not in url or link.seed:
                    self.state[url] = "queued"
                    self.sitemaps.discard(url)
                    if link.sitemap:
                        self.sitemaps.add(url)
            else:
                if link.sitemap:
                    self.sitemaps.add(url)
                if state == "visited" and link.sitemap:
                    self.state[url] = "queued"
                    self.target.pop(url, None)
                elif (
                    state is None
                    and link.again_before
                    and (
                        max(self.read[url], self.planned.get(url, 0.0)) < link.again_before
                        or max(self.read[url], self.planned.get(url, 0.0)) > self.wall_s + 86_400
                    )
                ):
                    self.planned.pop(url, None)
                    self.state[url] = "queued"
                    del self.read[url]

    def settle(self) -> None:
        """Block, in the model, every visited URL that leads to a blocked one."""
        again = True
        while again:
            again = False
            for url, target in self.target.items():
                if self.state.get(url) == "visited" and self.state.get(target) == "blocked":
                    self.state[url] = "blocked"
                    again = True

    # ------------------------------------------------------------ steps

    @initialize(some=st.sampled_from((0, 0, 3)))
    def begin(self, some: int) -> None:
        """With URLs in hand, as a rule: what comes of those is what most steps are about."""
        if some == 0:
            for origin in ORIGINS:
                for path in PATHS[:4]:
                    url = origin + path
                    link = Link(url=url, slot=host_of(url), host=host_of(url), depth=0)
                    self.add([link], revive=False)
            self.claim(4, 3)

    @rule(links=links, revive=st.booleans())
    def add(self, links: list[Link], revive: bool) -> None:
        one = self.run(self.memory.add(links, revive=revive))
        other = self.run(self.second.add(links, revive=revive))
        assert dict(one.added) == dict(other.added)
        self.found(links)
        for link in links:
            if revive and self.state.get(link.url) == "failed":
                self.state[link.url] = "queued"
        self.learn_queries()

    @rule(hosts=st.integers(0, 3), count=st.integers(0, 3))
    def claim(self, hosts: int, count: int) -> None:
        values = {"hosts": hosts, "urls_per_host": count}
        one = self.run(self.memory.claim(self.sessions[0], **values))
        other = self.run(self.second.claim(self.sessions[1], **values))
        assert [lease.slot for lease in one] == [lease.slot for lease in other]
        for pair in zip(one, other, strict=True):
            self.leased(*pair)

    @rule(slots=st.lists(st.sampled_from(SLOTS), max_size=2, unique=True))
    def acquire(self, slots: list[str]) -> None:
        one = self.run(self.memory.acquire(self.sessions[0], slots))
        other = self.run(self.second.acquire(self.sessions[1], slots))
        assert set(one) == set(other)
        for slot in one:
            self.leased(one[slot], other[slot])

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), clock=clocks, contacts=contacts, links=links, release=st.booleans())
    def complete(
        self, data: Any, clock: HostClock, contacts: list[Contact], links: list[Link], release: bool
    ) -> None:
        slot = data.draw(st.sampled_from(sorted(self.leases)))
        pair = self.leases[slot]
        ended = data.draw(
            st.lists(st.sampled_from(sorted(self.hand[slot])), max_size=3, unique=True)
            if self.hand[slot]
            else st.just([])
        )
        outcomes: tuple[list[Outcome], list[Outcome]] = ([], [])
        steps: list[tuple[str, str, str, float]] = []
        revisits = data.draw(st.sampled_from((True, True, False)))
        together = data.draw(quarters)  # one config says where all the origins of a batch belong
        for url in ended:
            kind, to, in_s = data.draw(kinds), data.draw(urls), data.draw(quarters)
            in_s = together if kind == "moved" else in_s
            for n in (0, 1):
                key = self.hand[slot][url][n]
                outcomes[n].append(self.outcome(kind, key, slot, url, to, in_s, links))
            steps.append((kind, url, to, in_s))
        if any(kind in ("visited", "redirect", "read") for kind, *_ in steps):
            self.found(links)
        for kind, url, to, in_s in steps:
            self.apply(kind, url, to, ungoverned=in_s > 5, plans=in_s % 2 < 1)
        count, shut = data.draw(st.integers(0, 3)), data.draw(closed)
        batches = [
            Batch(
                outcomes=outcomes[n],
                hosts=[
                    HostUpdate(
                        slot=slot, epoch=pair[n].epoch, clock=clock, contacts=contacts,
                        release=release,
                    )
                ],
                skipped={"nofollow": 1} if release else {},
                prefetch=[
                    Prefetch(
                        slot=slot,
                        count=count,
                        in_memory=[ids[n] for ids in self.hand[slot].values()],
                        closed=shut,
                        revisits=revisits,
                    )
                ],
            )
            for n in (0, 1)
        ]  # fmt: skip
        one = self.run(self.memory.complete(self.sessions[0], batches[0]))
        other = self.run(self.second.complete(self.sessions[1], batches[1]))
        assert (one.stale, dict(one.added)) == (other.stale, dict(other.added))
        assert one.stale == frozenset()
        assert set(one.prefetched) == set(other.prefetched) == (set() if release else {slot})
        self.settle()
        self.learn_queries()
        for url in ended:
            del self.hand[slot][url]
        if release:
            del self.leases[slot], self.hand[slot]
        else:
            self.handed(slot, one.prefetched[slot], other.prefetched[slot])

    def outcome(
        self, kind: str, key: int, slot: str, url: str, to: str, in_s: float, links: list[Link]
    ) -> Outcome:
        plan = None
        if in_s % 2 < 1:
            plan = Plan(
                due_in_s=in_s if in_s > 5 else 0.0, interval_s=in_s, checked_at=self.wall_s,
                changed_at=self.wall_s, visits=2, etag='"1"',
            )  # fmt: skip
        if kind == "retry" and url in self.again:
            return Revisited(id=key, slot=slot, plan=plan)
        if kind in ("visited", "redirect"):
            return Visited(
                id=key,
                slot=slot,
                status=301 if kind == "redirect" else 200,
                fetched_at=self.wall_s,
                content_type="text/html",
                body_bytes=10,
                elapsed_s=0.25,
                redirect_url=to if kind == "redirect" else None,
                ungoverned=in_s > 5,
                plan=plan,
                again=url in self.again,
                links=links,
                canonical_url=to if in_s > 3 else None,
                body_hash="f00d" * 4 if in_s > 3 else "0" * 16,
                usage="tdm-reservation: 1 (header)" if in_s > 3 else None,
                outlinks=[
                    Outlink(link.url, link.anchor, Rel.NOFOLLOW if in_s > 3 else None)
                    for link in links
                ],
                malformed=[Malformed(f"hhttp:{link.url}", "scheme") for link in links[:2]],
                pointers=[Pointer(link.url, f"{link.depth}", None) for link in links[1:]],
                elements=["1", "x"] if in_s > 3 else [],
                looked=Looked(int(in_s) % 8),
                cut="max_links" if in_s > 7 else None,
            )
        if kind == "read":
            return SitemapRead(
                id=key, slot=slot, status=200, fetched_at=self.wall_s, kind="rss", urls=2,
                error="cut" if in_s > 5 else None, links=links, plan=plan,
                again=url in self.again,
            )  # fmt: skip
        if kind == "blocked":
            return Blocked(
                id=key, slot=slot, reason=BlockReason.ROBOTS, dialect="slurp", rule="Disallow: /",
                line=2, robots_url=origin_of(url) + "/robots.txt", blocked_at=self.wall_s,
            )  # fmt: skip
        if kind == "failed":
            return Failed(id=key, slot=slot, error="body: cut", attempts=3, last_at=self.wall_s)
        if kind == "retry":
            return Retry(
                id=key, slot=slot, due_in_s=in_s, attempts=1, refusals=1, error="timeout: late"
            )
        if kind == "dropped":
            return Dropped(id=key, slot=slot, reason="max_depth")
        by_domain = int(self.wall_s) % 2 == 1  # a config has one slot for a host, at any moment
        return Moved(id=key, slot=slot, to_slot="test" if by_domain else host_of(url))

    def answered(self, kind: str, url: str, to: str, *, ungoverned: bool) -> None:
        self.state[url] = "visited"
        self.target.pop(url, None)
        copy = self.copies.get(origin_of(url))
        if ungoverned and copy is not None and not copy.failures:
            self.marked.add(origin_of(url))
        if kind == "redirect":
            self.target[url] = to

    def apply(self, kind: str, url: str, to: str, *, ungoverned: bool, plans: bool) -> None:
        state = self.state.get(url)
        if url in self.again and url in self.planned:
            if kind in ("read", "retry"):
                del self.planned[url]
                if plans:
                    self.planned[url] = self.wall_s
                if kind == "read":
                    self.read[url] = self.wall_s
        elif url in self.again:
            if state == "visited" and kind in ("visited", "redirect") and url not in self.sitemaps:
                self.answered(kind, url, to, ungoverned=ungoverned)
            elif state == "visited" and kind == "blocked":
                self.state[url] = "blocked"
                self.target.pop(url, None)
        elif kind == "read":
            if self.state.get(url) in ("queued", "failed"):
                del self.state[url]
                self.read[url] = self.wall_s
                self.sitemaps.add(url)
                if plans:
                    self.planned[url] = self.wall_s
        elif kind in ("visited", "redirect"):
            if state in ("queued", "failed") and url not in self.sitemaps:
                self.answered(kind, url, to, ungoverned=ungoverned)
        elif kind in ("blocked", "failed") and state in ("queued", "failed"):
            self.state[url] = kind
        elif kind == "dropped" and state == "queued":
            del self.state[url]

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), clock=clocks)
    def fail_host(self, data: Any, clock: HostClock) -> None:
        slot = data.draw(st.sampled_from(sorted(self.leases)))
        counts = []
        for n, store in enumerate((self.memory, self.second)):
            update = HostUpdate(slot=slot, epoch=self.leases[slot][n].epoch, clock=clock)
            counts.append(
                self.run(
                    store.fail_host(
                        self.sessions[n], update, error="dns: none", attempts=3, last_at=1.0
                    )
                )
            )
        assert counts[0] == counts[1]
        self.learn({"queued": "failed"})

    @rule(host=st.sampled_from((None, *SLOTS)))
    def retry_failed(self, host: str | None) -> None:
        one = self.run(self.memory.retry_failed(host))
        assert one == self.run(self.second.retry_failed(host))
        self.learn({"failed": "queued"})

    @rule(host=st.sampled_from((None, *SLOTS)))
    def drop_failed(self, host: str | None) -> None:
        one = self.run(self.memory.drop_failed(host))
        assert one == self.run(self.second.drop_failed(host))
        left = {row["url"] for row in self.run(self._views(self.memory.reader))["failed"]}
        dropped = [url for url, view in self.state.items() if view == "failed" and url not in left]
        assert len(dropped) == one
        for url in dropped:
            del self.state[url]

    @rule(data=st.data(), kept=st.booleans())
    def rejudge(self, data: Any, kept: bool) -> None:
        origin = data.draw(st.sampled_from(ORIGINS))
        results = []
        freed: list[str] = []
        gone: list[str] = []
        drop = data.draw(st.integers(0, 2))
        for n, store in enumerate((self.memory, self.second)):
            pages = self.run(store.ungoverned(origin, limit=9))
            blocks = self.run(store.blocked_by_robots(origin, after=0, limit=9))
            results.append(([p.url for p in pages], [b.url for b in blocks]))
            verdicts = [
                self.outcome("blocked", page.id, "", page.url, "", 0.0, []) for page in pages
            ]
            free = blocks[drop:]
            self.run(
                store.rejudge(
                    self.sessions[n],
                    kept=[page.id for page in pages] if kept else [],
                    withdrawn=[] if kept else [v for v in verdicts if isinstance(v, Blocked)],
                    freed=[block.id for block in free],
                )
            )
            freed = [block.url for block in free]
            gone = [] if kept else [page.url for page in pages]
        assert [sorted(part) for part in results[0]] == [sorted(part) for part in results[1]]
        for url in gone:
            self.state[url] = "blocked"
            self.target.pop(url, None)
        again = set(freed)
        for url in freed:
            self.state[url] = "queued"
        while again:
            again = {
                url
                for url, target in self.target.items()
                if target in again and self.state.get(url) == "blocked"
            }
            for url in again:
                self.state[url] = "queued"
            self.target = {u: t for u, t in self.target.items() if u not in again}
        self.settle()

    @rule(origin=st.sampled_from(ORIGINS), access=accesses, rejudge=st.booleans())
    def robots_put(self, origin: str, access: RobotsState, rejudge: bool) -> None:
        slot = host_of(origin + "/")
        for n, store in enumerate((self.memory, self.second)):
            put = store.robots_put(self.sessions[n], slot, origin, access, rejudge=rejudge)
            self.run(put)
            assert self.run(store.robots_get(origin)) == access
        self.copies[origin] = access
        if rejudge:
            self.marked.add(origin)

    @rule(origin=st.sampled_from(ORIGINS))
    def rejudge_done(self, origin: str) -> None:
        for n, store in enumerate((self.memory, self.second)):
            self.run(store.rejudge_done(self.sessions[n], origin))
        self.marked.discard(origin)

    @rule(
        slot=st.sampled_from(SLOTS),
        paused=st.sampled_from((None, False, True)),
        slow_s=st.sampled_from((None, 2.0)),
        clear=st.booleans(),
    )
    def control(self, slot: str, paused: bool | None, slow_s: float | None, clear: bool) -> None:
        one, other = (
            self.run(store.set_controls([slot], paused=paused, slow_s=slow_s, clear_slow=clear))
            for store in (self.memory, self.second)
        )
        assert one == other

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        for store in (self.memory, self.second):
            self.run(store.set_paused(paused))
        self.paused = paused

    @rule()
    def recheck_delays(self) -> None:
        for n, store in enumerate((self.memory, self.second)):
            self.run(store.recheck_delays(self.sessions[n]))

    @rule()
    def rejudge_all(self) -> None:
        for n, store in enumerate((self.memory, self.second)):
            self.run(store.rejudge_all(self.sessions[n]))
            due = self.run(store.rejudge_due(self.sessions[n], limit=9))
            self.marked |= {one.origin for one in due}  # pages fetched for lack of an answer
        blocked = self.run(self._views(self.memory.reader))["blocked"]
        self.marked |= {origin_of(row["url"]) for row in blocked if row["reason"] == "robots"}

    @rule(by_s=st.sampled_from((0.25, 1.0, 5.0, 30.0, -100.0)))
    def pass_time(self, by_s: float) -> None:
        self.wall_s += by_s
        self.memory._calls.time.now_s()  # a store learns of a clock set back when it next looks
        self.second._calls.time.now_s()

    @rule()
    def crash(self) -> None:
        self.run(self.memory.close())
        self.run(self.second.close())
        self.wall_s += 0.01  # no process comes back within the microsecond that orders leases
        self.second = self.other_store()
        self.sessions = self.run(self._open())
        # Between sessions a second at most is lost; the two are put side by side again.
        time = self.memory._calls.time
        self.second._calls.time.resume(time.now_s(), time.shift_s())
        self.leases.clear()
        self.hand.clear()

    # ------------------------------------------------------------ what always holds

    async def _views(self, reader: Any) -> dict[str, list[dict[str, object]]]:
        return {
            view: sorted(
                ([dict(row) async for row in reader.iterate(view)]),
                key=lambda row: (
                    str(row.get("url") or row.get("host") or row.get("reason")),
                    str(row.get("source")),
                    str(row.get("target")),
                ),
            )
            for view in VIEWS
        } | {
            f"report {kind}": sorted(map(str, await _rows(reader.report(kind))))
            for kind in self.reports
        }

    def learn(self, moves: dict[str, str]) -> None:
        """Follow a step in bulk: those URLs that the store says have moved as they may."""
        views = self.run(self._views(self.memory.reader))
        for view in ("queued", "failed"):
            for row in views[view]:
                url = row["url"]
                if self.state[url] != view:
                    assert moves[self.state[url]] == view
                    self.state[url] = view

    def learn_queries(self) -> None:
        """Follow the limit on queries: of a path's URLs with a query two are inserted."""
        views = self.run(self._views(self.memory.reader))
        for row in views["queued"]:
            if "?" in row["url"]:
                self.state.setdefault(row["url"], "queued")

    @invariant()
    def both_tell_the_same_and_the_model_agrees(self) -> None:
        one = self.run(self._views(self.memory.reader))
        other = self.run(self._views(self.reader))
        for view in VIEWS:
            for rows in (one[view], other[view]):
                for row in rows:
                    row.pop("next_at", None)  # differs by what `crash` puts side by side again
                    row.pop("backoff_until", None)
                    row.pop("due_at", None)
                    row.pop("next_visit_at", None)
            assert one[view] == other[view], view
        for kind in self.reports:
            assert one[f"report {kind}"] == other[f"report {kind}"], kind
        states = {
            row["url"]: view
            for view in ("visited", "blocked", "failed", "queued")
            for row in one[view]
        }
        assert states == self.state
        assert sum(len(one[view]) for view in ("visited", "blocked", "failed", "queued")) == len(
            states
        )  # in exactly one each
        for row in one["hosts"]:
            assert row["queued"] >= 0
        for view in ("visited", "blocked", "failed", "queued"):
            assert sum(row[view] for row in one["hosts"]) == len(one[view])
        stats = self.run(self.memory.stats())
        assert stats == self.run(self.second.stats()) == self.run(self.reader.stats())
        due = [
            {one.origin for one in self.run(store.rejudge_due(self.sessions[n], limit=9))}
            for n, store in enumerate((self.memory, self.second))
        ]
        judged = {origin_of(str(row["url"])) for row in one["blocked"] if row["reason"] == "robots"}
        assert due[0] == due[1]
        assert due[0] <= self.marked
        assert due[0] >= self.marked & judged
        assert self.paused == self.run(self.memory.paused()) == self.run(self.second.paused())
        again = [
            self.run(store.revisits_due(self.sessions[n], limit=9))
            for n, store in enumerate((self.memory, self.second))
        ]
        assert set(again[0]) == set(again[1])
        outlook = self.run(self.memory.outlook(self.sessions[0]))
        assert outlook == self.run(self.second.outlook(self.sessions[1]))


TestStores = Stores.TestCase
TestStores.settings = settings(max_examples=10, stateful_step_count=30, deadline=None)


class StoresOnServers(Stores):
    """The same with PostgreSQL in place of the file. Each of its reports takes a connection."""

    server: PostgresServer
    reports = ("broken",)

    def other_store(self) -> Store:
        if not hasattr(self, "location"):
            self.location = server_location(self.server.emptied_database())
        time = Timekeeper(self.wall, uptime=self.uptime)
        return server_store(self.location, wall=self.wall, queries_per_path_max=2, time=time)

    def other_reader(self) -> Reader:
        return server_reader(self.location)

    def problems(self) -> list[str]:
        return maintenance.check(self.location)


class TestStoresOnServers(StoresOnServers.TestCase):  # type: ignore[misc, name-defined]
    settings = settings(max_examples=3, stateful_step_count=25, deadline=None)

    @pytest.fixture(autouse=True)
    def _server(self, postgres: PostgresServer) -> None:
        StoresOnServers.server = postgres
