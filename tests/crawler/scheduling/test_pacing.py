"""Law 1 through the life of a crawl: lanes, addresses and rests across stops and restarts;
back-off, kept at once and forgiven slowly; and what many hosts at once cost."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from crawler.fetching.request import Answer, Failure, Request
from crawler.frontier.host_queue import HostQueue
from crawler.frontier.permits import Permits
from crawler.testing import FakeFetcher, Reply, html, not_found, text
from policies.retries import FailureCode
from policies.url import host_of

if TYPE_CHECKING:
    from tests.conftest import World

DAY_S = 86_400.0
FLOAT_S = 1e-6  # the clock counts in floats


def pages_of(*links: str) -> Reply:
    return html("ParsedPage", *links)


# ---------------------------------------------------------------- across leases


async def test_law_1_lanes_keep_their_rests_when_a_host_is_released_and_leased_again(
    world: World,
) -> None:
    """Each lane rests the delay after its own contact's end: who leases the host anew knows of the
    last end only, and so that counts for all lanes."""

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return not_found()
        page = pages_of(*(f"/{n}" for n in range(9)))
        return replace(page, delay_s=30 if request.url.endswith("/b") else 0)

    pace = {"delay": 60, "concurrency_per_host": 2, "latency_factor": 0}

    def stop() -> None:
        assert world.scheduler
        world.scheduler.stop()

    start_s = world.clock.monotonic()
    first = await world.crawl(
        answers, "http://a.test/", "http://a.test/b", at={86: stop}, politeness=pace
    )
    ended_s = max(entry.end_s for entry in first.log)
    assert ended_s - start_s == pytest.approx(90, abs=1)
    await world.clock.sleep_until(start_s + 140)
    again = await world.crawl(answers, at={120: stop}, politeness=pace)
    assert again.log[0].start_s >= ended_s + 60 - FLOAT_S
    (row,) = again.rows["hosts"]
    assert row["breaches"] == 0


async def test_law_6_a_host_rests_once_after_a_kill_though_its_delay_was_stored(
    world: World,
) -> None:
    """It is leased when the stored delay is over. The one after the kill counts from the restart,
    and has passed for the most part by then."""

    def answers(request: Request) -> Reply:
        return not_found() if request.url.endswith("/robots.txt") else pages_of()

    pace = {"delay": 20}
    await world.crawl(answers, "http://a.test/", at={5: world.kill}, politeness=pace)
    restart_s = world.clock.monotonic()
    again = await world.crawl(answers, politeness=pace)
    assert again.log[0].start_s == pytest.approx(restart_s + 20, abs=0.5)


async def test_law_1_per_ip_an_address_rests_across_a_clean_stop(world: World) -> None:
    """The clock of an address is not kept, so one met for the first time rests as if it had just
    been contacted: by the run before, it may have been."""

    def answers(request: Request) -> Reply:
        return not_found() if request.url.endswith("/robots.txt") else html("ParsedPage")

    def stop() -> None:
        assert world.scheduler
        world.scheduler.stop()

    pace = {"per": "ip", "ip_delay": 50, "delay": 1}
    seeds = [f"http://h{n}.test/" for n in range(3)]
    first = await world.crawl(answers, *seeds, at={60: stop}, politeness=pace)
    assert len(first.log) == 1
    again = await world.crawl(answers, politeness=pace)
    contacts = [*first.log, *again.log]
    assert len(again.urls("visited")) == 3
    for before, after in pairwise(contacts):
        assert after.start_s - before.end_s >= 50 - FLOAT_S


@pytest.mark.parametrize("killed", [False, True])
async def test_law_1_per_ip_a_restart_keeps_the_longest_delay_of_an_address(
    world: World, killed: bool
) -> None:
    """Whichever of its hosts comes first then."""

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return text("User-agent: *\nCrawl-delay: 50" if "//slow." in request.url else "")
        return html("Page")

    def stop() -> None:
        assert world.scheduler
        world.scheduler.stop()

    pace = {"per": "ip", "ip_delay": 1, "delay": 1}
    at = {20.0: world.kill if killed else stop}
    first = await world.crawl(answers, "http://slow.test/", at=at, politeness=pace)
    again = await world.crawl(answers, "http://quick.test/", politeness=pace)
    assert len(again.urls("visited")) == 2
    quick = next(entry for entry in again.log if entry.host == "quick.test")
    assert quick.start_s - first.log[-1].end_s >= 50 - FLOAT_S


class Moving(FakeFetcher):
    """Hosts have addresses, which change."""

    where: dict[str, str]

    async def address_of(self, host: str) -> str | Failure:
        return self.where[host]

    async def fetch(self, request: Request) -> Answer | Failure:
        result = await super().fetch(request)
        assert isinstance(result, Answer)
        return structs.replace(result, address=self.where[host_of(request.url)])


async def test_law_1_per_ip_a_name_that_moves_counts_on_the_clock_of_its_new_address(
    world: World,
) -> None:
    """The clock is that of the address actually contacted."""

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return not_found()
        return pages_of(*(f"/{n}" for n in range(8)))

    fetcher = Moving(world.clock, answers)
    fetcher.where = {"a.test": "192.0.2.1", "b.test": "192.0.2.2"}
    moved_s = 35.0
    crawled = await world.crawl(
        answers,
        "http://a.test/",
        "http://b.test/",
        fetcher=fetcher,
        politeness={"per": "ip", "ip_delay": 10},
        at={moved_s: lambda: fetcher.where.update({"b.test": "192.0.2.1"})},
    )
    # b's first contact after it moved is how we learn of it
    late = [e for e in crawled.log if e.start_s - crawled.start_s > moved_s]
    found_out = next(n for n, entry in enumerate(late) if entry.host == "b.test")
    late = sorted(late[found_out:], key=lambda entry: entry.start_s)
    assert len({entry.host for entry in late}) == 2
    for before, after in pairwise(late):
        assert after.start_s - before.end_s >= 10 - FLOAT_S


async def test_law_6_the_engine_drops_a_host_whose_commit_comes_back_stale(world: World) -> None:
    """A worker whose lease ran out stops contacting the host; what it had in flight is not stored,
    what others hold is not touched; and it may lease the host anew when that is free."""

    def steal() -> None:
        world.run_sql("UPDATE slots SET lease = 99, epoch = epoch + 1 WHERE name = 'a.test'")

    def give_back() -> None:
        world.run_sql("UPDATE slots SET lease = NULL, ready_at = next_at WHERE name = 'a.test'")

    links = [f"/{n}" for n in range(40)]
    answers = {
        f"http://{host}.test{path}": html("ParsedPage", *links)
        for host in "ab"
        for path in ("/", *links)
    }
    crawled = await world.crawl(
        answers, "http://a.test/", "http://b.test/", at={10.5: steal, 30: give_back}
    )
    contacts = crawled.at("a.test")
    assert [at_s for at_s in contacts if 11.7 < at_s < 30] == []  # one to find out by
    assert len(crawled.urls("visited")) == 82
    twice = [e.path for e in crawled.entries("a.test")]
    assert len(twice) - len(set(twice)) <= 1  # what was in flight when it was taken
    assert crawled.log.gaps("b.test")[15] < 1.2


# ---------------------------------------------------------------- back-off


@pytest.mark.parametrize("asked_for", ["90", None])
async def test_law_5_a_back_off_is_committed_at_once(world: World, asked_for: str | None) -> None:
    """Killed just after a refusal, long before the ledger's 100 ms, the next run still knows."""

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return not_found()
        if len(refused) == 0:
            refused.append(world.clock.monotonic())
            world.clock.call_at(world.clock.monotonic() + 0.051, world.kill)
            return Reply(status=503, headers={"Retry-After": asked_for} if asked_for else {})
        return html("Home")

    refused: list[float] = []
    seeds = [f"http://a.test/{n}" for n in range(9)]  # enough in hand that it wants no more yet
    killed = await world.crawl(answers, *seeds)
    assert killed.log[-1].status == 503
    again = await world.crawl(answers)
    assert again.urls("visited") == seeds
    rest_s = again.log[0].start_s - killed.log[-1].end_s
    assert rest_s == pytest.approx(float(asked_for or 60), abs=1)


async def test_law_5_retry_after_on_robots_txt_is_committed_at_once(world: World) -> None:
    """429 on robots.txt rests the whole host in every dialect, restarts included."""

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt") and not asked:
            asked.append(request.url)
            world.clock.call_at(world.clock.monotonic() + 0.051, world.kill)
            return Reply(status=429, headers={"Retry-After": "300"})
        return not_found()

    asked: list[str] = []
    killed = await world.crawl(answers, "http://a.test/")
    again = await world.crawl(answers)
    assert again.log[0].start_s - killed.log[-1].end_s == pytest.approx(300, abs=3)


async def test_law_5_a_robots_copy_is_committed_before_the_first_page_it_governs(
    world: World,
) -> None:
    """Killed when the first page is asked for, the next run has the copy, and asks for no other."""

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return text("User-agent: *\nDisallow: /p")
        if not asked:
            world.clock.call_at(world.clock.monotonic(), world.kill)
        asked.append(request.url)
        return html("Home")

    asked: list[str] = []
    await world.crawl(answers, "http://a.test/")
    again = await world.crawl(answers)
    assert again.log.paths() == ["/"]


async def test_only_pages_that_are_served_forgive_a_refusal(world: World) -> None:
    """60 s doubling to 24 h, halved again by each success. Neither a 503 on robots.txt
    nor a 500 is a success."""

    def busy(request: Request) -> Reply:
        return Reply(status=503)

    crawled = await world.crawl(
        busy, *(f"http://a.test/{n}" for n in range(4)), crawl={"patience": "30d"}
    )
    pages = [entry for entry in crawled.log if entry.path != "/robots.txt"]
    rests = [after.start_s - before.end_s for before, after in pairwise(pages)]
    assert len(rests) == 19
    for n, rest_s in enumerate(rests):
        assert min(60 * 2**n, DAY_S) <= rest_s < min(60 * 2**n, DAY_S) + 5

    answered: list[str] = []

    def broken(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return not_found()
        answered.append(request.url)
        return Reply(status=503 if len(answered) % 2 else 500)

    crawled = await world.crawl(
        broken, *(f"http://c.test/{n}" for n in range(4)), crawl={"patience": "30d"}
    )
    rests = [round(gap) for gap in crawled.log.gaps("c.test") if gap > 30]
    assert rests[:8] == [60 * 2**n for n in range(8)]


async def test_a_wall_clock_set_back_does_not_take_the_retry_clock_along(world: World) -> None:
    """Rests and waits are counted on the monotonic clock: robots.txt that cannot be had is asked
    for on its retry clock, and pages go on."""

    def answers(request: Request) -> Reply | FailureCode:
        if request.url.endswith("/robots.txt"):
            asked.append(request.url)
            return text("", status=503) if len(asked) == 1 else FailureCode.PROTOCOL
        return pages_of(*(f"/{n}" for n in range(100)))

    def set_back() -> None:
        world.clock._wall_from_s -= 2 * DAY_S

    asked: list[str] = []
    crawled = await world.crawl(answers, "http://a.test/", at={10: set_back})
    assert len(crawled.urls("visited")) == 101
    assert len(asked) < 10
    assert crawled.elapsed_s < 300


# ---------------------------------------------------------------- many hosts


async def test_many_hosts_ready_at_one_instant_with_several_lanes(world: World) -> None:
    """After a crash all hosts are ready at the same moment (law 6). Handing out their turns takes
    no deeper stack for a thousand of them than for one."""

    def answers(request: Request) -> Reply:
        return not_found() if request.url.endswith("/robots.txt") else html("ParsedPage")

    seeds = [f"http://h{n}.test/{k}" for n in range(700) for k in range(2)]
    settings: dict[str, Any] = {
        "politeness": {"delay": 1, "concurrency_per_host": 2},
        "crawl": {"concurrency": 1400},
    }
    await world.crawl(answers, *seeds, at={0.01: world.kill}, **settings)
    crawled = await world.crawl(answers, **settings)
    assert len(crawled.urls("visited")) == 1400
    assert crawled.at()[0] >= 1 - FLOAT_S


async def test_hosts_at_one_address_do_not_all_ask_each_time_it_is_free(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a contact costs does not grow with the hosts that wait for the same address."""
    considered: list[str] = []
    consider = Permits.consider

    def count(self: Permits, host: HostQueue) -> None:
        considered.append(host.slot)
        consider(self, host)

    monkeypatch.setattr(Permits, "consider", count)

    def answers(request: Request) -> Reply:
        return not_found() if request.url.endswith("/robots.txt") else html("ParsedPage")

    hosts = 200
    crawled = await world.crawl(
        answers,
        *(f"http://h{n}.test/" for n in range(hosts)),
        politeness={"per": "ip", "ip_delay": 1},
        crawl={"patience": "1d"},
    )
    assert len(crawled.urls("visited")) == hosts
    assert min(crawled.log.gaps()) >= 1 - FLOAT_S
    assert len(considered) < 30 * len(crawled.log)


@pytest.mark.parametrize("ip_delay", [0, 0.3])
async def test_an_address_that_is_free_at_once_is_given_to_one_host_only(
    world: World, ip_delay: float
) -> None:
    """`per = "ip"` where the address need not rest: no delay is set, or a turn was given back
    because all its URLs were blocked. The first in its queue takes it, and the others wait on."""

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return text("User-agent: *\nDisallow: /no")
        return pages_of(*(f"/no{n}" for n in range(3)), *(f"/{n}" for n in range(4)))

    seeds = [f"http://h{n}.test/{path}" for n in range(12) for path in ("", "no", "no2")]
    crawled = await world.crawl(
        answers, *seeds, politeness={"per": "ip", "ip_delay": ip_delay, "delay": 1}
    )
    assert len(crawled.urls("visited")) == 12 * 5
    assert crawled.log.peak_concurrency() == 1
