"""Commits by themselves, on a clock that jumps and a store that takes its time: when one is made,
what goes into it, and who waits for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import pytest
from msgspec import structs

from crawler.config import from_dict
from crawler.config.model import CurrentConfig
from crawler.frontier.commands import Commit
from crawler.frontier.commit_buffer import (
    CHARS_OF_LINK,
    COMMIT_AFTER_S,
    LINKS_MAX,
    LINKS_PER_COMMIT,
    CommitBatch,
)
from crawler.frontier.crowd_pace import COMMIT_LONG_S
from crawler.frontier.frontier import COMMITTED_S, FEW_HOSTS, Frontier
from crawler.frontier.host_queue import HostQueue, Permit
from crawler.processing.committer import Committer
from crawler.scheduling.contact_loop import commands_of
from crawler.scheduling.task_set import TaskSet
from crawler.testing import JumpClock
from policies.pacing import PacingRules
from policies.scope import Skip
from storage.store import (
    Batch,
    Completed,
    Dropped,
    HostClock,
    Lease,
    Link,
    Outcome,
    Prefetched,
    Queued,
    Store,
    StoreError,
    Visited,
)

if TYPE_CHECKING:
    from crawler.documents.crawled_page import CrawledPage
    from crawler.sinks.dispatch import Sinks

FLOAT_S = 1e-6  # the clock counts in floats


class Minutes:
    """A store that keeps the minutes of what it is given, and takes `slow_s` for each commit."""

    shared = False

    def __init__(self, clock: JumpClock) -> None:
        self.clock = clock
        self.batches: list[Batch] = []
        self.began_s: list[float] = []
        self.under_way = 0
        self.slow_s = 0.0
        self.error: StoreError | None = None

    async def complete(self, session: int, batch: Batch) -> Completed:
        self.began_s.append(self.clock.elapsed_s)
        self.under_way += 1
        assert self.under_way == 1, "one commit is under way at a time"
        if self.slow_s:
            await self.clock.sleep_until(self.clock.monotonic() + self.slow_s)
        self.under_way -= 1
        if self.error:
            raise self.error
        self.batches.append(batch)
        return Completed(stale=frozenset(), added={}, prefetched={})


class Told(Frontier):
    """Notes what it is told of commits."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.told: list[list[Outcome]] = []

    def committed(self, taken: CommitBatch, completed: Completed) -> None:
        self.told.append(taken.outcomes)
        super().committed(taken, completed)


class Rig:
    def __init__(self, clock: JumpClock, sinks: Slow | None = None) -> None:
        self.clock = clock
        self.store = Minutes(clock)
        store = cast("Store", self.store)
        given = cast("Sinks", sinks) if sinks else None
        self.frontier = Told(CurrentConfig(from_dict({})), clock, store, sinks=given)
        self.buffer = self.frontier.buffer
        self.permits = self.frontier.permits
        self.committer = Committer(self.frontier, store, 1, clock, sinks=given)
        self.runs = asyncio.create_task(self.committer.run())
        self.loop = asyncio.create_task(self._run())

    @property
    def told(self) -> list[list[Outcome]]:
        return self.frontier.told

    async def _run(self) -> None:
        tasks = TaskSet(self.frontier.commands)
        async with contextlib.aclosing(commands_of(self.frontier, self.clock, tasks)) as commands:
            async for command in commands:
                if isinstance(command, Commit):
                    self.committer.begin()

    def acquire(self, host: HostQueue) -> Permit:
        """Nobody else waits for it."""
        permit = self.permits.for_host(host)
        assert isinstance(permit, Permit)
        return permit

    def host(self, name: str = "a.test", pages: int = 0) -> HostQueue:
        hand = [
            Queued(
                id=n, url=f"http://{name}/{n}", depth=0, priority=0, attempts=0, refusals=0,
                seed=False,
            )
            for n in range(pages)
        ]  # fmt: skip
        lease = Lease(
            slot=name, epoch=7, clean=True, clock=HostClock(), paused=False, slow_s=None, visited=0,
            body_bytes=0, robots={}, prefetched=Prefetched(urls=hand, next_due_in_s=None),
        )  # fmt: skip
        return self.frontier.host_leased(lease)

    async def after(self, for_s: float) -> int:
        """How many commits were begun by then."""
        await self.clock.sleep_until(self.clock.monotonic() + for_s)
        return len(self.store.began_s)

    async def begins(self, waiting: Awaitable[None]) -> asyncio.Task[None]:
        """A task that has run as far as it can without time passing."""

        async def wait() -> None:
            await waiting

        task = asyncio.create_task(wait())
        for _ in range(5):
            await asyncio.sleep(0)
        return task


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with JumpClock() as clock:
        rig = Rig(clock)
        yield rig
        rig.runs.cancel()
        with suppress(asyncio.CancelledError, StoreError):
            await rig.runs


def visited(id_: int, links: int = 0, host: str = "a.test") -> Visited:
    return Visited(
        id=id_,
        slot=host,
        status=200,
        fetched_at=0,
        content_type=None,
        body_bytes=0,
        elapsed_s=0,
        links=[
            Link(url=f"http://{host}/{id_}/{n}", slot=host, host=host, depth=1)
            for n in range(links)
        ],
    )


# ---------------------------------------------------------------- when


async def test_it_commits_when_the_oldest_entry_is_100_ms_old(rig: Rig) -> None:
    """Links that come later do not delay it."""
    assert COMMIT_AFTER_S == 0.1
    host = rig.host()
    for n in range(3):
        rig.buffer.record(visited(n), host)
        assert await rig.after(0.03) == 0
    assert await rig.after(0.02) == 1
    assert rig.store.began_s[0] == pytest.approx(0.1)
    assert [outcome.id for outcome in rig.store.batches[0].outcomes] == [0, 1, 2]
    rig.buffer.skip("max_depth", 3)
    assert await rig.after(0.09) == 1
    assert await rig.after(0.02) == 2
    assert rig.store.batches[1].skipped == {"max_depth": 3}
    assert await rig.after(60) == 2  # nothing to say, nothing said


async def test_it_commits_at_1000_links(rig: Rig) -> None:
    assert LINKS_PER_COMMIT == 1_000
    host = rig.host()
    rig.buffer.record(visited(1, links=600), host)
    rig.buffer.record(visited(2, links=399), host)
    assert await rig.after(0.01) == 0
    rig.buffer.record(visited(3, links=1), host)
    assert await rig.after(FLOAT_S) == 1
    assert rig.store.began_s[0] == pytest.approx(0.01)
    assert [outcome.id for outcome in rig.store.batches[0].outcomes] == [1, 2, 3]


async def test_it_commits_at_once_for_a_host_with_nothing_else_to_do(rig: Rig) -> None:
    """With what was recorded before, so that its retries can be handed out again."""
    host = rig.host(pages=2)
    other = rig.host("b.test")
    rig.buffer.record(visited(9, host="b.test"), other)
    rig.buffer.record(visited(0), host)
    host.closed.add("http://a.test:81")
    host.parked["https://a.test"] = []
    host.prefetched.clear()  # 1 is being fetched
    rig.frontier.want(host)
    rig.frontier.want(host)
    assert await rig.after(FLOAT_S) == 1
    (batch,) = rig.store.batches
    (want,) = batch.prefetch
    assert want.slot == "a.test"
    assert set(want.in_memory) == {1}  # 0 is settled by this very commit
    assert set(want.closed) == {"http://a.test:81", "https://a.test"}
    assert {outcome.id for outcome in batch.outcomes} == {0, 9}
    assert sorted(update.slot for update in batch.hosts) == ["a.test", "b.test"]
    assert {update.epoch for update in batch.hosts} == {7}


async def test_hosts_that_rest_for_longer_than_a_commit_takes_share_it(rig: Rig) -> None:
    """But not one that could go on before."""

    def rests(host: HostQueue, for_s: float) -> None:
        host.pace.ends = [rig.clock.monotonic() - PacingRules().delay + for_s]

    *resting, soon, idle = [rig.host(f"h{n}.test") for n in range(FEW_HOSTS + 4)]
    for host in resting:
        rests(host, COMMITTED_S + 0.01)
        rig.frontier.want(host)
    assert await rig.after(COMMIT_AFTER_S - 0.01) == 0
    assert await rig.after(0.01 + FLOAT_S) == 1
    assert {want.slot for want in rig.store.batches[0].prefetch} == {host.slot for host in resting}
    rests(soon, COMMITTED_S - 0.01)
    rig.frontier.want(soon)
    assert await rig.after(FLOAT_S) == 2
    rig.frontier.want(idle)
    assert await rig.after(FLOAT_S) == 3
    read = resting[0]
    read.wanting = False
    rests(read, COMMITTED_S + 0.01)
    rig.frontier.want(read)
    assert await rig.after(0.02) == 3
    rig.frontier.want(read)  # again, once its page is read, which took its time
    assert await rig.after(FLOAT_S) == 4


async def test_a_host_with_some_urls_left_wants_more_with_the_next_commit(rig: Rig) -> None:
    """No commit for it alone, unless its last ones are used up before."""
    host = rig.host(pages=2)
    rig.frontier.want(host)
    assert await rig.after(COMMIT_AFTER_S - 0.001) == 0
    assert await rig.after(0.002) == 1
    host.wanting = False
    rig.frontier.want(host)
    host.prefetched.clear()
    rig.frontier.want(host)
    assert await rig.after(FLOAT_S) == 2
    assert [len(batch.prefetch) for batch in rig.store.batches] == [1, 1]


async def test_a_host_that_is_gone_or_full_wants_nothing(rig: Rig) -> None:
    """ "RobotsPacing for more URLs of a host that has nothing else to do": of one that is ours."""
    full, gone, dropped = rig.host("full.test"), rig.host("gone.test"), rig.host("dropped.test")
    full.full = Skip.MAX_PAGES_PER_HOST
    rig.permits.drop(gone)
    rig.frontier.want(full)
    rig.frontier.want(gone)
    assert await rig.after(1) == 0
    rig.frontier.want(dropped)
    rig.permits.drop(dropped)
    await rig.after(1)
    assert all(batch.prefetch == [] for batch in rig.store.batches)


async def test_law_5_what_is_urgent_is_committed_at_once(rig: Rig) -> None:
    """Retry-After and back-off: with the clock of their host."""
    host = rig.host()
    host.pace.answered(429, refusal=True, asked_s=500, now_s=rig.clock.monotonic())
    rig.buffer.urgent(host)
    assert await rig.after(FLOAT_S) == 1
    ((update,),) = (batch.hosts for batch in rig.store.batches)
    assert update.clock.backoff_in_s == 500


async def test_law_6_a_release_goes_with_the_last_contact_and_at_once(rig: Rig) -> None:
    """A lease is released only in the transaction that stores the host's last contact."""
    host = rig.host()
    permit = rig.acquire(host)
    now_s = rig.clock.monotonic()
    permit.host.pace.on_wire()
    rig.permits.end(permit, started_s=now_s, ended_s=now_s, kind="page", status=200)
    rig.buffer.touch(host)
    rig.buffer.record(visited(1), host)
    rig.permits.drop(host)
    rig.store.slow_s = 1
    rig.buffer.release(host, put_off_s=now_s + 300)
    assert rig.buffer.releasing("a.test")
    await rig.after(0.5)
    assert rig.buffer.releasing("a.test")  # it is being committed
    await rig.after(1)
    assert not rig.buffer.releasing("a.test")
    (batch,) = rig.store.batches
    (update,) = batch.hosts
    assert update.release
    assert update.clock.next_in_s == pytest.approx(300)
    assert [contact.kind for contact in update.contacts] == ["page"]
    assert [outcome.id for outcome in batch.outcomes] == [1]


async def contact(rig: Rig, host: HostQueue) -> None:
    """A contact that ends now; the page it brought is then being read."""
    permit = rig.acquire(host)
    now_s = rig.clock.monotonic()
    permit.host.pace.on_wire()
    rig.permits.end(permit, started_s=now_s, ended_s=now_s, kind="page", status=200)
    rig.buffer.contacted(host)
    host.unread += 1


async def test_a_clock_waits_for_one_commit_while_its_page_is_read(rig: Rig) -> None:
    """Not longer, however long somebody reads; and for its sake alone no commit is made that says
    nothing."""
    slow, quick = rig.host("slow.test"), rig.host("quick.test")
    await contact(rig, slow)
    await contact(rig, quick)
    assert await rig.after(0.05) == 0
    quick.unread -= 1
    rig.buffer.record(visited(1, host="quick.test"), quick)
    assert await rig.after(0.1) == 1
    assert [update.slot for update in rig.store.batches[0].hosts] == ["quick.test"]
    assert not rig.buffer.empty
    assert await rig.after(0.1) == 2
    assert rig.buffer.empty
    (update,) = rig.store.batches[1].hosts
    assert update.slot == "slow.test"
    assert update.clock.contacts == len(update.contacts) == 1
    await rig.clock.sleep_until(rig.clock.monotonic() + 60)
    await contact(rig, slow)
    assert await rig.after(0.19) == 2
    assert await rig.after(0.02) == 3
    (update,) = rig.store.batches[2].hosts
    assert update.clock.contacts == 2
    assert len(update.contacts) == 1
    assert rig.buffer.empty
    assert await rig.after(3600) == 3


async def test_a_clock_that_waits_goes_with_its_release(rig: Rig) -> None:
    """Once, with the contact."""
    host = rig.host()
    rig.store.slow_s = 1
    await contact(rig, host)
    rig.buffer.skip("max_depth")
    await rig.after(0.5)  # a commit has begun without it
    host.unread -= 1
    rig.permits.drop(host)
    rig.buffer.release(host)
    await rig.committer.flush()
    first, second = rig.store.batches
    assert first.hosts == []
    (update,) = second.hosts
    assert update.release
    assert len(update.contacts) == 1
    assert rig.buffer.empty


# ---------------------------------------------------------------- who waits


async def test_flush_waits_for_the_clock_of_a_page_that_is_being_read(rig: Rig) -> None:
    host = rig.host()
    await contact(rig, host)
    await rig.committer.flush()
    (batch,) = rig.store.batches
    (update,) = batch.hosts
    assert len(update.contacts) == 1
    assert rig.buffer.empty


async def test_flush_returns_when_all_recorded_before_it_is_committed(rig: Rig) -> None:
    """Also when a commit was under way that had begun without it."""
    host = rig.host()
    rig.store.slow_s = 1
    await rig.committer.flush()  # nothing to wait for
    rig.buffer.record(visited(1), host)
    rig.buffer.urgent(host)
    await rig.after(0.5)
    rig.buffer.record(visited(2), host)
    flushed = await rig.begins(rig.committer.flush())
    await rig.after(0.6)  # the first commit is done
    assert len(rig.store.batches) == 1
    assert not flushed.done()
    rig.buffer.record(visited(3), host)  # after the call: not waited for
    await flushed
    assert rig.clock.elapsed_s == pytest.approx(2)
    assert [[o.id for o in batch.outcomes] for batch in rig.store.batches] == [[1], [2]]
    assert [[o.id for o in told] for told in rig.told] == [[1], [2]]  # told before it returned
    assert not rig.buffer.empty
    await rig.committer.flush()
    assert rig.buffer.empty


async def test_what_comes_during_a_commit_gathers_for_the_next(rig: Rig) -> None:
    """One commit is under way at a time (the double checks that), and nothing is said twice."""
    host = rig.host()
    rig.store.slow_s = 1
    for n in range(20):
        rig.buffer.record(visited(n), host)
        rig.buffer.skip("nofollow")
        await rig.after(0.15)
    await rig.committer.flush()
    assert [o.id for batch in rig.store.batches for o in batch.outcomes] == list(range(20))
    assert sum(batch.skipped["nofollow"] for batch in rig.store.batches) == 20
    assert len(rig.store.batches) == 4


async def test_law_7_pages_wait_while_far_more_links_are_recorded_than_taken(rig: Rig) -> None:
    """Backpressure: `room` lets pages pass up to LINKS_MAX links, and waits beyond it."""
    host = rig.host()
    rig.store.slow_s = 5
    rig.buffer.urgent(host)
    await rig.after(FLOAT_S)  # a commit is under way and takes its time
    rig.buffer.record(visited(1, links=LINKS_MAX), host)
    passes = await rig.begins(rig.committer.room())
    assert passes.done()
    rig.buffer.record(visited(2, links=1), host)
    waits = await rig.begins(rig.committer.room())
    assert not waits.done()
    await waits
    assert {1, 2} <= {o.id for batch in rig.store.batches for o in batch.outcomes}
    assert rig.clock.elapsed_s == pytest.approx(10)
    assert (await rig.begins(rig.committer.room())).done()


async def test_cancelling_who_waits_for_a_commit_leaves_it_alone(rig: Rig) -> None:
    host = rig.host()
    rig.store.slow_s = 1
    rig.buffer.record(Dropped(id=1, slot="a.test", reason="excluded"), host)
    waits = await rig.begins(rig.committer.flush())
    waits.cancel()
    with suppress(asyncio.CancelledError):
        await waits
    await rig.after(2)
    assert [o.id for batch in rig.store.batches for o in batch.outcomes] == [1]
    assert rig.buffer.empty


async def test_a_store_that_cannot_go_on_ends_it_loudly(rig: Rig) -> None:
    """Commit for ever; ends by cancellation, or loudly by StoreError."""
    rig.store.error = StoreError("the disk is full")
    rig.buffer.record(visited(1), rig.host())
    with pytest.raises(StoreError, match="the disk is full"):
        await rig.runs
    assert rig.told == []
    assert not rig.buffer.empty


class Slow:
    """Sinks that take their time; each flush ends when it is let go."""

    def __init__(self) -> None:
        self.put_pages: list[object] = []
        self.flushed: list[int] = []
        self.go = asyncio.Event()
        self.due = self.full = False

    def put(self, page: object, id_: int) -> None:
        self.put_pages.append(page)

    def take_faults(self) -> dict[int, str]:
        return {}

    async def flush(self) -> None:
        upto = len(self.put_pages)
        await self.go.wait()
        self.flushed.append(upto)


async def test_law_5_a_page_is_with_its_sinks_before_its_outcome_is_committed() -> None:
    """Also where the commit is cancelled while they write: the next one finishes it."""
    async with JumpClock() as clock:
        sinks = Slow()
        rig = Rig(clock, sinks)
        rig.buffer.record(visited(1), rig.host(), page=cast("CrawledPage", "the page"))
        assert await rig.after(10 * COMMIT_AFTER_S) == 0, "nothing before they have it"
        rig.runs.cancel()
        with suppress(asyncio.CancelledError):
            await rig.runs
        rig.buffer.record(visited(2), rig.host(), page=cast("CrawledPage", "another"))
        sinks.go.set()
        await rig.committer.commit()
        assert [[one.id for one in batch.outcomes] for batch in rig.store.batches] == [[1], [2]]
        assert sinks.flushed == [2, 2]
        assert rig.buffer.empty


async def test_a_long_redirect_counts_as_many_links(rig: Rig) -> None:
    """Else thousands of URLs of 64 KB would be in memory until they were committed."""
    host = rig.host()
    long = f"http://a.test/{'x' * CHARS_OF_LINK * LINKS_PER_COMMIT}"
    rig.buffer.record(structs.replace(visited(1), redirect_url="http://a.test/2"), host)
    assert await rig.after(FLOAT_S) == 0
    rig.buffer.record(structs.replace(visited(2), redirect_url=long), host)
    assert await rig.after(FLOAT_S) == 1


@pytest.mark.parametrize("slow_s", [COMMIT_LONG_S / 2, 2 * COMMIT_LONG_S])
async def test_a_long_commit_spaces_the_requests_of_crowded_domains(
    rig: Rig, slow_s: float
) -> None:
    """Beside the short ones: those of a store that is always slow are nobody's doing."""
    for commits, rig.store.slow_s in enumerate((0.0, slow_s), 1):
        assert rig.permits.limits.load.interval_s == 0.0
        rig.buffer.skip("max_depth", 1)
        assert await rig.after(1.0) == commits
    assert (rig.permits.limits.load.interval_s > 0.0) is (slow_s > COMMIT_LONG_S)
