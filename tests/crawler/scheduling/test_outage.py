"""A network outage fails nothing: it is recognised, waited for and over with the first answer. One
host that is gone is tried for days, without holding a plain crawl."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawler.fetching.request import Answer, Failure, Request
from crawler.observer import Observer
from crawler.operator_commands import AddSeeds
from crawler.testing import FakeFetcher, JumpClock, Reply, html, not_found, redirect, text
from policies import holds
from policies.holds import Hold, HoldReason
from policies.retries import FailureCode, RetryRules, after_no_connection, tried_for_s
from policies.url import host_of

if TYPE_CHECKING:
    from tests.conftest import World

DAY_S = 86_400.0
KINDS = ("refused", "no route", "no such name", "silence", "tls")


class Watcher(Observer):
    """Holds, in the order they began and ended."""

    def __init__(self) -> None:
        self.holds: list[str] = []

    def hold_began(self, hold: Hold) -> None:
        self.holds.append(f"{hold.reason} began")

    def hold_ended(self, hold: Hold, elapsed_s: float) -> None:
        self.holds.append(f"{hold.reason} ended")


class Network(FakeFetcher):
    """One that is away from `from_s` to `to_s` after its making."""

    def __init__(
        self, clock: JumpClock, answers: object, *, from_s: float, to_s: float, kind: str
    ) -> None:
        super().__init__(clock, answers)  # type: ignore[arg-type]
        self._began_s, self._from_s, self._to_s, self._kind = clock.monotonic(), from_s, to_s, kind
        self.during = 0

    @property
    def away(self) -> bool:
        return self._from_s <= self._clock.monotonic() - self._began_s < self._to_s

    async def fetch(self, request: Request) -> Answer | Failure:
        if not self.away:
            result = await super().fetch(request)
            if not self.away:
                return result
        self.during += 1
        kind = self._kind
        wait_s = {"silence": request.limits.connect_s, "mute": request.limits.timeout_s}.get(kind)
        if wait_s is not None:
            await self._clock.sleep_until(self._clock.monotonic() + wait_s)
        code = {
            "no such name": FailureCode.DNS,
            "tls": FailureCode.TLS,
            "reset": FailureCode.PROTOCOL,
            "mute": FailureCode.TIMEOUT,
        }.get(kind, FailureCode.CONNECT)
        now_s = self._clock.monotonic()
        return Failure(
            url=request.url,
            code=code,
            sentence=kind,
            connected=kind in ("reset", "mute"),
            permanent=kind == "no such name",
            local=kind == "no route",
            started_s=now_s,
            ended_s=now_s,
        )


def site(pages: int) -> Callable[[Request], Reply]:
    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return not_found()
        return html("ParsedPage", *(f"/{n}" for n in range(pages)))

    return answers


def check_rests(log: object, delay_s: float = 1.0) -> None:
    hosts = {entry.host for entry in log}  # type: ignore[attr-defined]
    for host in hosts:
        entries = log.requests(host)  # type: ignore[attr-defined]
        for before, after in itertools.pairwise(entries):
            assert after.start_s - before.end_s >= delay_s - 1e-6


@pytest.mark.parametrize("hosts", [1, 2, 3, 12])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("from_s", [0.0, 7.0])
async def test_an_outage_fails_nothing(world: World, hosts: int, kind: str, from_s: float) -> None:
    if kind == "no such name" and from_s == 0 and hosts < holds.REACHED_MIN:
        pytest.skip("one or two names that never existed are no outage")
    watcher = Watcher()
    network = Network(world.clock, site(12), from_s=from_s, to_s=from_s + 17, kind=kind)
    seeds = [f"http://h{n}.test/0" for n in range(hosts)]
    crawled = await world.crawl({}, *seeds, fetcher=network, observer=watcher)
    assert crawled.urls("failed") == []
    assert len(crawled.urls("visited")) == 12 * hosts
    assert {row["attempts"] for row in crawled.rows["queued"]} == set()
    check_rests(crawled.log)
    if from_s and hosts > 1:
        assert watcher.holds == ["network began", "network ended"]
        assert network.during < 2 * hosts + 30
    assert crawled.elapsed_s < 120


@pytest.mark.parametrize("hosts", [2, 3, 20])
@pytest.mark.parametrize("kind", ["reset", "mute"])
async def test_an_outage_in_which_connections_are_taken_fails_nothing(
    world: World, hosts: int, kind: str
) -> None:
    """A firewall or a proxy answers for every host, by breaking off or by silence."""
    watcher = Watcher()
    network = Network(world.clock, site(4), from_s=3, to_s=200, kind=kind)
    seeds = [f"http://h{n}.test/0" for n in range(hosts)]
    crawled = await world.crawl(
        {}, *seeds, fetcher=network, observer=watcher, fetch={"timeout": 5}, cap_s=2_000
    )
    assert crawled.urls("failed") == []
    assert len(crawled.urls("visited")) == 4 * hosts
    check_rests(crawled.log)
    assert watcher.holds == ["network began", "network ended"]
    assert crawled.elapsed_s < 360


async def test_the_first_failure_of_every_host_is_enough(world: World) -> None:
    """Where all of them break connections off within seconds, that counts against none for long."""
    watcher = Watcher()
    network = Network(world.clock, site(20), from_s=5, to_s=8, kind="reset")
    seeds = [f"http://h{n}.test/0" for n in range(8)]
    crawled = await world.crawl({}, *seeds, fetcher=network, observer=watcher)
    assert crawled.urls("failed") == []
    assert watcher.holds == ["network began", "network ended"]
    assert network.during < 20


async def test_some_hosts_that_break_every_connection_are_no_outage(world: World) -> None:
    """Where others answered before, those few are unwell themselves: their URLs fail in the end."""

    def answers(request: Request) -> Reply | FailureCode:
        if request.url.endswith("/robots.txt"):
            return not_found()
        unwell = request.url.startswith("http://bad") and not request.url.endswith("/0")
        return FailureCode.PROTOCOL if unwell else html("ParsedPage", "/1", "/2")

    watcher = Watcher()
    seeds = [f"http://{kind}{n}.test/0" for kind in ("bad", "good") for n in range(4)]
    crawled = await world.crawl(answers, *seeds, observer=watcher, cap_s=2_000)
    assert len(crawled.urls("failed")) == 8
    assert watcher.holds == []


async def test_a_plain_crawl_in_an_outage_ends_at_its_patience(world: World) -> None:
    network = Network(world.clock, site(100), from_s=10, to_s=DAY_S, kind="refused")
    seeds = [f"http://h{n}.test/0" for n in range(10)]
    crawled = await world.crawl({}, *seeds, fetcher=network, crawl={"patience": "2m"})
    assert 125 < crawled.elapsed_s < 135
    assert crawled.urls("failed") == []
    assert len(crawled.urls("queued")) + len(crawled.urls("visited")) == 1_000
    assert [hold.reason for hold in crawled.scheduler.frontier.holds.current] == [
        HoldReason.NETWORK
    ]
    holds = crawled.scheduler.frontier.holds.current
    assert {why for _, why in crawled.waiting.values()} == {holds[0].sentence}
    again = await world.crawl(site(100))
    assert len(again.urls("visited")) == 1_000


async def test_a_daemon_resumes_after_hours(world: World) -> None:
    network = Network(world.clock, site(50), from_s=10, to_s=9_000, kind="silence")
    seeds = [f"http://h{n}.test/0" for n in range(5)]

    def stop() -> None:
        world.control.stop()

    crawled = await world.crawl({}, *seeds, fetcher=network, forever=True, at={9_300: stop})
    assert len(crawled.urls("visited")) == 250
    assert network.during < 200


async def test_links_to_many_dead_hosts_are_no_outage(world: World) -> None:
    """Nine in ten hosts are dead, and the others answer in between."""

    def answers(request: Request) -> Reply | FailureCode:
        host = host_of(request.url)
        if host.startswith("dead"):
            return FailureCode.CONNECT
        if request.url.endswith("/robots.txt"):
            return not_found()
        n = int(request.url.rpartition("/")[2])
        dead = (f"http://dead{n * 10 + m}.{host}/" for m in range(9))
        return html("ParsedPage", f"/{n + 1}", *dead) if n < 20 else html("End")

    watcher = Watcher()
    crawled = await world.crawl(
        answers, "http://a.test/0", observer=watcher, scope={"follow": "any"}
    )
    assert len(crawled.urls("visited")) == 21
    assert len(crawled.urls("queued")) == 180
    assert len(watcher.holds) <= 4
    assert crawled.elapsed_s < 700


@pytest.mark.parametrize(("code", "takes_s"), [(FailureCode.DNS, 5.0), (FailureCode.CONNECT, 0.0)])
async def test_links_to_hosts_that_only_we_cannot_reach_are_no_outage(
    world: World, code: FailureCode, takes_s: float
) -> None:
    """Their nameservers are dead, for which the resolver waits in vain; or they have IPv6 only."""
    clock = world.clock

    class Lame(FakeFetcher):
        async def fetch(self, request: Request) -> Answer | Failure:
            if not host_of(request.url).startswith("lame"):
                return await super().fetch(request)
            started_s = clock.monotonic()
            await clock.sleep_until(started_s + takes_s)
            return Failure(
                url=request.url,
                code=code,
                sentence="no answer",
                connected=False,
                permanent=False,
                local=True,
                started_s=started_s,
                ended_s=started_s + takes_s,
            )

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return not_found()
        host, _, n = request.url.removeprefix("http://").partition("/")
        lame = (f"http://lame{n}-{m}.{host}/" for m in range(8))
        return html("ParsedPage", f"/{int(n) + 1}", *lame) if n != "10" else html("End")

    watcher = Watcher()
    crawled = await world.crawl(
        {},
        *(f"http://{name}.test/0" for name in "abc"),
        fetcher=Lame(clock, answers),
        observer=watcher,
        scope={"follow": "any"},
    )
    assert len(crawled.urls("visited")) == 33
    assert crawled.urls("failed") == []
    assert watcher.holds == []


async def test_a_host_that_is_gone_is_tried_for_days_and_counted_over_restarts(
    world: World,
) -> None:
    def answers(request: Request) -> Reply | FailureCode:
        return FailureCode.CONNECT

    fetch = {"unreachable_for": "1d"}
    crawled = await world.crawl(answers, "http://a.test/", fetch=fetch)
    assert crawled.urls("queued") == ["http://a.test/"]
    assert crawled.elapsed_s <= 601  # its tries do not extend the patience
    runs = 1
    while crawled.urls("queued"):
        assert runs < 30
        before = int(str(crawled.rows["hosts"][0]["connect_failures"]))
        await world.wait(6 * 3_600)
        crawled = await world.crawl(answers, fetch=fetch)
        assert int(str(crawled.rows["hosts"][0]["connect_failures"])) > before
        runs += 1
    assert crawled.urls("failed") == ["http://a.test/"]


async def test_robots_txt_that_times_out_in_an_outage_opens_nothing(world: World) -> None:
    """In flight when the network goes, it is no word of the site: no page is fetched for it."""
    clock = world.clock
    began_s = clock.monotonic()

    class Cut(Network):
        async def fetch(self, request: Request) -> Answer | Failure:
            if self.away and "late" in request.url:
                now_s = clock.monotonic()
                await clock.sleep_until(now_s + 5)
                return Failure(
                    url=request.url,
                    code=FailureCode.TIMEOUT,
                    sentence="no answer within 5 s",
                    connected=True,
                    permanent=False,
                    started_s=now_s,
                    ended_s=now_s + 5,
                )
            return await super().fetch(request)

    network = Cut(clock, site(30), from_s=5, to_s=60, kind="refused")
    seeds = [f"http://h{n}.test/0" for n in range(8)]

    async def late() -> None:
        seeds = AddSeeds(urls=tuple(f"http://late{n}.test/0" for n in range(4)))
        await world.control.execute(seeds)

    crawled = await world.crawl(
        {},
        *seeds,
        fetcher=network,
        at={4.9: lambda: world.do(late())},
        crawl={"user_agent": "testbot/1.0 (+https://a.test/bot)"},
    )
    assert len(crawled.urls("visited")) == 360
    pages = [
        one for one in crawled.log if one.host.startswith("late") and one.path != "/robots.txt"
    ]
    assert all(one.start_s - began_s >= 60 for one in pages)
    assert all(row["state"] != "unreachable" for row in crawled.rows["robots"])


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    hosts=st.integers(1, 20),
    from_s=st.floats(1.5, 15),
    lasts_s=st.floats(0, 200),
    kind=st.sampled_from(KINDS),
)
async def test_whenever_and_however_long_it_is_away_nothing_fails(
    hosts: int, from_s: float, lasts_s: float, kind: str
) -> None:
    from tests.conftest import World

    async with JumpClock() as clock:
        world = World(clock)
        network = Network(clock, site(15), from_s=from_s, to_s=from_s + lasts_s, kind=kind)
        seeds = [f"http://h{n}.test/0" for n in range(hosts)]
        crawled = await world.crawl({}, *seeds, fetcher=network)
        assert crawled.urls("failed") == []
        assert len(crawled.urls("visited")) == 15 * hosts
        check_rests(crawled.log)
        assert crawled.elapsed_s < from_s + lasts_s + 200


# ---------------------------------------------------------------- the policy


def test_it_takes_several_hosts_and_only_since_the_last_answer() -> None:
    found = holds.NONE
    for n in range(holds.UNKNOWN_MIN - 1):
        found = holds.after_failure(found, f"dead{n}.test", reached=False, local=False)
        assert not holds.is_outage(found, hosts_reached=100, hosts_dead=0, silent_s=60)
    again = holds.after_failure(found, "dead0.test", reached=False, local=False)
    assert again is found
    found = holds.after_failure(found, "one.more.test", reached=False, local=False)
    assert holds.is_outage(found, hosts_reached=100, hosts_dead=0, silent_s=60)
    assert not holds.is_outage(found, hosts_reached=100, hosts_dead=0, silent_s=1)
    known = holds.NONE
    for n, is_one in ((0, False), (1, False), (2, True)):
        known = holds.after_failure(known, f"known{n}.test", reached=True, local=False)
        assert holds.is_outage(known, hosts_reached=100, hosts_dead=0, silent_s=0) is is_one
    assert holds.is_outage(known, hosts_reached=3, hosts_dead=0, silent_s=0)


def test_the_more_hosts_were_dead_the_more_it_takes() -> None:
    for dead, least in [(0, 20), (100, 20), (900, 100), (10**6, 2_000)]:
        assert holds.unknown_min(100, dead) >= least
        assert holds.unknown_min(0, dead) == holds.UNKNOWN_MIN


@pytest.mark.parametrize("reason", [HoldReason.DESCRIPTORS, HoldReason.PORTS])
@pytest.mark.parametrize("hosts", [1, 6])
@pytest.mark.parametrize("share", [2, 1])
async def test_sockets_that_run_out_fail_nothing(
    world: World, reason: HoldReason, hosts: int, share: int
) -> None:
    """For 30 s every request, or every second one, gets no socket."""
    clock, began_s, count = world.clock, world.clock.monotonic(), itertools.count()

    class Few(FakeFetcher):
        async def fetch(self, request: Request) -> Answer | Failure:
            now_s = clock.monotonic()
            if 5 <= now_s - began_s < 35 and not next(count) % share:
                return Failure(
                    url=request.url,
                    code=FailureCode.CONNECT,
                    sentence="the server was not asked",
                    connected=False,
                    permanent=False,
                    started_s=now_s,
                    ended_s=now_s,
                    ours=reason,
                    contacted=False,
                )
            return await super().fetch(request)

    watcher = Watcher()
    seeds = [f"http://h{n}.test/0" for n in range(hosts)]
    crawled = await world.crawl(
        {}, *seeds, fetcher=Few(clock, site(30)), observer=watcher, fetch={"max_attempts": 1}
    )
    assert len(crawled.urls("visited")) == 30 * hosts
    assert crawled.urls("failed") == []
    assert watcher.holds[:2] == [f"{reason} began", f"{reason} ended"]
    check_rests(crawled.log)
    assert crawled.elapsed_s < 150


def test_the_clock_of_an_origin_out_of_reach_runs_for_days() -> None:
    rules = RetryRules(max_attempts=3, unreachable_for_s=7 * DAY_S)
    failures = 0
    while hasattr(after_no_connection(failures, rules), "in_s") is not False:
        failures += 1
        assert failures < 200
    assert 30 <= failures <= 60
    assert tried_for_s(failures) < 7 * DAY_S <= tried_for_s(failures + 1)
    assert [tried_for_s(n) for n in (1, 2, 3, 4)] == [0, 2, 12, 42]


async def test_redirects_to_a_dead_host_wait_like_it(world: World) -> None:
    def answers(request: Request) -> Reply | FailureCode:
        if "//dead.test" in request.url:
            return FailureCode.CONNECT
        if request.url.endswith("/robots.txt"):
            return redirect("http://dead.test/robots.txt")
        return html("ParsedPage")

    crawled = await world.crawl(answers, "http://a.test/", crawl={"patience": "1m"})
    assert crawled.urls("queued") == ["http://a.test/"]
    assert crawled.elapsed_s < 65


async def test_a_crawl_with_nothing_left_ends_when_a_hold_of_the_disk_does(world: World) -> None:
    """Also where nothing else would wake it."""

    def begin() -> None:
        world.control._frontier.holds.begin(HoldReason.DISK_LOW)

    def end() -> None:
        world.control._frontier.holds.end(HoldReason.DISK_LOW)

    answers = {"http://a.test/": Reply(body="ParsedPage", delay_s=3)}
    crawled = await world.crawl(
        answers, "http://a.test/", at={2: begin, 5_000: end}, cap_s=6_000, crawl={"patience": "1m"}
    )
    assert crawled.urls("visited") == ["http://a.test/"]
    assert 5_000 <= crawled.elapsed_s < 5_010


@pytest.mark.parametrize("dead", [3, 5, 30])
async def test_hosts_that_are_gone_are_no_outage_time_and_again(world: World, dead: int) -> None:
    """While one slow host rests, only they are tried, and all of them fail. They were excused with
    each answer of the slow host, and tried again at once: hundreds of times, without an end."""
    began_s = world.clock.monotonic()

    def answers(request: Request) -> Reply | FailureCode:
        slow = host_of(request.url) == "slow.test"
        if not slow and world.clock.monotonic() - began_s > 8:
            return FailureCode.CONNECT
        if request.url.endswith("/robots.txt"):
            return text("User-agent: *\nCrawl-delay: 30\n") if slow else not_found()
        return html("ParsedPage", *(f"/{n}" for n in range(100)))

    watcher = Watcher()
    seeds = ["http://slow.test/0", *(f"http://dead{n}.test/0" for n in range(dead))]
    crawled = await world.crawl(answers, *seeds, observer=watcher, cap_s=5_000)
    assert len(crawled.urls("visited")) == 100 + 7 * dead
    assert crawled.urls("failed") == []
    assert len(watcher.holds) <= 6
    assert crawled.elapsed_s < 4_000
    assert all(len(crawled.log.requests(f"dead{n}.test")) < 40 for n in range(dead))
    check_rests(crawled.log)


async def test_links_of_one_slow_host_to_dead_ones_are_no_outage_time_and_again(
    world: World,
) -> None:
    def answers(request: Request) -> Reply | FailureCode:
        if host_of(request.url) != "slow.test":
            return FailureCode.CONNECT
        if request.url.endswith("/robots.txt"):
            return text("User-agent: *\nCrawl-delay: 30\n")
        dead = (f"http://dead{n}.test/" for n in range(60))
        return html("ParsedPage", *(f"/{n}" for n in range(100)), *dead)

    watcher = Watcher()
    crawled = await world.crawl(
        answers, "http://slow.test/0", observer=watcher, scope={"follow": "any"}, cap_s=5_000
    )
    assert len(crawled.urls("visited")) == 100
    assert len(watcher.holds) <= 6
    assert crawled.elapsed_s < 3_300
    assert all(len(crawled.log.requests(f"dead{n}.test")) < 40 for n in range(60))
