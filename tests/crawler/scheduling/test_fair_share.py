"""Workers of a shared crawl come to have as many hosts as each other, and then leave them alone."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest

from crawler.fetching.request import Request
from crawler.frontier.host_queue import HostQueue
from crawler.scheduling.fair_share import CHANGING_HANDS_S, SURPLUS_S, FairShare, OtherWorkers
from crawler.testing import JumpClock, Reply, html, not_found
from policies.url import host_of, path_of
from tests.crawler.scheduling.shared_rig import GRACE_S, LEASE_S, SharedWorld, SharingWorker

SLOW_S = 4.0
SETTLED_S = 40.0


@pytest.fixture
async def shared() -> AsyncIterator[SharedWorld]:
    async with JumpClock() as clock:
        yield SharedWorld(clock)


def endless(request: Request) -> Reply:
    """Hosts that never end."""
    path = path_of(request.url)
    if path == "/robots.txt":
        return not_found()
    n = int(path[1:])
    return html("Page", *(f"/{m}" for m in range(n + 1, n + 4)))


def seeds_of(hosts: int) -> list[str]:
    return [f"http://h{n}.test/0" for n in range(hosts)]


class Moves:
    """Counts the hosts that each worker releases while it continues."""

    def __init__(self, shared: SharedWorld) -> None:
        self.released = 0
        self._shared = shared
        self._watched: set[int] = set()

    def watch(self) -> None:
        for worker in self._shared.workers:
            if id(worker) not in self._watched:
                self._watched.add(id(worker))
                self._count(worker)

    def _count(self, worker: SharingWorker) -> None:
        frontier = worker.scheduler.frontier
        release = frontier.buffer.release

        def counted(host: HostQueue, *, put_off_s: float) -> None:
            self.released += not frontier.stopping
            release(host, put_off_s=put_off_s)

        frontier.buffer.release = counted  # type: ignore[assignment, method-assign]


def counts_of(shared: SharedWorld) -> list[int]:
    return [len(worker.hosts) for worker in shared.workers if not worker.task.done()]


async def stop(shared: SharedWorld) -> None:
    for worker in shared.workers:
        if not worker.task.done():
            worker.scheduler.stop()
    await shared.end()
    shared.check_delays()


# ---------------------------------------------------------------- the rule


def agreed(counts: list[int], *, rounds: int) -> tuple[list[int], int]:
    """What becomes of these counts when all that is released is claimed, and how many that were."""
    released = 0
    for _ in range(rounds):
        after = list(counts)
        for number, own in enumerate(counts):
            others = OtherWorkers(shared=True, session=number)
            others.sharing = {n: count for n, count in enumerate(counts) if n != number}
            share = FairShare(others, 0.0)
            for second in range(1, 6):
                share.learned(own, float(second))
            after[number] -= share.surplus(own, 5.5)
            released += counts[number] - after[number]
        spare = sum(counts) - sum(after)
        for number, own in enumerate(after):
            others = OtherWorkers(shared=True, session=number)
            others.sharing = {n: count for n, count in enumerate(counts) if n != number}
            share = FairShare(others, 0.0)
            share.learned(counts[number], 5.0)
            claimed = min(spare, max(0, share.share(own, 6.0) - own))
            after[number] += claimed
            spare -= claimed
        assert spare == 0, "each is claimed by who has too few"
        counts = after
    return counts, released


def test_no_more_is_released_than_must_move() -> None:
    rng = random.Random(1)
    for _ in range(2_000):
        counts = [rng.choice((0, 1, 5, rng.randrange(60))) for _ in range(rng.randint(1, 7))]
        each, left_over = divmod(sum(counts), len(counts))
        fair = sorted((each + (n < left_over) for n in range(len(counts))), reverse=True)
        least = sum(max(0, a - b) for a, b in zip(sorted(counts)[::-1], fair, strict=True))
        after, released = agreed(counts, rounds=1)
        assert max(after) - min(after) <= 1
        assert released == (least if max(counts) - min(counts) >= 2 else 0)
        assert agreed(after, rounds=2) == (after, 0)


def test_a_surplus_must_last() -> None:
    others = OtherWorkers(shared=True, session=1)
    share = FairShare(others, 0.0)
    share.learned(10, 0.5)
    others.sharing = {2: 0}
    for second in range(1, 5):
        assert share.surplus(10, float(second)) == (5 if second > SURPLUS_S + 0.5 else 0)
        share.learned(10, float(second))
    assert share.surplus(10, 4.5) == 5
    assert share.surplus(10, 5.0 + CHANGING_HANDS_S) == 0, "it has not heard of them since"


def test_hosts_that_change_hands_count() -> None:
    """Another has released some, and nobody says yet that it has them."""
    others = OtherWorkers(shared=True, session=1)
    share = FairShare(others, 0.0)
    others.sharing = {2: 12, 3: 0}
    share.learned(12, 1.0)
    others.sharing = {2: 8, 3: 0}
    share.learned(12, 2.0)
    assert share.share(12, 2.5) == 8
    share.learned(12, 4.0)
    assert not share.settled(12, 4.1)
    assert share.share(12, 2.5 + CHANGING_HANDS_S) == 7, "they have ended"
    assert share.settled(12, 2.5 + CHANGING_HANDS_S)


# ---------------------------------------------------------------- workers


async def test_one_that_joins_late_is_given_its_share_at_once(shared: SharedWorld) -> None:
    moves = Moves(shared)
    await shared.begin(endless, *seeds_of(24), workers=2)
    moves.watch()
    await shared.wait(SETTLED_S)
    assert counts_of(shared) == [12, 12]
    moves.released = 0
    await shared.begin(endless, workers=1)
    moves.watch()
    await shared.wait(SURPLUS_S + 5)
    assert counts_of(shared) == [8, 8, 8]
    assert moves.released == 8
    await shared.wait(60)
    assert counts_of(shared) == [8, 8, 8]
    assert moves.released == 8, "none is released when all have as many"
    await stop(shared)


async def test_one_that_keeps_too_many_gives_some_though_no_other_has_none(
    shared: SharedWorld,
) -> None:
    """Each has a few, which kept the rest with the one that had them."""
    over: set[str] = set()

    def answers(request: Request) -> Reply:
        return html("The last page") if host_of(request.url) in over else endless(request)

    workers = await shared.begin(answers, *seeds_of(24), workers=3)
    await shared.wait(SETTLED_S)
    assert counts_of(shared) == [8, 8, 8]
    for worker in workers[1:]:
        over.update(worker.hosts[2:])
    await shared.wait(SETTLED_S)
    assert counts_of(shared) == [4, 4, 4]
    await stop(shared)


@pytest.mark.parametrize(("hosts", "workers"), [(1, 3), (2, 3), (3, 5), (4, 4)])
async def test_few_hosts_stay_where_they_are(shared: SharedWorld, hosts: int, workers: int) -> None:
    moves = Moves(shared)
    await shared.begin(endless, *seeds_of(hosts), workers=workers)
    moves.watch()
    await shared.wait(SETTLED_S)
    counts = counts_of(shared)
    assert max(counts) == 1, counts
    assert moves.released <= hosts - 1
    before = moves.released, counts
    await shared.wait(120)
    assert (moves.released, counts_of(shared)) == before
    await stop(shared)


@pytest.mark.parametrize("seed", range(8))
async def test_hosts_are_divided_whoever_comes_and_goes(shared: SharedWorld, seed: int) -> None:
    """Workers join, end and die: each time the hosts are divided evenly, by few moves."""
    rng = random.Random(seed)
    hosts = rng.randint(4, 24)
    slow = {"delay": SLOW_S}
    moves = Moves(shared)
    await shared.begin(endless, *seeds_of(hosts), workers=rng.randint(1, 4), politeness=slow)
    for _ in range(4):
        moves.watch()
        moves.released = 0
        before = counts_of(shared)
        alive = [worker for worker in shared.workers if not worker.task.done()]
        silent_s = 0.0
        match rng.choice(("join", "join", "leave", "die")):
            case "join":
                await shared.begin(endless, workers=rng.randint(1, 2), politeness=slow)
                moves.watch()
            case "leave" if len(alive) > 1:
                rng.choice(alive).scheduler.stop()
            case "die" if len(alive) > 1:
                rng.choice(alive).kill()
                silent_s = LEASE_S + GRACE_S
        await shared.wait(silent_s + SETTLED_S)
        counts = counts_of(shared)
        assert sum(counts) == hosts, "no host is left alone"
        assert max(counts) - min(counts) <= 2, (before, counts)
        assert moves.released <= hosts, (before, counts)
        moves.released = 0
        await shared.wait(30)
        assert moves.released == 0, "they stay"
    await stop(shared)
    shared.check_delays(SLOW_S)


async def test_one_that_was_alone_gives_each_that_joins_its_share(shared: SharedWorld) -> None:
    moves = Moves(shared)
    await shared.begin(endless, *seeds_of(24), workers=1)
    moves.watch()
    await shared.wait(SETTLED_S)
    assert counts_of(shared) == [24]
    await shared.begin(endless, workers=2)
    moves.watch()
    await shared.wait(SURPLUS_S + 6)
    assert counts_of(shared) == [8, 8, 8]
    before = [len(worker.requests) for worker in shared.workers]
    await shared.wait(60)
    pages = [len(worker.requests) - n for worker, n in zip(shared.workers, before, strict=True)]
    assert max(pages) <= 1.2 * min(pages), pages
    assert counts_of(shared) == [8, 8, 8]
    assert moves.released == 16, "once balanced, none moves"
    await stop(shared)


async def test_one_whose_store_is_slow_is_given_as_many(shared: SharedWorld) -> None:
    moves = Moves(shared)
    await shared.begin(endless, *seeds_of(24), workers=1)
    await shared.wait(SETTLED_S)
    (slow,) = await shared.begin(endless, workers=1)
    slow.store.slow_s = 1.5
    moves.watch()
    await shared.wait(2 * SETTLED_S)
    assert counts_of(shared) == [12, 12]
    assert moves.released == 12
    slow.store.slow_s = 0.0
    await stop(shared)


@pytest.mark.parametrize("dies", ["giver", "taker"])
async def test_hosts_of_one_that_dies_while_they_change_hands_are_not_lost(
    shared: SharedWorld, dies: str
) -> None:
    """The others take them over; none is contacted early."""
    (giver,) = await shared.begin(endless, *seeds_of(12), workers=1)
    await shared.wait(SETTLED_S)
    taker, third = await shared.begin(endless, workers=2)
    while len(giver.hosts) == 12:
        await shared.wait(0.02)
    assert len(giver.hosts) < 12
    if dies == "taker":
        while not taker.hosts:
            await shared.wait(0.02)
    (giver if dies == "giver" else taker).kill()
    await shared.wait(LEASE_S + GRACE_S + SETTLED_S)
    assert counts_of(shared) == [6, 6]
    assert third.hosts
    await stop(shared)
