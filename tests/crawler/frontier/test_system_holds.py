"""Holds: trouble of our own stops every permit but probes, and is over with the first answer."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress

import pytest

from crawler.fetching.request import Failure
from crawler.frontier.tickets import FrontierClosedError
from crawler.testing import JumpClock
from policies.holds import CONNECTING, SENTENCES, HoldReason, probe_delay_s
from policies.retries import FailureCode
from tests.crawler.frontier.rig import DrivenFrontier
from tests.crawler.frontier.test_permits import make_host

WITHIN_S = 40.0  # in which the sixth probe is sent


class Crawl:
    """Workers that spend driven; `reached` says whether hosts answer."""

    def __init__(self, clock: JumpClock, hosts: int = 5) -> None:
        self.clock, self.driven = clock, DrivenFrontier(clock, limit=50)
        self.holds = self.driven.holds
        self.reached = False
        self.dead: set[str] = set()  # hosts that do not answer in any case
        self.contacts: list[tuple[float, str]] = []
        self.started_s: list[float] = []
        for n in range(hosts):
            self.driven.permits.register(make_host(clock, f"h{n}.test", pages=1000))

    async def work(self) -> None:
        while permit := await self.driven.next():
            if self.driven.permits.is_void(permit):
                self.driven.permits.give_back(permit)
                continue
            started_s = self.clock.monotonic()
            self.started_s.append(started_s)
            self.contacts.append((started_s, permit.host.slot))
            await self.clock.sleep_until(started_s + 0.05)
            self.holds.judge(permit, self.result(started_s, permit.host.slot))
            self.driven.permits.end(
                permit, started_s=started_s, ended_s=self.clock.monotonic(), kind="page", status=200
            )

    def result(self, started_s: float, slot: str) -> Failure:
        reached = self.reached and slot not in self.dead
        return Failure(
            url="http://a.test/",
            code=FailureCode.BODY if reached else FailureCode.CONNECT,
            sentence="a failure",
            connected=reached,
            received=reached,
            permanent=False,
            started_s=started_s,
            ended_s=self.clock.monotonic(),
        )

    async def for_s(self, seconds: float) -> None:
        await self.clock.sleep_until(self.clock.monotonic() + seconds)


@pytest.mark.parametrize("reason", HoldReason)
async def test_a_hold_stops_all_permits_but_probes_until_it_ends(reason: HoldReason) -> None:
    async with JumpClock() as clock:
        crawl = Crawl(clock)
        crawl.reached = True
        workers = [asyncio.create_task(crawl.work()) for _ in range(3)]
        await crawl.for_s(10)
        running = len(crawl.started_s)
        crawl.reached = False
        assert running > 20
        crawl.holds.begin(reason, "why")
        assert crawl.holds.current[0].sentence == f"{SENTENCES[reason]} (why)"
        crawl.holds.begin(reason)  # no second one
        await crawl.for_s(60)
        probes = crawl.started_s[running:]
        if reason in CONNECTING:
            assert 3 <= len(probes) <= 6
            assert all(b - a >= 1 for a, b in itertools.pairwise(probes))
            crawl.reached = True
            await crawl.for_s(60)
        else:
            assert probes == []
            crawl.reached = True
            crawl.holds.end(reason)
        assert crawl.holds.current == ()
        resumed = len(crawl.started_s)
        await crawl.for_s(10)
        assert len(crawl.started_s) > resumed + 20
        crawl.driven.close()
        await asyncio.gather(*workers)


@pytest.mark.parametrize("dead", [range(20), range(10, 30)])
async def test_a_dead_server_of_many_hosts_soon_stops_none_of_the_others(dead: range) -> None:
    """Enough of its hosts fail in a row to look like an outage of our own network. The probes soon
    find one of the others, wherever it stands."""
    async with JumpClock() as clock:
        crawl = Crawl(clock, hosts=40)
        crawl.reached = True
        workers = [asyncio.create_task(crawl.work()) for _ in range(3)]
        await crawl.for_s(60)
        crawl.dead = {f"h{n}.test" for n in dead}
        died_s = clock.monotonic()
        await crawl.for_s(300)
        alive_s = [at_s for at_s, slot in crawl.contacts if slot not in crawl.dead]
        gaps_s = [(b - a) for a, b in itertools.pairwise(alive_s) if b > died_s]
        assert 3 < max(gaps_s) < WITHIN_S, "one hold, and soon over"
        assert sum(gap_s for gap_s in gaps_s if gap_s > 3) < 2 * WITHIN_S
        crawl.driven.close()
        await asyncio.gather(*workers)


async def test_who_asks_for_one_host_waits_as_well() -> None:
    """A fetch of robots.txt, or a program of others, gets no permit during a hold."""
    async with JumpClock() as clock:
        crawl = Crawl(clock)
        crawl.holds.begin(HoldReason.DISK_FULL)
        host = crawl.driven.permits.hosts.get("h0.test")
        assert host is not None
        asked = asyncio.create_task(crawl.driven.acquire(host))
        await crawl.for_s(100)
        assert not asked.done()
        crawl.holds.end(HoldReason.DISK_FULL)
        assert (await asked).host is host
        crawl.driven.close()
        with suppress(FrontierClosedError):
            await crawl.driven.acquire(host)


async def test_no_probe_while_paused_by_hand_or_held_by_the_store() -> None:
    async with JumpClock() as clock:
        crawl = Crawl(clock)
        worker = asyncio.create_task(crawl.work())
        crawl.holds.begin(HoldReason.NETWORK)
        crawl.holds.begin(HoldReason.DATABASE_LOCKED)
        await crawl.for_s(1000)
        assert crawl.started_s == []
        crawl.driven.pause()
        crawl.holds.end(HoldReason.DATABASE_LOCKED)
        await crawl.for_s(1000)
        assert crawl.started_s == []
        crawl.driven.resume()
        crawl.reached = True
        await crawl.for_s(100)
        assert crawl.holds.current == ()
        crawl.driven.close()
        await worker


def test_probes_come_less_and_less_often_up_to_once_a_minute() -> None:
    delays = [probe_delay_s(n) for n in range(100)]
    assert delays == sorted(delays)
    assert (delays[0], delays[-1]) == (1.0, 60.0)
