"""robots.txt by itself: a real frontier and downloader, on a jumping clock, without a network."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest

from crawler.config import from_dict
from crawler.config.model import CurrentConfig
from crawler.downloading.downloader import Downloader
from crawler.downloading.robots_fetcher import RobotsFetcher
from crawler.downloading.robots_parser import RobotsParser
from crawler.fetching.request import Request
from crawler.frontier.commands import FetchRobots, ParseRobots, Rejudge
from crawler.frontier.frontier import Frontier
from crawler.frontier.host_queue import HostQueue
from crawler.frontier.origin import Origin
from crawler.frontier.robots_cache import ASKING, GOVERNED, UNGOVERNED, Asking, Pass, Shut
from crawler.scheduling.contact_loop import commands_of
from crawler.scheduling.task_set import TaskSet
from crawler.testing import FakeFetcher, JumpClock, Reply, RequestLog, not_found, redirect, text
from policies import robots_state
from policies.quarantine import died_with, is_suspect
from policies.retries import FailureCode
from policies.robots import DIALECTS, Verdict
from policies.robots.agent_rules import AgentRules
from policies.robots.syntax import RobotsSource
from policies.robots_state import QUARANTINE_S, RobotsRules
from storage.sqlite import memory_store
from storage.store import Completed

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
FLOAT_S = 1e-6  # the clock counts in floats
Answer = Reply | FailureCode


class Rules(CurrentConfig):
    """A config whose robots rules the test sets."""

    def __init__(self) -> None:
        super().__init__(from_dict({"politeness": {"delay": 1, "latency_factor": 0}}))
        self.robots = RobotsRules()

    def robots_of(self, host: str) -> tuple[RobotsRules, tuple[str, ...]]:
        return self.robots, ("examplebot",)


class Rig:
    """A frontier whose robots commands are carried out; `judge(url)` asks it as a worker would."""

    def __init__(self, clock: JumpClock) -> None:
        self.clock = clock
        self.store = memory_store(wall=clock.wall, monotonic=clock.monotonic)
        self.config = Rules()
        self.frontier = Frontier(self.config, clock, self.store)
        self.permits = self.frontier.permits
        self.robots = self.frontier.robots
        self.answers: dict[str, Answer | Callable[[Request], Answer]] = {}
        self.fetcher = FakeFetcher(clock, self.answer)
        self.held_elsewhere: set[str] = set()
        self.rejudged: list[str] = []
        self.settled: list[str] = []
        self.tasks = TaskSet(self.frontier.commands)
        self.session = 0

    def answer(self, request: Request) -> Answer:
        given = self.answers.get(request.url, not_found())
        return given(request) if callable(given) else given

    async def open(self) -> None:
        self.session = await self.store.open_session("test")
        store = self.store
        self.robots_fetcher = RobotsFetcher(
            self.frontier, Downloader(self.frontier, self.fetcher, self.clock, store),
            RobotsParser(self.frontier, store), self, store, self.session, self.clock,
        )  # fmt: skip
        self.loop = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with contextlib.aclosing(
            commands_of(self.frontier, self.clock, self.tasks)
        ) as commands:
            async for command in commands:
                match command:
                    case FetchRobots(origin):
                        self.tasks.spawn(self._fetch(origin))
                    case ParseRobots(origin):
                        self.tasks.spawn(self._parse(origin))
                    case Rejudge(name):
                        self.rejudged.append(name)

    async def _fetch(self, origin: Origin) -> None:
        self.settled += [one.name for one in await self.robots_fetcher.refresh(origin)]

    async def _parse(self, origin: Origin) -> None:
        await self.robots_fetcher.parse(origin)
        self.settled.append(origin.name)

    def out_of_reach(self) -> dict[str, int]:
        """Origins that could not be connected to, and how often."""
        return {
            name: lost.failures for host in self.permits for name, lost in host.out_of_reach.items()
        }

    async def lease(self, slot: str) -> HostQueue | None:
        if slot in self.held_elsewhere:
            return None
        if (host := self.permits.hosts.get(slot)) is not None:
            return host
        return self.frontier.host_leased((await self.store.acquire(self.session, [slot]))[slot])

    async def judge(self, url: str) -> Pass | Shut | Verdict:
        """The gate's answer, once robots.txt has been asked for if that is needed."""
        host = await self.lease(url.split("/")[2].partition(":")[0])
        assert host is not None
        for _ in range(3):
            passed = self.robots.check(host, url)
            if not isinstance(passed, Asking):
                return passed
            await self.asked()
        raise AssertionError("it asks for ever")

    async def asked(self) -> None:
        while self.frontier.commands.has_tasks or len(self.tasks):
            await asyncio.sleep(0)
            await self.tasks.ended()

    async def wait(self, for_s: float) -> None:
        await self.clock.sleep_until(self.clock.monotonic() + for_s)
        await self.asked()

    @property
    def log(self) -> RequestLog:
        return self.fetcher.log

    def origin(self, name: str) -> Origin:
        origin = self.robots.get(name)
        assert origin is not None
        return origin


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with JumpClock() as clock:
        rig = Rig(clock)
        await rig.open()
        yield rig
        rig.frontier.close()
        await rig.asked()
        rig.loop.cancel()


FORBIDS = text("User-agent: *\nDisallow: /p\n")


# ---------------------------------------------------------------- asking


async def test_robots_txt_of_an_origin_is_fetched_once_however_many_ask(rig: Rig) -> None:
    """ "One robots fetch per origin at a time, each hop a turn of its host": law 2, no verdict
    before it, and each origin of a host for itself, one after the other."""
    rig.answers["http://a.test/robots.txt"] = FORBIDS
    host = await rig.lease("a.test")
    assert host is not None
    for n in range(20):
        assert rig.robots.check(host, f"http://a.test/{n}") is ASKING
        assert rig.robots.check(host, f"http://a.test:8080/{n}") is ASKING
    await rig.asked()
    assert rig.log.paths() == ["/robots.txt", "/robots.txt"]
    assert rig.log.gaps("a.test")[0] >= 1 - FLOAT_S
    assert sorted(rig.settled) == ["http://a.test", "http://a.test:8080"]
    verdict = rig.robots.check(host, "http://a.test/p")
    assert isinstance(verdict, Verdict)
    assert verdict.rule == "Disallow: /p"
    assert rig.robots.check(host, "http://a.test/q") is GOVERNED
    assert rig.robots.check(host, "http://a.test:8080/p") is GOVERNED  # its own file is absent


async def test_pages_wait_until_the_copy_is_committed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is committed before the first page that it governs is requested; what it
    asks of the pace counts at once."""
    put = rig.store.robots_put

    async def slow(*args: object, **kwargs: object) -> Completed:
        answers.append(rig.robots.check(host, "http://a.test/x"))
        delays.append(host.pace.delay.delay_s)
        await rig.clock.sleep_until(rig.clock.monotonic() + 5)
        answers.append(rig.robots.check(host, "http://a.test/x"))
        return await put(*args, **kwargs)  # type: ignore[arg-type]

    answers: list[object] = []
    delays: list[float] = []
    monkeypatch.setattr(rig.store, "robots_put", slow)
    rig.answers["http://a.test/robots.txt"] = text("User-agent: *\nCrawl-delay: 7\n")
    host = cast("HostQueue", await rig.lease("a.test"))
    assert await rig.judge("http://a.test/x") is GOVERNED
    assert answers == [ASKING, ASKING]
    assert delays == [7]
    assert (await rig.store.robots_get("http://a.test")) is not None


async def test_validators_are_sent_only_to_the_url_that_gave_them(rig: Rig) -> None:
    """GET with validators on refresh (sent only to the URL that gave them)."""

    def file(request: Request) -> Reply:
        if request.headers.get("If-None-Match") == '"v1"':
            return Reply(status=304)
        headers = {"ETag": '"v1"', "Last-Modified": "Tue, 14 Nov 2023 00:00:00 GMT"}
        return Reply(body=FORBIDS.body, content_type="text/plain", headers=headers)

    rig.answers["http://a.test/robots.txt"] = redirect("http://b.test/shared.txt")
    rig.answers["http://b.test/shared.txt"] = file
    assert isinstance(await rig.judge("http://a.test/p"), Verdict)
    await rig.wait(DAY_S + HOUR_S)
    assert isinstance(await rig.judge("http://a.test/p"), Verdict)  # 304: the copy still holds
    await rig.wait(DAY_S + HOUR_S)
    rig.answers["http://a.test/robots.txt"] = text("")
    assert await rig.judge("http://a.test/p") is GOVERNED
    sent = [(entry.host, "if-none-match" in entry.headers) for entry in rig.log]
    assert sent == [
        ("a.test", False), ("b.test", False), ("a.test", False), ("b.test", True),
        ("a.test", False),
    ]  # fmt: skip
    assert rig.log[3].headers["if-modified-since"] == "Tue, 14 Nov 2023 00:00:00 GMT"


# ---------------------------------------------------------------- redirects


async def test_each_hop_is_made_at_its_hosts_turn_and_the_rules_govern_the_first_origin(
    rig: Rig,
) -> None:
    """At most 5 redirects, across hosts, each hop at its host's turn, the rules
    governing the *first* origin."""
    rig.answers["http://a.test/robots.txt"] = redirect("http://b.test/1")
    rig.answers["http://b.test/1"] = redirect("http://a.test/2")
    rig.answers["http://a.test/2"] = redirect("http://b.test/3")
    rig.answers["http://b.test/3"] = FORBIDS
    await rig.lease("b.test")
    assert isinstance(await rig.judge("http://a.test/p"), Verdict)
    assert rig.log.paths() == ["/robots.txt", "/1", "/2", "/3"]
    for host in ("a.test", "b.test"):
        assert min(rig.log.gaps(host)) >= 1 - FLOAT_S
    assert await rig.judge("http://b.test/p") is GOVERNED  # it was not b's own robots.txt


@pytest.mark.parametrize(("hops", "governed"), [(5, True), (6, False), (9, False)])
async def test_a_sixth_redirect_counts_as_absent(rig: Rig, hops: int, governed: bool) -> None:
    """Five redirects are followed (RFC 9309 section 2.3.1.2)."""
    for n in range(hops):
        path = f"hop{n}" if n else "robots.txt"
        rig.answers[f"http://a.test/{path}"] = redirect(f"/hop{n + 1}")
    rig.answers[f"http://a.test/hop{hops}"] = FORBIDS
    judged = await rig.judge("http://a.test/p")
    assert isinstance(judged, Verdict) is governed
    assert judged is GOVERNED or governed  # absent is an answer: nothing is judged again later
    assert len(rig.log) == 6


@pytest.mark.parametrize("location", [None, "", "ftp://a.test/robots.txt", "http://"])
async def test_a_redirect_that_leads_nowhere_counts_as_absent(
    rig: Rig, location: str | None
) -> None:
    headers = {} if location is None else {"Location": location}
    rig.answers["http://a.test/robots.txt"] = Reply(status=301, headers=headers)
    assert await rig.judge("http://a.test/p") is GOVERNED


async def test_a_hop_that_ends_at_anothers_robots_txt_fills_that_copy_as_well(rig: Rig) -> None:
    """The copy of the other origin is used and stored: fetched once, kept for both."""
    rig.answers["http://a.test/robots.txt"] = redirect("http://b.test/robots.txt")
    rig.answers["http://b.test/robots.txt"] = FORBIDS
    assert isinstance(await rig.judge("http://a.test/p"), Verdict)
    assert isinstance(await rig.judge("http://b.test/p"), Verdict)
    assert len(rig.log) == 2
    for name in ("http://a.test", "http://b.test"):
        kept = await rig.store.robots_get(name)
        assert kept is not None
        assert kept.body == b"User-agent: *\nDisallow: /p\n"


async def test_a_copy_that_is_known_is_taken_over_with_its_age(rig: Rig) -> None:
    """Kept for 24 h from when it was fetched, by whichever way it came."""
    rig.answers["http://a.test/robots.txt"] = redirect("http://b.test/robots.txt")
    rig.answers["http://b.test/robots.txt"] = FORBIDS
    await rig.judge("http://b.test/p")
    await rig.wait(23 * HOUR_S)
    assert isinstance(await rig.judge("http://a.test/p"), Verdict)
    assert rig.log.paths() == ["/robots.txt", "/robots.txt"]  # b's was not asked again
    a, b = rig.origin("http://a.test").access, rig.origin("http://b.test").access
    assert (a.copy_at, a.expires_at) == (b.copy_at, b.expires_at)
    await rig.wait(HOUR_S)
    rig.answers["http://b.test/robots.txt"] = text("")
    assert await rig.judge("http://a.test/p") is GOVERNED
    assert rig.log.requests("b.test")[1:] != []


async def test_no_turn_is_held_while_another_is_awaited(rig: Rig) -> None:
    """Two files that lead to each other's hosts do not wait for each other for ever."""
    for one, other in (("a", "b"), ("b", "a")):
        rig.answers[f"http://{one}.test/robots.txt"] = redirect(f"http://{other}.test/shared")
        rig.answers[f"http://{other}.test/shared"] = FORBIDS
    hosts = [cast("HostQueue", await rig.lease(f"{name}.test")) for name in "ab"]
    for host in hosts:
        assert rig.robots.check(host, f"http://{host.slot}/p") is ASKING
    await rig.asked()
    assert rig.clock.elapsed_s < 3
    for host in hosts:
        assert isinstance(rig.robots.check(host, f"http://{host.slot}/p"), Verdict)
    assert rig.permits.in_flight == 0


# ---------------------------------------------------------------- trying again


async def test_the_retry_clock_while_it_cannot_be_had(rig: Rig) -> None:
    """2 s, 10 s, 30 s, then 1 min doubling to 6 h, and the count is stored; pages are
    fetched meanwhile for lack of an answer, and the change is told when one comes."""
    rig.answers["http://a.test/robots.txt"] = text("", status=500)
    assert await rig.judge("http://a.test/p") is UNGOVERNED
    await rig.wait(3 * DAY_S)
    asked_s = [entry.start_s for entry in rig.log]
    waits = [after - entry.end_s for entry, after in zip(rig.log, asked_s[1:], strict=False)]
    clock = [2, 10, 30, *(min(60 * 2**n, 6 * HOUR_S) for n in range(len(waits) - 3))]
    assert len(waits) > 12
    assert waits == pytest.approx(clock, abs=0.01)
    kept = await rig.store.robots_get("http://a.test")
    assert kept is not None
    assert kept.failures == len(rig.log)
    rig.rejudged.clear()
    rig.answers["http://a.test/robots.txt"] = FORBIDS
    await rig.wait(6 * HOUR_S)
    assert rig.rejudged == ["http://a.test"]
    assert isinstance(await rig.judge("http://a.test/p"), Verdict)


async def test_never_before_retry_after(rig: Rig) -> None:
    """Never before Retry-After or the host's delay."""
    rig.answers["http://a.test/robots.txt"] = Reply(status=503, headers={"Retry-After": "500"})
    assert await rig.judge("http://a.test/p") is UNGOVERNED
    await rig.wait(1200)
    assert len(rig.log) == 3
    assert min(rig.log.gaps()) >= 500 - FLOAT_S


async def test_a_connection_that_cannot_be_made_opens_nothing(rig: Rig) -> None:
    """DNS and connection failures open nothing, they are the host's failure."""
    rig.answers["http://a.test/robots.txt"] = FailureCode.CONNECT
    judged = await rig.judge("http://a.test/p")
    assert isinstance(judged, Shut)
    assert "connect" in judged.reason
    assert rig.out_of_reach() == {"http://a.test": 1}
    assert await rig.store.robots_get("http://a.test") is None
    await rig.wait(1.9)
    assert isinstance(await rig.judge("http://a.test/p"), Shut)
    assert len(rig.log) == 1
    await rig.wait(0.2)
    rig.answers["http://a.test/robots.txt"] = FORBIDS
    assert isinstance(await rig.judge("http://a.test/p"), Verdict)


async def test_a_hop_that_cannot_be_connected_to_opens_nothing_either(rig: Rig) -> None:
    """And the origin that leads there shares the count of the one that is out of reach."""
    for name in "abc":
        rig.answers[f"http://{name}.test/robots.txt"] = redirect("http://dead.test/shared")
    rig.answers["http://dead.test/shared"] = FailureCode.CONNECT
    hosts = [cast("HostQueue", await rig.lease(f"{name}.test")) for name in "abc"]
    for host in hosts:
        assert rig.robots.check(host, f"http://{host.slot}/p") is ASKING
    await rig.asked()
    for host in hosts:
        assert isinstance(rig.robots.check(host, f"http://{host.slot}/p"), Shut)
    assert rig.log.paths("dead.test") == ["/shared"]
    assert rig.out_of_reach() == dict.fromkeys(
        ["http://dead.test", *(f"http://{n}.test" for n in "abc")], 1
    )


async def test_a_hop_to_a_host_of_another_worker_is_an_answer_that_cannot_be_had(
    rig: Rig,
) -> None:
    """By the dialect's rule, that is open and asked again, or closed."""
    rig.answers["http://a.test/robots.txt"] = redirect("http://b.test/shared")
    rig.answers["http://b.test/shared"] = FORBIDS
    rig.held_elsewhere.add("b.test")
    assert await rig.judge("http://a.test/p") is UNGOVERNED
    rig.held_elsewhere.clear()
    await rig.wait(10)
    assert isinstance(await rig.judge("http://a.test/p"), Verdict)


async def test_closed_it_asks_no_more(rig: Rig) -> None:
    """ "No more robots fetches; those on the wire run on", and their answers are kept."""
    rig.answers["http://a.test/robots.txt"] = Reply(
        body=FORBIDS.body, content_type="text/plain", delay_s=2
    )
    rig.answers["http://b.test/robots.txt"] = text("", status=500)
    assert await rig.judge("http://b.test/p") is UNGOVERNED
    a = cast("HostQueue", await rig.lease("a.test"))
    assert rig.robots.check(a, "http://a.test/p") is ASKING
    await rig.clock.sleep_until(rig.clock.monotonic() + 1)
    rig.robots.close()
    await rig.asked()
    assert (await rig.store.robots_get("http://a.test")) is not None
    await rig.wait(DAY_S)
    assert [entry.host for entry in rig.log] == ["b.test", "a.test"]


async def test_a_host_no_longer_held_is_forgotten(rig: Rig) -> None:
    """Its retry clock does not ring, and whoever leases it anew is given what was kept."""
    rig.answers["http://a.test/robots.txt"] = text("", status=500)
    assert await rig.judge("http://a.test/p") is UNGOVERNED
    host = cast("HostQueue", await rig.lease("a.test"))
    rig.frontier.drop(host)
    await rig.wait(DAY_S)
    assert rig.robots.get("http://a.test") is None
    assert len(rig.log) == 1


# ---------------------------------------------------------------- large files


class ReadIn:
    """Where files were parsed and compiled: `loop` and `threads` count how often."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = self.threads = 0
        for kind, name in ((RobotsSource, "__init__"), (AgentRules, "__init__")):
            monkeypatch.setattr(kind, name, self._counted(getattr(kind, name)))
        monkeypatch.setattr(AgentRules, "_compile", self._counted(AgentRules._compile))

    def _counted(self, call: Callable[..., object]) -> Callable[..., object]:
        def counted(*args: object, **kwargs: object) -> object:
            if threading.current_thread() is threading.main_thread():
                self.loop += 1
            else:
                self.threads += 1
            return call(*args, **kwargs)

        return counted


LARGE = "User-agent: *\nCrawl-delay: 7\n" + "".join(
    f"Disallow: /*%4{n % 10}%2f*a&%e9{n}\n" for n in range(1_000)
)
PATHS = ("/q", "/%2f", "/é", "/a&b=c?d=e", "/" + "%41%2f%e9" * 300, "/x%41%2Fxa&%E91")


async def judged_apart(rig: Rig, read_in: ReadIn) -> None:
    """Verdicts of every kind of path, none of which reads anything on the event loop."""
    for path in PATHS:
        verdict = await rig.judge("http://a.test" + path)
        assert isinstance(verdict, Verdict) == (path == PATHS[-1]), path
    assert read_in.threads
    assert not read_in.loop


@pytest.mark.parametrize("dialect", [("rfc9309",), ("google",), tuple(DIALECTS)])
async def test_a_large_file_is_read_in_a_thread_where_it_is_fetched(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, dialect: tuple[str, ...]
) -> None:
    rig.config.robots = RobotsRules(dialect=dialect)
    rig.answers["http://a.test/robots.txt"] = text(LARGE)
    read_in = ReadIn(monkeypatch)
    host = await rig.lease("a.test")
    assert host is not None
    assert rig.robots.check(host, "http://a.test/q") is ASKING
    await rig.asked()
    if "google" not in dialect[:1]:
        # Its Crawl-delay counted as soon as the contact was over.
        assert host.pace.next_contact(rig.clock.monotonic(), rig.clock.wall())[0] > 5
    await judged_apart(rig, read_in)


async def test_a_large_file_is_read_in_a_thread_where_the_store_has_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.answers["http://a.test/robots.txt"] = text(LARGE)
    await rig.judge("http://a.test/q")
    host = rig.origin("http://a.test").host
    known = rig.origin("http://a.test").access
    rig.robots.forget(host)
    read_in = ReadIn(monkeypatch)
    rig.robots.adopt(host, {"http://a.test": known})
    await judged_apart(rig, read_in)
    assert rig.log.paths() == ["/robots.txt"]


async def test_a_large_file_is_read_anew_in_a_thread(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.answers["http://a.test/robots.txt"] = text(LARGE)
    await rig.judge("http://a.test/q")
    host = rig.origin("http://a.test").host
    read_in = ReadIn(monkeypatch)
    rig.settled.clear()
    rig.config.robots = RobotsRules(dialect=("rfc9309", "yandex"))
    assert rig.robots.reread() == [rig.origin("http://a.test")]
    assert rig.robots.check(host, "http://a.test/q") is ASKING
    await rig.asked()
    assert rig.settled == ["http://a.test"]
    await judged_apart(rig, read_in)


async def test_a_large_file_that_cannot_be_read_closes_its_origin(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(AgentRules, "read_whole", broken)
    rig.answers["http://a.test/robots.txt"] = text(LARGE)
    shut = await rig.judge("http://a.test/q")
    assert isinstance(shut, Shut)
    assert "could not be read" in shut.reason


# ---------------------------------------------------------------- in flight when the process died


async def test_suspects_are_fetched_one_at_a_time_others_meanwhile(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the process dies again, one of them is to blame at most."""
    noted: list[str] = []
    together: list[set[str]] = []

    def begin(slot: str, origin: str) -> None:
        assert origin not in noted
        noted.append(origin)
        together.append({*noted})

    monkeypatch.setattr(rig.store, "robots_in_flight", begin)
    monkeypatch.setattr(rig.store, "robots_not_in_flight", lambda _, origin: noted.remove(origin))
    suspects = [f"http://bad{n}.test" for n in range(6)]
    others = [f"http://good{n}.test" for n in range(6)]
    suspect = died_with(robots_state.UNKNOWN, now_s=rig.clock.wall())
    for origin in [*suspects, *others]:
        slot = origin[7:]
        if origin in suspects:
            await rig.store.robots_put(rig.session, slot, origin, suspect)
        rig.answers[f"{origin}/robots.txt"] = Reply(body=b"", delay_s=3.0)
    rig.answers["http://bad3.test/robots.txt"] = redirect("http://good3.test/robots.txt")
    rig.answers["http://bad4.test/robots.txt"] = not_found()
    for origin in [*suspects, *others]:
        host = await rig.lease(origin[7:])
        assert host is not None
        assert rig.robots.check(host, f"{origin}/") is ASKING
    await rig.asked()
    assert all(len(at_once & {*suspects}) <= 1 for at_once in together)
    assert any(len(at_once & {*others}) > 1 for at_once in together)
    assert noted == []
    assert not rig.frontier.in_flight.suspect_in_flight
    for origin in suspects:
        known = await rig.store.robots_get(origin)
        assert known is not None
        assert not is_suspect(known), origin


async def test_a_quarantined_robots_txt_closes_its_origin_until_it_is_released(rig: Rig) -> None:
    known = robots_state.UNKNOWN
    for _ in range(2):
        known = died_with(known, now_s=rig.clock.wall())
    rig.config.robots = RobotsRules(unreachable=robots_state.Unreachable.OPEN)
    rig.answers["http://a.test/robots.txt"] = FORBIDS
    await rig.store.robots_put(rig.session, "a.test", "http://a.test", known)
    shut = await rig.judge("http://a.test/")
    assert isinstance(shut, Shut)
    assert "quarantined: the process ended twice while it was read" in shut.reason
    rig.robots.release("b.test")
    await rig.asked()
    assert rig.log.paths() == []
    rig.robots.release("a.test")
    await rig.asked()
    assert await rig.judge("http://a.test/") is GOVERNED
    assert isinstance(await rig.judge("http://a.test/p"), Verdict)


async def test_a_quarantine_ends_on_its_clock(rig: Rig) -> None:
    known = robots_state.UNKNOWN
    for _ in range(2):
        known = died_with(known, now_s=rig.clock.wall())
    await rig.store.robots_put(rig.session, "a.test", "http://a.test", known)
    await rig.lease("a.test")
    await rig.wait(QUARANTINE_S - 60)
    assert rig.log.paths() == []
    await rig.wait(120)
    assert rig.log.paths() == ["/robots.txt"]
    assert await rig.judge("http://a.test/") is GOVERNED
