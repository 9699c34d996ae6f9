"""PoliteSession: every request under a verdict and at its turn, and nothing left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from crawler.config import ConfigError
from crawler.embedding.redirects import REDIRECTS_MAX
from crawler.embedding.session import PoliteSession
from crawler.errors import (
    FetchFailed,
    InvalidURL,
    RobotsDisallowed,
    RobotsUnreachable,
    SessionClosed,
    TooManyRedirects,
)
from crawler.fetching.request import Answer, Failure, Request
from crawler.testing import (
    Answers,
    FakeFetcher,
    JumpClock,
    LocalWeb,
    ReceivedRequest,
    Reply,
    html,
    redirect,
    text,
)
from policies.holds import HoldReason
from policies.retries import FailureCode
from storage.store import StoreRefused

UA = "examplebot/1.0 (+https://example.com/bot)"
A = "http://a.test"
ALLOW_ALL = text("User-agent: *\nDisallow:\n")
FORBID_P = text("User-agent: *\nDisallow: /p\n")


class Fake:
    """A session over a fake network, on a clock that jumps."""

    def __init__(self, clock: JumpClock, answers: Answers, **config: Mapping[str, object]) -> None:
        self.fetcher = FakeFetcher(clock, answers, latency_s=0.1)
        config.setdefault("politeness", {"delay": 1, "latency_factor": 0})
        self.session = PoliteSession(
            user_agent=UA, config=config, clock=clock, fetcher=self.fetcher
        )
        self.log = self.fetcher.log


# ---------------------------------------------------------------- the verdict


async def test_robots_is_asked_first_and_the_host_rests_after_each_contact(
    clock: JumpClock,
) -> None:
    fake = Fake(clock, {f"{A}/robots.txt": FORBID_P, f"{A}/a": html("A")})
    async with fake.session as session:
        response = await session.get(f"{A}/a")
        again = await session.get(f"{A}/a")
    assert response.status == again.status == 200
    assert "<h1>A</h1>" in response.text
    assert fake.log.paths() == ["/robots.txt", "/a", "/a"]
    assert fake.log.gaps() == [pytest.approx(1.0)] * 2


async def test_what_is_disallowed_raises_with_the_verdict_and_at_no_cost_in_time(
    clock: JumpClock,
) -> None:
    fake = Fake(clock, {f"{A}/robots.txt": FORBID_P})
    async with fake.session as session:
        for method in ("GET", "HEAD", "POST", "DELETE"):
            with pytest.raises(RobotsDisallowed) as caught:
                await session.fetch(f"{A}/p/1", method=method)
            assert caught.value.verdict.rule == "Disallow: /p"
            assert caught.value.url == f"{A}/p/1"
            assert "Disallow: /p" in str(caught.value)
        assert clock.elapsed_s < 0.2
    assert fake.log.paths() == ["/robots.txt"]


async def test_the_forbidden_need_not_stand_in_line_to_be_told_so(clock: JumpClock) -> None:
    fake = Fake(clock, {f"{A}/robots.txt": FORBID_P})
    told: list[float] = []

    async def ask(path: str) -> None:
        try:
            await fake.session.get(f"{A}{path}")
        except RobotsDisallowed:
            told.append(clock.elapsed_s)

    async with fake.session, asyncio.TaskGroup() as group:
        for path in ("/1", "/2", "/3", "/p", "/4"):
            group.create_task(ask(path))
    assert told == [pytest.approx(0.1)]
    assert fake.log.paths() == ["/robots.txt", "/1", "/2", "/3", "/4"]


async def test_may_fetch_robots_and_next_turn_say_what_holds(clock: JumpClock) -> None:
    fake = Fake(clock, {f"{A}/robots.txt": FORBID_P})
    async with fake.session as session:
        before = await session.next_turn(f"{A}/x")
        assert (before.in_s, before.ahead) == (0.0, 0)
        assert not fake.log
        assert await session.may_fetch(f"{A}/x") is True
        assert await session.may_fetch(f"{A}/p?q=1") is False
        known = await session.robots(f"{A}/anything")
        assert known.status == 200
        assert known.body == b"User-agent: *\nDisallow: /p\n"
        after = await session.next_turn(f"{A}/x")
        assert after.in_s == pytest.approx(1.0)
        assert "politeness.delay" in after.reason
    assert fake.log.paths() == ["/robots.txt"]


async def test_a_closed_origin_raises_and_says_why_and_until_when(clock: JumpClock) -> None:
    robots = {"": text("busy", status=503)}
    fake = Fake(
        clock,
        lambda asked: robots[""] if asked.url.endswith("robots.txt") else html("A"),
        robots={"dialect": "rfc9309"},
    )
    async with fake.session as session:
        with pytest.raises(RobotsUnreachable, match="answered 503") as caught:
            await session.get(f"{A}/a")
        assert caught.value.until == pytest.approx(clock.wall() + 2)
        assert not await session.may_fetch(f"{A}/a")
        assert len(fake.log) == 1
        await clock.sleep_until(clock.monotonic() + 60)
        assert len(fake.log) == 1, "nobody asked, so nothing is asked for"
        robots[""] = ALLOW_ALL
        assert (await session.get(f"{A}/a")).status == 200


async def test_an_origin_that_counts_as_open_is_asked_for_its_rules_again_before_it_is_used(
    clock: JumpClock,
) -> None:
    robots = {"": text("busy", status=500)}
    fake = Fake(clock, lambda asked: robots[""] if asked.url.endswith("robots.txt") else html("A"))
    async with fake.session as session:
        await session.get(f"{A}/p")  # slurp: what cannot be had forbids nothing
        robots[""] = FORBID_P
        await clock.sleep_until(clock.monotonic() + 60)
        with pytest.raises(RobotsDisallowed):
            await session.get(f"{A}/p")


# ---------------------------------------------------------------- the line


async def test_callers_of_one_host_are_served_in_the_order_of_asking(clock: JumpClock) -> None:
    fake = Fake(clock, {f"{A}/robots.txt": ALLOW_ALL})
    paths = [f"/{n}" for n in range(50)]
    async with fake.session as session, asyncio.TaskGroup() as group:
        for path in paths:
            group.create_task(session.get(f"{A}{path}"))
    assert fake.log.paths() == ["/robots.txt", *paths]
    assert min(fake.log.gaps()) >= 1.0 - 1e-6
    assert fake.log.peak_concurrency() == 1


async def test_order_is_kept_when_robots_falls_due_in_the_middle_of_the_line(
    clock: JumpClock,
) -> None:
    fake = Fake(
        clock, {f"{A}/robots.txt": ALLOW_ALL}, politeness={"delay": 3600, "latency_factor": 0}
    )
    paths = [f"/{n}" for n in range(40)]
    async with fake.session as session, asyncio.TaskGroup() as group:
        for path in paths:
            group.create_task(session.get(f"{A}{path}"))
    pages = [path for path in fake.log.paths() if path != "/robots.txt"]
    assert pages == paths
    assert fake.log.paths().count("/robots.txt") == 2
    assert min(fake.log.gaps()) >= 3600 - 1e-6


async def test_hosts_do_not_wait_for_each_other(clock: JumpClock) -> None:
    fake = Fake(clock, {})
    async with fake.session as session, asyncio.TaskGroup() as group:
        for n in range(20):
            for page in range(3):
                group.create_task(session.get(f"http://h{n}.test/{page}"))
    assert clock.elapsed_s == pytest.approx(4 * 0.1 + 3 * 1.0)
    for n in range(20):
        assert fake.log.paths(f"h{n}.test") == ["/robots.txt", "/0", "/1", "/2"]


async def test_a_crawl_delay_counts_from_the_first_contact_on(clock: JumpClock) -> None:
    fake = Fake(clock, {f"{A}/robots.txt": text("User-agent: *\nCrawl-delay: 7\n")})
    async with fake.session as session:
        await session.get(f"{A}/a")
        await session.get(f"{A}/b")
    assert fake.log.gaps() == [pytest.approx(7.0)] * 2


# ---------------------------------------------------------------- trying again


async def test_get_is_tried_again_after_what_may_pass(clock: JumpClock) -> None:
    replies = [text("1", status=500), text("2", status=502), html("3")]
    fake = Fake(clock, lambda asked: replies.pop(0) if asked.url.endswith("/a") else ALLOW_ALL)
    async with fake.session as session:
        assert (await session.get(f"{A}/a")).status == 200
    assert fake.log.gaps() == [pytest.approx(g) for g in (1.0, 2.0, 10.0)]


async def test_the_last_answer_is_given_when_trying_again_did_not_help(clock: JumpClock) -> None:
    fake = Fake(clock, {f"{A}/robots.txt": ALLOW_ALL, f"{A}/a": text("no", status=500)})
    async with fake.session as session:
        assert (await session.get(f"{A}/a")).status == 500
    assert fake.log.paths() == ["/robots.txt", "/a", "/a", "/a"]


async def test_a_post_is_made_once_whatever_comes_of_it(clock: JumpClock) -> None:
    fake = Fake(
        clock,
        {
            f"{A}/robots.txt": ALLOW_ALL,
            f"{A}/a": text("no", status=500),
            f"{A}/b": FailureCode.TIMEOUT,
            f"{A}/c": text("later", status=429),
        },
    )
    async with fake.session as session:
        assert (await session.fetch(f"{A}/a", method="POST", body=b"x")).status == 500
        with pytest.raises(FetchFailed) as caught:
            await session.fetch(f"{A}/b", method="post")
        assert caught.value.failure.code is FailureCode.TIMEOUT
        assert (await session.fetch(f"{A}/c", method="POST")).status == 429
    assert fake.log.paths() == ["/robots.txt", "/a", "/b", "/c"]


async def test_a_refusal_rests_the_host_for_everybody(clock: JumpClock) -> None:
    replies = [Reply(status=429, headers={"Retry-After": "100"}), html("A")]
    fake = Fake(
        clock,
        lambda asked: replies.pop(0) if asked.url.endswith("/a") else html("B"),
        robots={},
    )
    async with fake.session as session, asyncio.TaskGroup() as group:
        group.create_task(session.get(f"{A}/a"))
        group.create_task(session.get(f"{A}/b"))
    assert fake.log.paths() == ["/robots.txt", "/a", "/b", "/a"]
    assert fake.log.gaps()[1] >= 100 - 1e-6


async def test_a_host_that_cannot_be_connected_to_fails_all_who_wait_for_it(
    clock: JumpClock,
) -> None:
    fake = Fake(clock, {f"{A}/robots.txt": FailureCode.CONNECT})
    failed: list[FetchFailed] = []

    async def ask(path: str) -> None:
        with pytest.raises(FetchFailed) as caught:
            await fake.session.get(f"{A}{path}")
        failed.append(caught.value)

    async with fake.session as session:
        async with asyncio.TaskGroup() as group:
            for n in range(5):
                group.create_task(ask(f"/{n}"))
        assert len(failed) == 5
        assert len(fake.log) == 3, "max_attempts of the host, not of each"
        assert fake.log.gaps() == [pytest.approx(2.0), pytest.approx(10.0)]
        until = failed[0].until
        assert until == pytest.approx(clock.wall() + 30)
        with pytest.raises(FetchFailed, match="not tried again before"):
            await session.get(f"{A}/later")
        assert len(fake.log) == 3
        await clock.sleep_until(clock.monotonic() + 31)
        with pytest.raises(FetchFailed):
            await session.get(f"{A}/later")
        assert len(fake.log) == 4


# ---------------------------------------------------------------- redirects


async def test_each_hop_of_a_redirect_is_judged_and_waits_its_turn(clock: JumpClock) -> None:
    fake = Fake(
        clock,
        {
            f"{A}/robots.txt": ALLOW_ALL,
            f"{A}/1": redirect("/2"),
            f"{A}/2": redirect("http://b.test/3", status=301),
            "http://b.test/robots.txt": ALLOW_ALL,
            "http://b.test/3": html("There"),
        },
    )
    async with fake.session as session:
        response = await session.get(f"{A}/1")
        assert response.url == "http://b.test/3"
        assert [one.url for one in response.redirects] == [f"{A}/1", f"{A}/2"]
        assert (await session.get(f"{A}/1", follow=False)).status == 302
    assert min(fake.log.gaps("a.test")) >= 1.0 - 1e-6
    assert min(fake.log.gaps("b.test")) >= 1.0 - 1e-6
    assert fake.log.paths("b.test") == ["/robots.txt", "/3"]


async def test_a_redirect_to_what_is_forbidden_raises(clock: JumpClock) -> None:
    fake = Fake(
        clock,
        {
            f"{A}/1": redirect("http://b.test/p"),
            "http://b.test/robots.txt": FORBID_P,
        },
    )
    async with fake.session as session:
        with pytest.raises(RobotsDisallowed) as caught:
            await session.get(f"{A}/1")
    assert caught.value.url == "http://b.test/p"
    assert fake.log.paths("b.test") == ["/robots.txt"]


async def test_a_response_shown_is_short(clock: JumpClock) -> None:
    fake = Fake(clock, {f"{A}/1": text("long" * 1000)})
    async with fake.session as session:
        response = await session.get(f"{A}/1")
    assert "longlong" in response.text
    assert "longlong" not in repr(response)


async def test_redirects_are_bounded(clock: JumpClock) -> None:
    fake = Fake(clock, {f"{A}/loop": redirect("/loop")})
    async with fake.session as session:
        with pytest.raises(TooManyRedirects) as caught:
            await session.get(f"{A}/loop")
    assert len(caught.value.urls) == REDIRECTS_MAX + 2
    assert f"more than {REDIRECTS_MAX} times" in str(caught.value)
    assert fake.log.paths().count("/loop") == REDIRECTS_MAX + 1


async def test_credentials_stay_with_their_origin_and_a_post_becomes_a_get(
    clock: JumpClock,
) -> None:
    fake = Fake(
        clock,
        {f"{A}/form": redirect("http://b.test/done", status=303), "http://b.test/done": html("")},
    )
    async with fake.session as session:
        response = await session.fetch(
            f"{A}/form",
            method="POST",
            body=b"x=1",
            headers={
                "Authorization": "Basic x",
                "Cookie": "a=b",
                "X-API-Key": "k",
                "X-Other": "1",
            },
        )
    assert response.status == 200
    last = fake.log.requests("b.test")[-1]
    assert "authorization" not in last.headers
    assert "cookie" not in last.headers
    assert "x-api-key" not in last.headers
    assert "x-other" not in last.headers


@pytest.mark.parametrize("to", ["https://a.test/x", f"{A}:8080/x", "http://www.a.test/x", f"{A}/x"])
async def test_secrets_follow_no_change_of_scheme_host_or_port(clock: JumpClock, to: str) -> None:
    fake = Fake(clock, {f"{A}/": redirect(to), to: html("")})
    async with fake.session as session:
        await session.get(f"{A}/", headers={"Authorization": "Basic x"})
    last = fake.log.requests()[-1]
    assert ("authorization" in last.headers) == (to == f"{A}/x")


# ---------------------------------------------------------------- leaving


async def test_cancelling_the_wait_leaves_no_trace(clock: JumpClock) -> None:
    fake = Fake(clock, {f"{A}/robots.txt": ALLOW_ALL})
    async with fake.session as session:
        await session.get(f"{A}/0")
        waits = [asyncio.create_task(session.get(f"{A}/{n}")) for n in range(1, 6)]
        await asyncio.sleep(0)
        for n in (0, 2):  # the first in line, and one in the middle
            waits[n].cancel()
        await asyncio.wait(waits)
        assert (await session.next_turn(f"{A}/")).ahead == 0
        await session.get(f"{A}/9")
    assert fake.log.paths() == ["/robots.txt", "/0", "/2", "/4", "/5", "/9"]
    assert fake.log.gaps() == [pytest.approx(1.0)] * 5


async def test_cancelled_while_robots_is_fetched_the_next_in_line_goes_on(
    clock: JumpClock,
) -> None:
    fake = Fake(clock, {f"{A}/robots.txt": ALLOW_ALL})
    async with fake.session as session:
        first = asyncio.create_task(session.get(f"{A}/1"))
        second = asyncio.create_task(session.get(f"{A}/2"))
        for _ in range(3):
            await asyncio.sleep(0)
        first.cancel()
        assert (await second).status == 404
    assert fake.log.paths() == ["/robots.txt", "/2"]


async def test_cancelled_on_the_wire_the_host_rests_all_the_same(clock: JumpClock) -> None:
    fake = Fake(clock, {f"{A}/robots.txt": ALLOW_ALL, f"{A}/slow": Reply(delay_s=20)})
    async with fake.session as session:
        slow = asyncio.create_task(session.get(f"{A}/slow"))
        await clock.sleep_until(clock.monotonic() + 5)
        slow.cancel()
        await session.get(f"{A}/next")
    assert fake.log.gaps() == [pytest.approx(1.0)] * 2


async def test_closing_tells_those_who_wait(clock: JumpClock) -> None:
    fake = Fake(clock, {f"{A}/robots.txt": ALLOW_ALL})
    async with fake.session as session:
        await session.get(f"{A}/0")
        waits = [asyncio.create_task(session.get(f"{A}/{n}")) for n in range(1, 4)]
        await asyncio.sleep(0)
    for error in await asyncio.gather(*waits, return_exceptions=True):
        assert isinstance(error, SessionClosed)
    with pytest.raises(SessionClosed):
        await session.get(f"{A}/9")
    assert fake.log.paths() == ["/robots.txt", "/0"]


# ---------------------------------------------------------------- what is refused


async def test_law_10_beyond_loopback_only_with_a_contact(clock: JumpClock) -> None:
    fetcher = FakeFetcher(clock, {})
    async with PoliteSession(clock=clock, fetcher=fetcher) as session:
        with pytest.raises(ConfigError, match=r"crawl\.user_agent"):
            await session.get("http://example.com/")
        assert (await session.get("http://127.0.0.1/")).status == 404
    with pytest.raises(ConfigError, match="did you mean"):
        PoliteSession(config={"politeness": {"dealy": 1}})


@pytest.mark.parametrize("url", ["example.com", "ftp://example.com/", "", "http://", "/a"])
async def test_what_is_no_url_is_refused(clock: JumpClock, url: str) -> None:
    fake = Fake(clock, {})
    async with fake.session as session:
        with pytest.raises(InvalidURL):
            await session.get(url)
    assert not fake.log


# ---------------------------------------------------------------- on the wire, and on disk


async def test_on_the_wire_it_says_who_it_is(tmp_path: Path) -> None:
    seen: list[ReceivedRequest] = []

    def page(asked: ReceivedRequest) -> Reply:
        seen.append(asked)
        return html("A")

    async with (
        LocalWeb({"a.test": {"/a": page, "/robots.txt": FORBID_P}}) as web,
        PoliteSession(user_agent=UA, config=web.config(), delay=0.01) as session,
    ):
        response = await session.get(web.url("a.test", "/a"), headers={"X-Mine": "1"})
        assert (await session.head(web.url("a.test", "/a"))).body == b""
        with pytest.raises(RobotsDisallowed):
            await session.get(web.url("a.test", "/p"))
    assert response.status == 200
    assert [asked.method for asked in seen] == ["GET", "HEAD"]
    assert seen[0].headers["User-Agent"] == UA
    assert seen[0].headers["X-Mine"] == "1"
    assert web.log.paths() == ["/robots.txt", "/a", "/a"]


async def test_private_addresses_are_refused_unless_allowed() -> None:
    async with LocalWeb({}) as web:
        config = {"network": {"resolve": {"*.test": "127.0.0.1"}}}
        async with PoliteSession(user_agent=UA, config=config) as session:
            with pytest.raises(FetchFailed) as caught:
                await session.get(web.url("a.test"))
            assert caught.value.failure.code is FailureCode.ADDRESS
            assert "network.allow does not permit" in str(caught.value)
            assert "not tried again" not in str(caught.value)
        async with PoliteSession(user_agent=UA, config=config, allow="127.0.0.0/8") as session:
            assert (await session.get(web.url("a.test"))).status == 404


async def test_clocks_and_robots_copies_survive_in_a_database(tmp_path: Path) -> None:
    db = tmp_path / "fetch.db"
    async with JumpClock() as clock:
        fetcher = FakeFetcher(clock, {f"{A}/robots.txt": text("User-agent: *\nCrawl-delay: 50\n")})

        def session() -> PoliteSession:
            return PoliteSession(user_agent=UA, db=db, clock=clock, fetcher=fetcher)

        async with session() as first:
            await first.get(f"{A}/1")
        async with session() as second:
            assert (await second.next_turn(f"{A}/2")).in_s == pytest.approx(50, abs=1)
            await second.get(f"{A}/2")
            with pytest.raises(StoreRefused):
                async with session():
                    pass
    assert fetcher.log.paths() == ["/robots.txt", "/1", "/2"]
    assert min(fetcher.log.gaps()) >= 50 - 1e-6


@pytest.mark.parametrize("robots_known", [False, True])
async def test_trouble_of_our_own_is_told_at_once_and_charged_to_no_host(
    clock: JumpClock, *, robots_known: bool
) -> None:
    """No file descriptor is left: who asks is told so, and the host may be asked again."""

    class Full(FakeFetcher):
        full = False

        async def fetch(self, request: Request) -> Answer | Failure:
            if not self.full:
                return await super().fetch(request)
            now_s = clock.monotonic()
            return Failure(
                url=request.url,
                code=FailureCode.CONNECT,
                sentence="the server was not asked: this process has too many files open",
                connected=False,
                permanent=False,
                started_s=now_s,
                ended_s=now_s,
                ours=HoldReason.DESCRIPTORS,
                contacted=False,
            )

    fetcher = Full(clock, {"http://a.test/1": html("One"), "http://a.test/2": html("Two")})
    async with PoliteSession(user_agent=UA, clock=clock, fetcher=fetcher) as session:
        if robots_known:
            assert (await session.get("http://a.test/1")).status == 200
        fetcher.full = True
        began_s = clock.monotonic()
        with pytest.raises(FetchFailed, match="too many files open"):
            await session.get("http://a.test/2")
        assert clock.monotonic() - began_s < 3
        fetcher.full = False
        await clock.sleep_until(clock.monotonic() + 3)
        assert (await session.get("http://a.test/2")).status == 200
