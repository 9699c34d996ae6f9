"""Permits under a jumping clock: the delay of every host, at any load, through any cancellation."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.frontier.grant_limits import PASS_BEHIND_MAX, PASS_MAX
from crawler.frontier.host_queue import HostQueue, Permit
from crawler.frontier.large_bodies import DOMAIN_BYTES_MAX, LargeBodyPlace
from crawler.frontier.permits import UNPARSED_BYTES_MAX
from crawler.frontier.reasons import PAUSED, VISIT_WINDOW
from crawler.frontier.stops import BY_OPERATOR, Stop
from crawler.frontier.tickets import FrontierClosedError, Ticket
from crawler.testing import JumpClock
from policies.holds import HoldReason
from policies.pacing import PacingRules, Per, RobotsPacing, parse_window
from policies.scope import Skip
from storage.store import HostClock, Lease, Prefetched, Queued
from tests.crawler.frontier.rig import DrivenFrontier
from tests.tables import each

ids = itertools.count(1)


def queued(host: str, count: int) -> list[Queued]:
    return [
        Queued(
            id=next(ids),
            url=f"http://{host}/{n}",
            depth=0,
            priority=0,
            attempts=0,
            refusals=0,
            seed=False,
        )
        for n in range(count)
    ]


def make_host(
    clock: JumpClock,
    name: str = "a.test",
    *,
    pages: int = 3,
    rules: PacingRules | None = None,
    kept: HostClock | None = None,
    clean: bool = True,
    paused: bool = False,
    slow_s: float | None = None,
) -> HostQueue:
    lease = Lease(
        slot=name,
        epoch=1,
        clean=clean,
        clock=kept or HostClock(),
        paused=paused,
        slow_s=slow_s,
        visited=0,
        body_bytes=0,
        robots={},
        prefetched=Prefetched(urls=queued(name, pages), next_due_in_s=None),
    )
    return HostQueue(lease, rules or PacingRules(), now_s=clock.monotonic())


class Crawlers:
    """Workers that spend driven on contacts of a given length, and the log of those contacts."""

    def __init__(self, clock: JumpClock, driven: DrivenFrontier, latency_s: float = 0.05) -> None:
        self.clock, self.driven, self.latency_s = clock, driven, latency_s
        self.log: dict[str, list[tuple[float, float]]] = {}
        self.lateness_s: list[float] = []

    async def contact(self, permit: Permit, status: int | None = 200) -> None:
        start = self.clock.monotonic()
        permit.host.pace.on_wire()
        self.lateness_s.append(start - max(permit.allowed_s, 1000.0))
        await self.clock.sleep_until(start + self.latency_s)
        end = self.clock.monotonic()
        self.log.setdefault(permit.host.slot, []).append((start, end))
        self.driven.permits.end(permit, started_s=start, ended_s=end, kind="page", status=status)

    async def work(self) -> None:
        while permit := await self.driven.next():
            if permit.host.prefetched:
                permit.host.prefetched.popleft()
                await self.contact(permit)
            else:  # another lane took the last one
                self.driven.permits.give_back(permit)

    async def until_empty(self, workers: int = 4, step_s: float = 1) -> None:
        tasks = [asyncio.create_task(self.work()) for _ in range(workers)]
        for _ in range(5_000):
            if not any(host.prefetched or host.busy for host in self.driven.permits):
                break
            await self.clock.sleep_until(self.clock.monotonic() + step_s)
        else:
            stuck = [
                (h.slot, len(h.prefetched), h.busy, self.driven.frontier.waiting.why(h))
                for h in self.driven.permits
            ]
            raise AssertionError(f"stuck: {stuck}")
        self.driven.close()
        await asyncio.gather(*tasks)

    def gaps(self, host: str) -> list[float]:
        log = sorted(self.log.get(host, []))
        return [b[0] - a[1] for a, b in itertools.pairwise(log)]


@settings(max_examples=25, deadline=None)
@given(
    hosts=st.lists(
        st.tuples(st.floats(0, 20), st.integers(1, 3), st.integers(0, 6)), min_size=1, max_size=8
    ),
    latency=st.floats(0.001, 3),
    limit=st.integers(1, 6),
)
def test_law_1_is_never_broken_at_any_load(
    hosts: list[tuple[float, int, int]], latency: float, limit: int
) -> None:
    """So many lanes, each resting its delay after the end of its contact; never more at once."""

    async def run() -> None:
        async with JumpClock() as clock:
            driven = DrivenFrontier(clock, limit=limit)
            crawlers = Crawlers(clock, driven, latency)
            for n, (delay, lanes, pages) in enumerate(hosts):
                rules = PacingRules(delay=delay, concurrency_per_host=lanes, latency_factor=0)
                driven.permits.register(make_host(clock, f"h{n}.test", pages=pages, rules=rules))
            await crawlers.until_empty(workers=limit + 1)
            for n, (delay, lanes, pages) in enumerate(hosts):
                log = sorted(crawlers.log.get(f"h{n}.test", []))
                assert len(log) == pages
                for begin, _ in log:
                    busy = [end for start, end in log if start < begin < end + delay - 1e-6]
                    same = [1 for start, _ in log if start == begin]
                    assert len(busy) + len(same) <= lanes
                host = driven.permits.hosts.get(f"h{n}.test")
                assert host is not None
                assert host.pace.breaches == 0
                assert host.pace.peak_concurrency <= min(lanes, limit)

    asyncio.run(run())


async def test_an_hour_of_politeness_in_milliseconds() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock, limit=10)
        crawlers = Crawlers(clock, driven)
        rules = PacingRules(delay=10)
        for n in range(20):
            driven.permits.register(make_host(clock, f"h{n}.test", pages=360, rules=rules))
        await crawlers.until_empty(workers=10)
        assert clock.elapsed_s >= 3600
        for n in range(20):
            gaps = crawlers.gaps(f"h{n}.test")
            assert len(gaps) == 359
            assert min(gaps) >= 10 - 1e-6
            assert max(gaps) < 10.6  # ten of twenty at once: a host waits for two contacts at most
        assert max(crawlers.lateness_s) < 0.2


async def test_the_head_of_the_heap_wakes_it_up_on_time() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock, limit=300)
        crawlers = Crawlers(clock, driven)
        for n in range(300):
            rules = PacingRules(delay=1 + n / 100, latency_factor=0)
            driven.permits.register(make_host(clock, f"h{n}.test", pages=5, rules=rules))
        await crawlers.until_empty(workers=300)
        assert max(crawlers.lateness_s) < 1e-6


async def test_a_crawl_delay_counts_for_the_rest_after_the_contact_that_brought_it() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock, limit=4)
        crawlers = Crawlers(clock, driven)
        host = make_host(clock, pages=2, rules=PacingRules(concurrency_per_host=3))
        host.paused = True
        driven.permits.register(host)
        host.paused = False
        permit = await driven.acquire(host)
        host.pace.set_ask("http://a.test", RobotsPacing(crawl_delay_s=5))
        await crawlers.contact(permit)
        await crawlers.until_empty()
        assert min(crawlers.gaps("a.test")) >= 5 - 1e-6
        assert host.pace.peak_concurrency == 1


def _asks_for_more(host: HostQueue, now_s: float) -> None:
    host.pace.set_ask("http://b.a.test", RobotsPacing(crawl_delay_s=6))


def _opens_at_night(host: HostQueue, now_s: float) -> None:
    night = (parse_window("02:00-03:00"),)
    host.pace.set_ask("http://b.a.test", RobotsPacing(windows=night))


def _refuses(host: HostQueue, now_s: float) -> None:
    host.pace.answered(503, refusal=True, asked_s=600.0, now_s=now_s)


def _answers_slowly(host: HostQueue, now_s: float) -> None:
    host.pace.on_wire()
    host.pace.end(now_s - 5, now_s - 5, now_s - 5, now_s)


def _is_slowed(host: HostQueue, now_s: float) -> None:
    host.steer(slow_s=60.0)


@pytest.mark.parametrize(
    "learn", [_asks_for_more, _opens_at_night, _refuses, _answers_slowly, _is_slowed]
)
async def test_law_1_a_permit_is_void_when_another_lane_brings_a_stricter_pace(
    learn: Callable[[HostQueue, float], None],
) -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock)
        rules = PacingRules(delay=1, latency_factor=1, concurrency_per_host=3)
        host = make_host(clock, pages=3, rules=rules)
        driven.permits.register(host)
        _, unused = await driven.next(), await driven.next()
        assert unused is not None
        assert not driven.permits.is_void(unused)
        learn(host, clock.monotonic())
        assert driven.permits.is_void(unused)
        driven.close()


async def test_a_permit_granted_before_a_pause_or_hold_is_void_until_it_is_over() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock)
        host = make_host(clock, rules=PacingRules(delay=1))
        driven.permits.register(host)
        held = HoldReason.NETWORK

        async def granted(*, probe: bool) -> Permit:
            if probe:
                driven.permits.stop(held)
                driven.permits.probe()
            permit = await driven.next()
            assert permit is not None
            assert permit.probe is probe
            driven.permits.go(held)
            return permit

        for probe in (False, True):
            permit = await granted(probe=probe)
            cases: list[tuple[list[Stop], bool]] = [
                ([], False),
                ([BY_OPERATOR], True),
                ([held], not probe),
                ([held, HoldReason.PORTS], not probe),
                ([held, BY_OPERATOR], True),
            ]
            for stops, void in cases:
                for stop in stops:
                    driven.permits.stop(stop)
                assert driven.permits.is_void(permit) is void, (probe, stops)
                for stop in stops:
                    driven.permits.go(stop)
                assert not driven.permits.is_void(permit)
            host.paused = True
            assert driven.permits.is_void(permit)
            host.paused = False
            driven.permits.give_back(permit)
        driven.close()


async def test_a_permit_that_is_over_is_not_given_back_again() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock, limit=4)
        host = make_host(clock, pages=9, rules=PacingRules(delay=5, concurrency_per_host=2))
        driven.permits.register(host)
        for used in (False, True):
            one, other = await driven.next(), await driven.next()
            assert one
            assert other
            if used:
                one.host.pace.on_wire()
                now_s = clock.monotonic()
                driven.permits.end(one, started_s=now_s, ended_s=now_s, kind="page", status=200)
            else:
                driven.permits.give_back(one)
            for _ in range(2):
                driven.permits.give_back(one)
                assert (driven.permits.in_flight, host.busy, one.over) == (1, 1, True)
            driven.permits.give_back(other)
            assert (driven.permits.in_flight, host.busy) == (0, 0)
        driven.close()


async def test_a_squeezed_limit_grants_as_many_permits_as_it_is_eased_to() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock, limit=6)
        for n in range(10):
            driven.permits.register(make_host(clock, f"h{n}.test", pages=1))
        driven.permits.limits.squeeze(1)
        asked = [driven.permits.for_any_host() for _ in range(10)]
        for granted, squeezed in ((2, True), (4, True), (6, False), (6, False)):
            assert driven.permits.ease() is squeezed
            assert sum(ticket.done for ticket in asked) == driven.permits.in_flight == granted
        driven.permits.set_limit(8)
        assert driven.permits.in_flight == 8
        driven.close()


async def test_pages_wait_while_more_waits_to_be_parsed_than_may() -> None:
    """Permits for one host alone, robots.txt for one, do not."""
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock, limit=20)
        rules = PacingRules(delay=0, latency_factor=0)  # with a delay, a pass has few permits
        host, *others = (make_host(clock, f"h{n}.test", pages=1, rules=rules) for n in range(9))
        for other in others:
            driven.permits.register(other)
        asked = []
        for size_bytes, served in (
            (UNPARSED_BYTES_MAX, 1),
            (1, 1),
            (1, 1),
            (-1, 1),
            (-1, 5),
            (-UNPARSED_BYTES_MAX, 6),
            (0, 7),
        ):
            driven.permits.count_unparsed(host, size_bytes)
            asked.append(driven.permits.for_any_host())
            assert sum(ticket.done for ticket in asked) == served, len(asked)
            named = make_host(clock, f"named{len(asked)}.test", pages=0, rules=rules)
            driven.permits.register(named)
            assert isinstance(driven.permits.for_host(named), Permit)
        driven.close()


async def test_hosts_of_a_domain_wait_while_much_of_it_waits_to_be_parsed() -> None:
    """Until some of it is parsed, and no longer."""
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock)
        hosts = [make_host(clock, name, pages=1) for name in ("a.trap.test", "b.trap.test")]
        driven.permits.register(make_host(clock, "other.test", pages=0))
        for host in hosts:
            driven.permits.register(host)
        driven.permits.count_unparsed(hosts[0], UNPARSED_BYTES_MAX // 2)
        asked = [driven.permits.for_any_host() for _ in range(2)]
        assert not any(ticket.done for ticket in asked)
        driven.permits.count_unparsed(hosts[0], -UNPARSED_BYTES_MAX // 2)
        assert all(ticket.done for ticket in asked)
        driven.close()


async def test_tickets_that_are_withdrawn_or_turned_away_wait_no_longer() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock)
        host = make_host(clock, pages=0, paused=True)
        driven.permits.register(host)
        tickets = [driven.permits.for_host(host) for _ in range(3)]
        any_host = driven.permits.for_any_host()
        for ticket, left in ((tickets[0], 2), (tickets[0], 2), (tickets[2], 1)):
            assert isinstance(ticket, Ticket)
            driven.permits.withdraw(ticket, host)
            assert driven.permits.directed == left
        driven.permits.withdraw(any_host)
        assert driven.permits.directed == 1
        waiting = tickets[1]
        assert isinstance(waiting, Ticket)
        driven.permits.drop(host)
        assert (driven.permits.directed, len(driven.permits), host.gone) == (0, 0, True)
        assert driven.permits.hosts.get("a.test") is None
        with pytest.raises(FrontierClosedError, match=r"a\.test"):
            await waiting.wait()
        with pytest.raises(FrontierClosedError):
            driven.permits.for_host(host)
        driven.close()


@each("withdrawn", [False, True])
async def test_a_page_follows_a_request_of_a_caller_and_one_that_was_withdrawn(
    withdrawn: bool,
) -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock)
        host = make_host(clock, pages=1, paused=True)
        driven.permits.register(host)
        directed, page = driven.permits.for_host(host), driven.permits.for_any_host()
        assert isinstance(directed, Ticket)
        if withdrawn:
            driven.permits.withdraw(directed, host)
        host.yields = not withdrawn
        host.paused = False
        driven.permits.consider(host)
        assert (page.done, directed.done, driven.permits.in_flight) == (True, withdrawn, 1)
        driven.permits.give_back(await page.wait())
        assert (directed.done, driven.permits.in_flight) == (True, not withdrawn)
        driven.close()


async def test_pages_are_granted_again_when_a_limit_of_the_run_is_lifted() -> None:
    """Tickets for one host are served meanwhile."""
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock)
        rules = PacingRules(delay=0, latency_factor=0, concurrency_per_host=9)
        driven.permits.register(make_host(clock, pages=1, rules=rules))
        for limit in (Skip.MAX_PAGES, Skip.MAX_TIME):
            driven.permits.close_pages(limit)
            assert not driven.permits.pages_open
        asked = driven.permits.for_any_host()
        assert not asked.done
        named = make_host(clock, "named.test", pages=0, rules=rules)
        driven.permits.register(named)
        assert isinstance(driven.permits.for_host(named), Permit)
        driven.permits.close_pages(None)
        assert driven.permits.pages_open
        assert asked.done
        driven.close()


async def test_a_contact_is_late_from_when_it_was_allowed_wanted_and_not_stopped() -> None:
    """Each contact is recorded in Unix time for the next commit of its host."""
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock)
        host = make_host(clock, pages=0, rules=PacingRules(delay=5, latency_factor=0))
        driven.permits.register(host)
        began_s = clock.monotonic()
        ended_s = []
        for wait_s, could_s in ((0.0, 0.0), (0.0, 5.0), (9.0, 14.0)):
            await clock.sleep_until(clock.monotonic() + wait_s)
            permit = await driven.acquire(host)
            assert permit.could_s == began_s + could_s
            permit.host.pace.on_wire()
            ended_s.append(now_s := clock.monotonic())
            driven.permits.end(permit, started_s=now_s, ended_s=now_s, kind="page", status=204)
        for reasons in ((BY_OPERATOR,), (BY_OPERATOR, HoldReason.NETWORK)):
            for reason in reasons:
                driven.permits.stop(reason)
            asked = asyncio.create_task(driven.acquire(host))
            for reason in reasons:
                await clock.sleep_until(clock.monotonic() + 50)
                assert not asked.done()
                driven.permits.go(reason)
            assert (await asked).could_s == clock.monotonic()
            driven.permits.give_back(asked.result())
        wall_s = clock.wall() - clock.monotonic()
        contacts = host.update(clock.monotonic()).contacts
        assert [one.end_at - wall_s for one in contacts] == pytest.approx(ended_s)
        assert {(one.kind, one.status) for one in contacts} == {("page", 204)}
        driven.close()


async def test_directed_turns_come_before_pages_and_in_order() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock, limit=4)
        crawlers = Crawlers(clock, driven)
        host = make_host(clock, pages=3)
        driven.permits.register(host)
        order: list[str] = []

        async def directed(name: str) -> None:
            permit = await driven.acquire(host)
            order.append(name)
            await crawlers.contact(permit)

        first = await driven.next()
        assert first is not None
        host.prefetched.popleft()
        tasks = [asyncio.create_task(directed(name)) for name in "abc"]
        await asyncio.sleep(0)
        await crawlers.contact(first)
        await asyncio.gather(*tasks)
        assert order == ["a", "b", "c"]
        assert len(host.prefetched) == 2


async def test_a_turn_given_back_costs_no_rest() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock, limit=1)
        host = make_host(clock, rules=PacingRules(delay=100))
        driven.permits.register(host)
        for _ in range(3):
            permit = await driven.next()
            assert permit is not None
            driven.permits.give_back(permit)
        assert clock.elapsed_s == 0
        assert driven.permits.in_flight == 0
        assert host.pace.contacts == 0


@pytest.mark.parametrize("directed", [False, True])
async def test_cancelled_while_waiting_or_when_just_granted_leaves_no_trace(directed: bool) -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock, limit=1)
        crawlers = Crawlers(clock, driven)
        host = make_host(clock, pages=2)
        driven.permits.register(host)
        permit = await driven.next()
        assert permit is not None
        host.prefetched.popleft()

        def ask() -> asyncio.Task[Permit | None]:
            if directed:
                return asyncio.create_task(driven.acquire(host))
            return asyncio.create_task(driven.next())

        waiting = ask()
        await asyncio.sleep(0)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        granted = ask()
        await asyncio.sleep(0)
        driven.permits.give_back(permit)  # grants it to `granted`, which has not run yet
        granted.cancel()
        with suppress(asyncio.CancelledError):
            await granted
        assert driven.permits.in_flight == 0
        assert host.busy == 0
        await crawlers.until_empty()
        assert len(crawlers.log["a.test"]) == 1


async def test_law_6_a_host_not_released_cleanly_rests_first() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock, limit=2)
        crawlers = Crawlers(clock, driven)
        kept = HostClock(next_in_s=0.2, delay_s=7, delay_source="Crawl-delay in robots.txt")
        driven.permits.register(make_host(clock, "dirty.test", pages=1, kept=kept, clean=False))
        driven.permits.register(make_host(clock, "clean.test", pages=1, kept=kept))
        await crawlers.until_empty()
        assert crawlers.log["dirty.test"][0][0] - 1000 >= 7
        assert 0.2 <= crawlers.log["clean.test"][0][0] - 1000 < 0.3


async def test_a_paused_host_is_given_no_turn_and_goes_on_when_resumed() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock, limit=2)
        crawlers = Crawlers(clock, driven)
        host = make_host(clock, paused=True)
        driven.permits.register(host)
        worker = asyncio.create_task(crawlers.work())
        await clock.sleep_until(clock.monotonic() + 3600)
        assert not crawlers.log
        assert driven.frontier.waiting.why(host) == (0.0, PAUSED)
        host.paused = False
        driven.permits.consider(host)
        await clock.sleep_until(clock.monotonic() + 60)
        assert len(crawlers.log["a.test"]) == 3
        driven.close()
        await worker


async def test_addresses_have_clocks_of_their_own() -> None:
    """`per = "ip"`: hosts behind one address take driven, each contact resting `ip_delay`."""
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock, limit=8)
        crawlers = Crawlers(clock, driven)
        rules = PacingRules(
            delay=0, latency_factor=0, per=Per.IP, ip_delay=2, concurrency_per_host=3
        )
        for n in range(4):
            host = make_host(clock, f"h{n}.test", rules=rules)
            driven.permits.register(host)
            driven.permits.set_address(host, "192.0.2.1")
        other = make_host(clock, "other.test", rules=rules)
        driven.permits.register(other)
        driven.permits.set_address(other, "192.0.2.2")
        await crawlers.until_empty(workers=8)
        shared = sorted(c for n in range(4) for c in crawlers.log[f"h{n}.test"])
        gaps = [b[0] - a[1] for a, b in itertools.pairwise(shared)]
        assert len(shared) == 12
        assert min(gaps) >= 2 - 1e-6
        assert 2 <= crawlers.log["other.test"][0][0] - 1000 < 2.1  # met for the first time


async def test_an_address_has_one_clock_however_it_is_written() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock, limit=8)
        crawlers = Crawlers(clock, driven)
        rules = PacingRules(delay=0, latency_factor=0, per=Per.IP, ip_delay=2)
        for n, address in enumerate(["192.0.2.1", "::ffff:192.0.2.1", "::ffff:c000:201"]):
            host = make_host(clock, f"h{n}.test", rules=rules)
            driven.permits.register(host)
            driven.permits.set_address(host, address)
            assert host.address == "192.0.2.1"
            assert host.update(clock.monotonic()).clock.address is host.address  # not parsed again
        await crawlers.until_empty(workers=8)
        shared = sorted(contact for log in crawlers.log.values() for contact in log)
        assert len(shared) == 9
        assert min(b[0] - a[1] for a, b in itertools.pairwise(shared)) >= 2 - 1e-6


async def test_a_visit_window_holds_pages_until_it_opens() -> None:
    async with JumpClock() as clock:  # it starts at 22:13:20 UTC
        driven = DrivenFrontier(clock, limit=2)
        crawlers = Crawlers(clock, driven)
        host = make_host(clock, rules=PacingRules(visit_window=parse_window("06:00-06:30")))
        driven.permits.register(host)
        wait_s, why = driven.frontier.waiting.why(host)
        assert wait_s == pytest.approx(7 * 3600 + 46 * 60 + 40)
        assert why is VISIT_WINDOW
        await crawlers.until_empty(step_s=60)
        assert all(
            21_600 <= start % 86_400 - 1000 + 1_700_000_000 % 86_400 - 86_400 < 23_400
            for start, _ in crawlers.log["a.test"]
        )


async def test_closing_answers_everyone_who_waits() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock, limit=1)
        host = make_host(clock)
        driven.permits.register(host)
        permit = await driven.next()
        taker = asyncio.create_task(driven.next())
        directed = asyncio.create_task(driven.acquire(host))
        await asyncio.sleep(0)
        driven.close()
        assert await taker is None
        with pytest.raises(FrontierClosedError):
            await directed
        assert permit is not None
        driven.permits.give_back(permit)
        assert await driven.next() is None


async def test_a_slow_host_slows_itself() -> None:
    """PolitenessDelay at least `latency_factor` times the host's recent response time."""
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock, limit=1)
        crawlers = Crawlers(clock, driven, latency_s=4)
        driven.permits.register(
            make_host(clock, pages=4, rules=PacingRules(delay=1, latency_factor=2))
        )
        await crawlers.until_empty(workers=1)
        assert min(crawlers.gaps("a.test")) >= 8 - 1e-6


@pytest.mark.parametrize(
    ("delay_s", "starts_in_s"), [(10.0, 7.0), (5.0, 2.0), (3.5, 0.5), (1.0, 0.0)]
)
async def test_law_1_the_contact_before_the_lease_counts_by_the_rules_of_now(
    delay_s: float, starts_in_s: float
) -> None:
    """Its last contact ended 3 s ago under a delay of 5 s; the config says something else now."""
    kept = HostClock(next_in_s=2.0, rested_s=3.0, delay_s=5.0)
    async with JumpClock() as clock:
        host = make_host(clock, kept=kept, rules=PacingRules(delay=delay_s))
        driven = DrivenFrontier(clock, limit=4)
        driven.permits.register(host)
        began_s = clock.monotonic()
        permit = await driven.acquire(host)
        assert clock.monotonic() - began_s == pytest.approx(starts_in_s)
        driven.permits.give_back(permit)


async def test_a_rest_that_is_longer_than_the_delay_stands_in_the_next_lease() -> None:
    """A rest after a crash (law 6) is handed on when the host is given back in the middle of it."""
    kept = HostClock(next_in_s=9.0, rested_s=3.0, delay_s=5.0)
    async with JumpClock() as clock:
        host = make_host(clock, kept=kept, rules=PacingRules(delay=1.0))
        wait = host.pace.wait(clock.monotonic(), clock.wall())
        assert wait is not None
        assert wait[0] == clock.monotonic() + 9.0


async def test_law_1_every_lane_rests_from_the_contact_before_the_lease() -> None:
    kept = HostClock(next_in_s=2.0, rested_s=3.0, delay_s=5.0)
    rules = PacingRules(delay=5.0, concurrency_per_host=3)
    async with JumpClock() as clock:
        host = make_host(clock, kept=kept, rules=rules)
        driven = DrivenFrontier(clock, limit=4)
        driven.permits.register(host)
        began_s = clock.monotonic()
        for _ in range(3):
            await driven.acquire(host)
        assert clock.monotonic() - began_s == pytest.approx(2.0)
        assert host.update(clock.monotonic()).clock.rested_s is None  # all are under way


async def most_in_a_pass(driven: DrivenFrontier, hosts: int) -> int:
    """The most driven given between two looks at the network, until `hosts` are in flight."""
    most, before = 0, driven.permits.in_flight
    for _ in range(4 * hosts):
        await asyncio.sleep(0)
        most, before = max(most, driven.permits.in_flight - before), driven.permits.in_flight
        if driven.permits.in_flight == hosts:
            return most
    raise AssertionError(f"only {driven.permits.in_flight} were given")


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("delay", "most"), [(1.0, PASS_MAX), (0.0, 100)])
async def test_hosts_that_come_at_once_are_contacted_a_few_in_a_pass(delay, most, directed):
    """So that no answer waits for the contacts of all others; but where no host rests none is ever
    late."""
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock, limit=200)
        rules = PacingRules(delay=delay, latency_factor=0)
        hosts = [
            make_host(clock, f"h{n}.test", pages=0 if directed else 1, rules=rules)
            for n in range(100)
        ]
        for host in hosts:
            driven.permits.register(host)
        asked = [driven.acquire(host) if directed else driven.next() for host in hosts]
        tasks = [asyncio.create_task(ask) for ask in asked]
        assert await most_in_a_pass(driven, 100) == most
        given = [permit.host for task in tasks if (permit := await task)]
        assert given == hosts


@pytest.mark.parametrize(("late_s", "most"), [(0.0, PASS_MAX), (0.5, PASS_BEHIND_MAX)])
async def test_more_go_at_once_when_hosts_are_late(late_s, most):
    """There is more to do than time for it, and large passes take less."""
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock, limit=200)
        rules = PacingRules(delay=10, latency_factor=0)
        hosts = [make_host(clock, f"h{n}.test", pages=2, rules=rules) for n in range(100)]
        for host in hosts:
            driven.permits.register(host)
        for _ in hosts:
            permit = await driven.next()
            assert permit
            permit.host.prefetched.popleft()
            permit.host.pace.on_wire()
            now_s = clock.monotonic()
            driven.permits.end(permit, started_s=now_s, ended_s=now_s, kind="page", status=200)
        await clock.sleep_until(clock.monotonic() + 10 + late_s)
        tasks = [asyncio.create_task(driven.next()) for _ in hosts]
        assert await most_in_a_pass(driven, 100) == most
        given = [permit.host.slot for permit in await asyncio.gather(*tasks) if permit]
        assert len(set(given)) == 100


async def test_small_pages_that_wait_to_be_parsed_keep_all_hosts_waiting() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock)
        first, second = make_host(clock, "first.test"), make_host(clock, "second.test")
        driven.permits.count_unparsed(first, 10_000_000)
        driven.permits.register(first)
        driven.permits.register(second)
        asked = [asyncio.create_task(driven.next()) for _ in range(2)]
        await clock.sleep_until(clock.monotonic() + 1)
        assert not any(task.done() for task in asked)
        driven.permits.count_unparsed(first, -10_000_000)
        await clock.sleep_until(clock.monotonic() + 1)
        found = [task.result() for task in asked]
        assert {permit.host.slot for permit in found if permit} == {"first.test", "second.test"}


async def test_a_large_body_that_waits_for_a_place_keeps_only_its_own_domain_waiting() -> None:
    """Until the permit ends under which it is received."""
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock)
        rules = PacingRules(delay=1)
        first, second, other = (
            make_host(clock, name, rules=rules) for name in ("a.trap.test", "b.trap.test", "v.test")
        )
        bodies = driven.permits.large_bodies
        parsed, received = (LargeBodyPlace(bodies, first.domain) for _ in range(2))
        parsed.settle(DOMAIN_BYTES_MAX)
        driven.permits.register(first)
        permit = await driven.next()
        assert permit
        permit.host.pace.on_wire()
        wait = asyncio.create_task(received.grow(300_000, most_bytes=300_000, wait_s=60))
        await clock.sleep_until(clock.monotonic() + 1)
        driven.permits.register(second)
        driven.permits.register(other)
        asked = [asyncio.create_task(driven.next()) for _ in range(2)]
        await clock.sleep_until(clock.monotonic() + 1)
        granted = [task.result() for task in asked if task.done()]
        assert [one.host.slot for one in granted if one] == ["v.test"]
        parsed.leave()
        await wait
        now_s = clock.monotonic()
        driven.permits.end(permit, started_s=now_s, ended_s=now_s, kind="page", status=200)
        await clock.sleep_until(clock.monotonic() + 0.5)
        found = [task.result() for task in asked]
        assert {one.host.slot for one in found if one} == {"b.trap.test", "v.test"}


async def test_a_domain_of_many_hosts_leaves_permits_and_turns_to_another() -> None:
    """Its hosts were ready first, and their contacts take a hundred times as long."""
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock, limit=8)
        crawlers = Crawlers(clock, driven, latency_s=100.0)
        victim = make_host(clock, "v.victim.test", pages=50, rules=PacingRules(delay=1))
        for n in range(100):
            driven.permits.register(make_host(clock, f"h{n}.trap.test", rules=PacingRules(delay=1)))
        driven.permits.register(victim)
        workers = [asyncio.create_task(crawlers.work()) for _ in range(16)]
        contact = crawlers.contact

        async def quick(permit: Permit, status: int | None = 200) -> None:
            crawlers.latency_s = 0.1 if permit.host is victim else 100.0
            await contact(permit, status)

        crawlers.contact = quick  # type: ignore[method-assign]
        began_s = clock.monotonic()
        await clock.sleep_until(began_s + 60)
        assert not victim.prefetched
        assert max(crawlers.gaps("v.victim.test")) < 1.2
        driven.close()
        await clock.sleep_until(began_s + 300)
        await asyncio.gather(*workers)
