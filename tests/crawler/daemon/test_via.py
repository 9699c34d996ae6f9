"""PoliteSession(via=…): the same results and exceptions as in one process, on one clock."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from crawler.config import ConfigError
from crawler.daemon.http.guards import HttpSettings
from crawler.embedding.session import PoliteSession
from crawler.errors import (
    CourtlyError,
    FetchFailed,
    InvalidRequest,
    InvalidURL,
    RobotsDisallowed,
    RobotsUnreachable,
    SessionClosed,
    TooManyRedirects,
    WaitTooLong,
)
from crawler.testing import LocalWeb, Reply, hang_up, redirect, text
from storage.store import StoreRefused

SLOW = {"politeness": {"delay": 0.3, "latency_factor": 0, "concurrency_per_host": 1}}
GOOGLE = {"robots": {"dialect": "google"}}


def way(daemon: Any, kind: str) -> str | Path:
    return f"http://127.0.0.1:{daemon.port}" if kind == "address" else daemon.database


both = pytest.mark.parametrize("kind", ["address", "database"])


@contextlib.asynccontextmanager
async def sessions(
    start: Any, town: LocalWeb, kind: str
) -> AsyncIterator[tuple[PoliteSession, PoliteSession]]:
    """A session through a crawl, and one of its own."""
    async with start("a.test", config=GOOGLE) as daemon:
        await daemon.idle()
        config = town.config(politeness={"delay": 0.02, "latency_factor": 0}, **GOOGLE)
        async with (
            PoliteSession(via=way(daemon, kind)) as through,
            PoliteSession(config=config) as own,
        ):
            yield through, own


@both
async def test_responses_are_the_same(start: Any, town: LocalWeb, kind: str) -> None:
    town.sites["a.test"] = {
        **town.sites["a.test"],  # type: ignore[dict-item]
        "/old": redirect("/one.html"),
        "/odd": Reply(
            status=404, headers=[("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")], body=b"\0\xff"
        ),
    }
    async with sessions(start, town, kind) as (through, own):
        for path in ("/old", "/odd", "/one.html?a=ü"):
            got, meant = [await one.get(town.url("a.test", path)) for one in (through, own)]
            assert (got.url, got.status, got.body) == (meant.url, meant.status, meant.body)
            assert list(got.headers.items()) == list(meant.headers.items())
            assert [(hop.url, hop.status) for hop in got.redirects] == [
                (hop.url, hop.status) for hop in meant.redirects
            ]
            assert got.elapsed_s > 0
        head = await through.head(town.url("a.test", "/one.html"))
        assert (head.status, head.body) == (200, b"")


@both
async def test_exceptions_have_the_same_attributes(start: Any, town: LocalWeb, kind: str) -> None:
    town.sites["down.test"] = {"/robots.txt": text("", status=503)}
    town.sites["loop.test"] = {"/robots.txt": text(""), "/": redirect("/")}
    town.sites["mute.test"] = {"/robots.txt": text(""), "/": hang_up()}
    async with sessions(start, town, kind) as (through, own):

        async def both_raise(kind: type[CourtlyError], url: str, **options: Any) -> tuple[Any, Any]:
            errors = []
            for session in (through, own):
                with pytest.raises(kind) as caught:
                    await session.fetch(url, **options)
                errors.append(caught.value)
            return errors[0], errors[1]

        got, meant = await both_raise(RobotsDisallowed, town.url("a.test", "/private/x"))
        assert str(got) == str(meant)
        assert (got.url, got.verdict) == (meant.url, meant.verdict)
        got, meant = await both_raise(RobotsUnreachable, town.url("down.test", "/"))
        assert (got.url, got.reason) == (meant.url, meant.reason)
        assert got.until == pytest.approx(meant.until, abs=30)
        got, meant = await both_raise(TooManyRedirects, town.url("loop.test", "/"))
        assert got.urls == meant.urls
        got, meant = await both_raise(FetchFailed, town.url("mute.test", "/"), retry=False)
        for name in ("url", "code", "sentence", "connected", "permanent", "ours", "contacted"):
            assert getattr(got.failure, name) == getattr(meant.failure, name)
        assert (got.url, got.until) == (meant.url, meant.until)
        assert str(got) == str(meant)
        got, meant = await both_raise(InvalidRequest, town.url("a.test"), method="GE T")
        assert (got.argument, str(got)) == (meant.argument, str(meant))
        await both_raise(InvalidURL, "a.test/x")
        town.sites["b.test"] = {"/robots.txt": text(""), "/": text("", status=429)}
        await through.get(town.url("b.test", "/"), retry=False)
        with pytest.raises(WaitTooLong, match="429 response") as caught:
            await through.get(town.url("b.test", "/"), max_wait_s=0.5)
        assert caught.value.url == town.url("b.test", "/")
        assert caught.value.until is not None
        assert "429" in caught.value.reason


@both
async def test_bodies_are_streamed(
    start: Any, town: LocalWeb, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    big = b"0123456789" * 300_000
    town.sites["a.test"] = {
        **town.sites["a.test"],  # type: ignore[dict-item]
        "/big": Reply(body=big, body_s=0.3),
        "/short": Reply(body=big, broken=True),
        "/old": redirect("/big"),
    }
    limited = {**GOOGLE, "fetch": {"max_body": "1MB"}}
    async with (
        start("a.test", config=limited) as daemon,
        PoliteSession(via=way(daemon, kind)) as session,
    ):
        await daemon.idle()
        async with session.stream(town.url("a.test", "/old")) as response:
            assert (response.status, response.url) == (200, town.url("a.test", "/big"))
            assert [hop.status for hop in response.redirects] == [302]
            pieces = [piece async for piece in response.chunks()]
        assert len(pieces) > 5
        assert b"".join(pieces) == big
        async with session.stream(town.url("a.test", "/big")) as response:
            async for _ in response.chunks():
                break
        async with session.stream(town.url("a.test", "/short")) as response:
            with pytest.raises(FetchFailed, match="broke off"):
                [piece async for piece in response.chunks()]
        with pytest.raises(FetchFailed, match="body"):
            await session.get(town.url("a.test", "/short"), retry=False)
        with pytest.raises(FetchFailed, match="longer than 1,000,000"):
            await session.get(town.url("a.test", "/big"))
        with pytest.raises(RobotsDisallowed):
            async with session.stream(town.url("a.test", "/private/x.html")):
                pass
        assert not daemon.opened.scheduler.frontier.permits.in_flight
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


@both
async def test_inspections(start: Any, town: LocalWeb, kind: str) -> None:
    async with sessions(start, town, kind) as (through, own):
        for session in (through, own):
            assert await session.may_fetch(town.url("a.test", "/x"))
            assert not await session.may_fetch(town.url("a.test", "/private/x"))
            assert (await session.next_turn(town.url("a.test", "/"))).ahead == 0
        got, meant = [await one.robots(town.url("a.test")) for one in (through, own)]
        assert (got.status, got.body) == (meant.status, meant.body)


@both
async def test_permits_hold_the_host_and_teach_it(start: Any, town: LocalWeb, kind: str) -> None:
    async with start("a.test", config=SLOW) as daemon:
        await daemon.idle()
        url = town.url("a.test", "/one.html")
        async with PoliteSession(via=way(daemon, kind)) as session:
            async with session.permit(url) as permit:
                assert (permit.url, permit.method) == (url, "GET")
                with pytest.raises(WaitTooLong):
                    await session.get(url, max_wait_s=0.5)
                permit.record(429, {"Retry-After": "30"})
            with pytest.raises(SessionClosed):
                permit.record(200)
            assert (await session.next_turn(url)).in_s > 25
            with pytest.raises(RobotsDisallowed):
                async with session.permit(town.url("a.test", "/private/x.html")):
                    pass


async def test_two_processes_and_the_crawl_share_a_clock(start: Any, town: LocalWeb) -> None:
    async with start("a.test", config=SLOW) as daemon:
        async with (
            PoliteSession(via=way(daemon, "address")) as one,
            PoliteSession(via=way(daemon, "database")) as two,
        ):
            await asyncio.gather(
                *(
                    session.get(town.url("a.test", f"/one.html?{session is one}{n}"))
                    for session in (one, two)
                    for n in range(2)
                )
            )
        await daemon.idle()
    assert town.log.paths("a.test").count("/robots.txt") == 1
    assert town.log.peak_concurrency("a.test") == 1
    assert min(town.log.gaps("a.test")) >= 0.29


@both
async def test_more_requests_than_there_is_room_for_wait(
    start: Any, town: LocalWeb, kind: str
) -> None:
    """Also where the end of a permit is what all of them wait for."""
    town.sites["q.test"] = {"/robots.txt": text(""), "/": text("a")}
    fast = {"politeness": {"delay": 0, "latency_factor": 0, "concurrency_per_host": 1}}
    async with start("a.test", config=fast) as daemon:
        await daemon.idle()
        urls = [town.url("q.test", f"/?{n}") for n in range(300)]
        async with PoliteSession(via=way(daemon, kind)) as session:
            async with session.permit(urls[0]):
                asking = [asyncio.create_task(session.get(url)) for url in urls]
                await asyncio.sleep(0.3)
                with pytest.raises(WaitTooLong, match="under way"):
                    await session.get(urls[0], max_wait_s=0.1)
            answers = await asyncio.gather(*asking)
        assert {answer.status for answer in answers} == {200}
    assert len(town.log.paths("q.test")) == 301


async def test_a_token_is_sent(start: Any, town: LocalWeb) -> None:
    async with start("a.test", settings=HttpSettings(token="secret")) as daemon:
        via = way(daemon, "address")
        async with PoliteSession(via=via, token="secret") as session:
            assert (await session.get(town.url("a.test", "/one.html"))).status == 200
        for token in (None, "wrong"):
            with pytest.raises(ConfigError, match="token"):
                async with PoliteSession(via=via, token=token):
                    pass


async def test_without_a_crawl_the_session_opens_the_database(
    town: LocalWeb, tmp_path: Path
) -> None:
    config = town.config(politeness={"delay": 0.02, "latency_factor": 0})
    db = tmp_path / "own.db"
    async with PoliteSession(via=db, config=config) as session:
        assert (await session.get(town.url("a.test", "/one.html"))).status == 200
        with pytest.raises(StoreRefused):  # the session that holds it has no socket
            async with PoliteSession(via=db, config=config):
                pass


async def test_the_other_side_goes_away(start: Any, town: LocalWeb) -> None:
    async with start("a.test") as daemon:
        await daemon.idle()
        via = way(daemon, "address")
        session = await PoliteSession(via=via).open()
        assert (await session.get(town.url("a.test", "/one.html"))).status == 200
        local = await PoliteSession(via=daemon.database).open()
    for one in (session, local):
        with pytest.raises(SessionClosed, match="cannot be reached"):
            await one.get(town.url("a.test", "/one.html"))
        await one.aclose()
    with pytest.raises(SessionClosed, match=r"reached \(connection refused\)"):
        async with PoliteSession(via=via):
            pass


async def test_a_database_of_a_server_is_opened_with_db() -> None:
    with pytest.raises(ConfigError, match="give it as db"):
        async with PoliteSession(via="postgresql://localhost/crawl"):
            pass


async def test_a_cancelled_call_gives_up_its_place(start: Any, town: LocalWeb) -> None:
    async with start("a.test") as daemon:
        await daemon.idle()
        await daemon.client.post("/api/hosts/pause", {"host": "a.test"})
        async with PoliteSession(via=way(daemon, "address")) as session:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await session.get(town.url("a.test", "/never"))
        async with asyncio.timeout(5):
            while daemon.opened.scheduler.frontier.callers:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert "/never" not in town.log.paths("a.test")


async def test_another_server_is_refused(town: LocalWeb) -> None:
    with pytest.raises(CourtlyError, match="not a crawl of courtly"):
        async with PoliteSession(via=town.url("a.test")[:-1].replace("a.test", "127.0.0.1")):
            pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"via": "http://127.0.0.1:1", "user_agent": "x"}, "user_agent: cannot be given with via"),
        ({"via": "http://127.0.0.1:1", "db": "a.db"}, "db: cannot be given"),
        ({"via": "a.db", "db": "b.db"}, "db: cannot be given"),
        ({"via": "a.db", "token": "x"}, "token: a database has none"),
        ({"via": 1}, "via: give the address"),
        ({"via": ""}, "via: give the address"),
        ({"token": "x"}, "via: give the address"),
        ({"via": "http://"}, "has no host"),
        ({"via": "localhost:8710"}, "write http://localhost:8710"),
        ({"via": "[::1]:8710"}, r"write http://\[::1\]:8710"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PoliteSession(**arguments)
