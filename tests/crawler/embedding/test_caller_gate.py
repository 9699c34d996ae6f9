"""The gate: cancelled callers leave no trace, no host is kept forever, and a broken store is
reported to everyone."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from crawler.config import from_dict
from crawler.embedding.caller_gate import CallerGate
from crawler.embedding.embed import caller_gate as open_gate
from crawler.embedding.session import PoliteSession
from crawler.embedding.settings import setup_of
from crawler.errors import CourtlyError, FetchFailed, SessionClosed
from crawler.fetching.request import Request
from crawler.frontier import robots_budget
from crawler.scheduling import host_leases
from crawler.testing import FakeFetcher, JumpClock, Reply, html, redirect, text
from policies.retries import FailureCode
from storage.store import StoreError

UA = "examplebot/1.0 (+https://example.com/bot)"
A = "http://a.test"
CONFIG = from_dict(
    {
        "crawl": {"user_agent": UA},
        "politeness": {"delay": 1, "latency_factor": 0, "concurrency_per_host": 1},
    }
)


def opened(
    clock: JumpClock, fetcher: FakeFetcher, **sections: object
) -> contextlib.AbstractAsyncContextManager[CallerGate]:
    config = CONFIG.override(sections) if sections else CONFIG
    return open_gate(setup_of(config=config, clock=clock, fetcher=fetcher))


async def get(client: CallerGate, url: str) -> None:
    await client.contact(await client.enter(url), Request(url=url))


def assert_at_rest(client: CallerGate) -> None:
    permits = client.frontier.permits
    assert permits.in_flight == 0
    assert permits.directed == 0
    assert not client._lines
    for host in permits:
        assert host.callers == host.busy == 0
        assert all(ticket.done for ticket in host.tickets)


# ---------------------------------------------------------------- cancellation


@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize("at_s", [0.0, 0.05, 0.1, 0.6, 1.1, 1.15, 1.2, 2.2, 2.25, 3.3, 3.35, 3.4])
async def test_cancelled_at_any_step_a_request_leaves_no_trace(others: int, at_s: float) -> None:
    """Before, during and after the fetch of robots.txt, the wait for the turn and the contact, of
    its own and of those before it, and 0, 1, 2, … steps of the event loop later."""
    for steps in range(9):
        async with JumpClock() as clock:
            fetcher = FakeFetcher(
                clock, {f"{A}/robots.txt": text("User-agent: *\nDisallow: /p")}, latency_s=0.1
            )
            async with opened(clock, fetcher) as client:
                beside = [asyncio.create_task(get(client, f"{A}/{n}")) for n in range(others)]
                task = asyncio.create_task(get(client, f"{A}/x"))
                beside.append(asyncio.create_task(get(client, f"{A}/y")))
                await clock.sleep_until(clock.monotonic() + at_s)
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task, *beside])
                assert all(one.exception() is None for one in beside)
                await get(client, f"{A}/last")
                assert_at_rest(client)
        paths = fetcher.log.paths()
        assert [p for p in paths if p != "/x"] == [
            "/robots.txt",
            *(f"/{n}" for n in range(others)),
            "/y",
            "/last",
        ]
        assert min(fetcher.log.gaps()) >= 1 - 1e-6
        assert fetcher.log.peak_concurrency() == 1
        assert clock.elapsed_s < 1.1 * (len(paths) + 1), "nobody waits for one who has left"


async def test_cancelled_at_any_step_a_request_with_a_database_leaves_no_trace(
    tmp_path: Path,
) -> None:
    """Leasing a host is a transaction in a thread: no caller's cancellation cuts it in two."""
    for steps in (0, 1, 2, 3, 5, 8, 13, 40):
        async with JumpClock() as clock:
            fetcher = FakeFetcher(clock, {})
            db = tmp_path / f"{steps}.db"
            made = setup_of(config=CONFIG, db=db, clock=clock, fetcher=fetcher)
            async with open_gate(made) as client:
                task = asyncio.create_task(get(client, f"{A}/x"))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                await get(client, f"{A}/last")
                assert_at_rest(client)


async def test_closing_at_any_step_ends_all_who_wait(clock: JumpClock) -> None:
    for steps in range(60):
        fetcher = FakeFetcher(clock, {f"{A}/0": Reply(delay_s=5)})
        async with opened(clock, fetcher) as client:
            tasks = [asyncio.create_task(get(client, f"{A}/{n}")) for n in range(4)]
            tasks.append(asyncio.create_task(get(client, "http://b.test/")))
            for _ in range(steps):
                await asyncio.sleep(0)
        for task in tasks:
            with contextlib.suppress(SessionClosed):
                await task
        assert client.frontier.permits.in_flight == 0


# ---------------------------------------------------------------- bounded


async def test_hosts_are_forgotten_once_they_have_rested(
    clock: JumpClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_leases, "HOSTS_LEASED_MAX", 10)
    fetcher = FakeFetcher(clock, {})
    async with opened(clock, fetcher) as client:
        for n in range(60):
            await get(client, f"http://h{n}.test/")
            await clock.sleep_until(clock.monotonic() + 1)
            assert len(client.frontier.permits) <= 12
        assert (await client._loop.crawl.store.stats()).hosts <= 12
        assert client.frontier.permits.hosts.get("h59.test") is not None
        await get(client, "http://h0.test/")
    assert fetcher.log.paths("h0.test") == ["/robots.txt", "/", "/robots.txt", "/"]


async def test_the_hosts_forgotten_first_are_those_used_least_recently(
    clock: JumpClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_leases, "HOSTS_LEASED_MAX", 4)
    monkeypatch.setattr(host_leases, "CLAIM_HOSTS", 1)
    fetcher = FakeFetcher(clock, {})
    async with opened(clock, fetcher) as client:
        for n in range(20):
            await get(client, f"{A}/{n}")
            await get(client, f"http://h{n}.test/")
            await clock.sleep_until(clock.monotonic() + 1)
        assert {host.slot for host in client.frontier.permits} == {
            "a.test",
            "h17.test",
            "h18.test",
            "h19.test",
        }
    assert fetcher.log.paths("a.test").count("/robots.txt") == 1


async def test_hosts_that_rest_or_are_waited_for_are_not_forgotten(
    clock: JumpClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_leases, "HOSTS_LEASED_MAX", 3)
    busy = Reply(status=429, headers={"Retry-After": "5000"})
    fetcher = FakeFetcher(
        clock,
        {f"{A}/busy": busy, "http://dead.test/robots.txt": FailureCode.CONNECT},
    )
    async with opened(clock, fetcher) as client:
        await get(client, f"{A}/busy")
        dead = asyncio.create_task(get(client, "http://dead.test/"))
        for n in range(8):
            await get(client, f"http://h{n}.test/")
            await clock.sleep_until(clock.monotonic() + 1)
        assert client.frontier.permits.hosts.get("a.test") is not None
        assert (await client.next_turn(f"{A}/")).in_s > 4000
        with pytest.raises(FetchFailed):
            await dead
        assert client.frontier.permits.hosts.get("dead.test") is not None, (
            "it is on the retry clock"
        )
        await clock.sleep_until(clock.monotonic() + 6000)
        for n in range(30):
            await get(client, f"http://h{n}.test/")
        assert client.frontier.permits.hosts.get("a.test") is None


async def test_robots_copies_in_memory_are_bounded_in_bytes(
    clock: JumpClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files beyond it are loaded from the store again, and no host is asked twice."""
    monkeypatch.setattr(robots_budget, "LARGE_BYTES_MAX", 100_000)
    fetcher = FakeFetcher(
        clock,
        lambda asked: text("#" * 20_000) if asked.url.endswith("robots.txt") else html("x"),
    )
    async with opened(clock, fetcher) as client:
        for n in [*range(40), *range(40)]:
            await get(client, f"http://h{n}.test/")
            await clock.sleep_until(clock.monotonic() + 1)
            assert 0 < client.frontier.budget.large_bytes <= 100_000
            held = [
                len(o.access.body or b"")
                for host in client.frontier.permits
                for o in client.frontier.robots.of(host)
            ]
            assert sum(held) <= 100_000
        assert len([one for one in fetcher.log if one.path == "/robots.txt"]) == 40


async def test_a_forgotten_host_keeps_its_clock_in_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_leases, "HOSTS_LEASED_MAX", 2)
    async with JumpClock() as clock:
        fetcher = FakeFetcher(clock, {})
        db = tmp_path / "x.db"
        made = setup_of(config=CONFIG, db=db, clock=clock, fetcher=fetcher)
        async with open_gate(made) as client:
            for n in range(8):
                await get(client, f"http://h{n}.test/")
                await clock.sleep_until(clock.monotonic() + 1)
            assert len(client.frontier.permits) < 8
            await get(client, "http://h0.test/")
            assert fetcher.log.paths("h0.test") == ["/robots.txt", "/", "/"]


# ---------------------------------------------------------------- origins and addresses


async def test_a_permit_of_a_lost_lease_leaves_the_line_of_the_next_one_alone(
    clock: JumpClock,
) -> None:
    fetcher = FakeFetcher(clock, {})
    async with opened(clock, fetcher) as client:
        first = await client.enter(f"{A}/1")
        client.frontier.drop(first.host)
        client.frontier.buffer.release(first.host)
        waiting = [asyncio.create_task(get(client, f"{A}/{n}")) for n in (2, 3)]
        await clock.sleep_until(clock.monotonic() + 0.01)
        with client.owned(first):
            waiting.append(asyncio.create_task(get(client, f"{A}/4")))
            await clock.sleep_until(clock.monotonic() + 0.01)
            assert (await client.next_turn(f"{A}/5")).ahead == 3
        client.frontier.permits.give_back(first)
        await asyncio.gather(*waiting)
        assert_at_rest(client)


async def test_a_dead_port_does_not_hold_up_a_healthy_one_for_long(clock: JumpClock) -> None:
    dead = f"{A}:81/robots.txt"
    fetcher = FakeFetcher(clock, {dead: FailureCode.CONNECT, f"{A}/1": html("1")})
    async with opened(clock, fetcher) as client:
        with pytest.raises(FetchFailed):
            await get(client, f"{A}:81/")
        await get(client, f"{A}/1")
        with pytest.raises(FetchFailed, match="not tried again before"):
            await client.robots(f"{A}:81/")
        assert await client.may_fetch(f"{A}/2")


async def test_per_ip_hosts_of_one_address_share_its_clock(clock: JumpClock) -> None:
    fetcher = FakeFetcher(clock, {})
    rules = {"per": "ip", "ip_delay": 2, "delay": 1, "latency_factor": 0}
    async with opened(clock, fetcher, politeness=rules) as client, asyncio.TaskGroup() as group:
        for n in range(3):
            group.create_task(get(client, f"http://h{n}.test/"))
    assert min(fetcher.log.gaps()) >= 2 - 1e-6


async def test_robots_are_asked_for_even_where_they_are_not_obeyed(clock: JumpClock) -> None:
    fetcher = FakeFetcher(clock, {f"{A}/robots.txt": text("User-agent: *\nDisallow: /\n")})
    async with opened(clock, fetcher, site={"a.test": {"obey": False}}) as client:
        assert await client.may_fetch(f"{A}/x")
        assert not fetcher.log
        assert (await client.robots(f"{A}/x")).body is not None
        assert await client.may_fetch(f"{A}/x")


async def test_a_robots_redirect_holds_other_hosts_at_their_own_turns(clock: JumpClock) -> None:
    fetcher = FakeFetcher(
        clock,
        {
            f"{A}/robots.txt": redirect("http://b.test/robots.txt"),
            "http://b.test/robots.txt": text("User-agent: *\nDisallow: /p\n"),
        },
    )
    async with opened(clock, fetcher) as client:
        assert not await client.may_fetch(f"{A}/p")
        assert not await client.may_fetch("http://b.test/p")
    assert fetcher.log.paths() == ["/robots.txt", "/robots.txt"]


# ---------------------------------------------------------------- a store that breaks


async def test_a_broken_store_is_told_to_every_caller(clock: JumpClock) -> None:
    fetcher = FakeFetcher(clock, {})
    session = PoliteSession(user_agent=UA, clock=clock, fetcher=fetcher)

    async def full(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    async def use() -> None:
        async with session:
            await session.get(f"{A}/1")
            client = session._client.get()
            client._loop.crawl.store.complete = full  # type: ignore[method-assign]
            await session.get(f"{A}/2")
            found = await asyncio.gather(
                *(session.get(f"{A}/{n}") for n in range(3, 6)), return_exceptions=True
            )
            assert {type(one) for one in found} == {StoreError}
            assert not isinstance(found[0], CourtlyError)

    with pytest.raises(StoreError, match="the disk is full"):
        await use()
