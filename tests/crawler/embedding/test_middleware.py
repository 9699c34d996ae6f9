"""Politeness: the aiohttp middleware, against real servers and aiohttp's own ways."""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import test_utils, web
from aiohttp.abc import AbstractResolver, ResolveResult

from crawler.config import ConfigError
from crawler.embedding import middleware
from crawler.embedding.middleware import UNREAD_MAX_S, Politeness, guarded_connector
from crawler.errors import FetchFailed, ResponseUnread, RobotsDisallowed, SessionClosed
from crawler.testing import LocalWeb, ReceivedRequest, Reply, hang_up, html, redirect, text

UA = "examplebot/1.0 (+https://example.com/bot)"
DELAY_S = 0.05
FORBID_P = text("User-agent: *\nDisallow: /p\n")


class Both:
    """A middleware and a ClientSession behind it, pointed at a local web."""

    def __init__(self, web: LocalWeb, *, delay: float = DELAY_S, **client: Any) -> None:
        config = web.config(politeness={"latency_factor": 0})
        self.polite = Politeness(user_agent=UA, config=config, delay=delay)
        self._client = client

    async def __aenter__(self) -> aiohttp.ClientSession:
        await self.polite.__aenter__()
        self.session = aiohttp.ClientSession(
            middlewares=(self.polite,), connector=self.polite.connector(), **self._client
        )
        return self.session

    async def __aexit__(self, *error: object) -> None:
        await self.session.close()
        await self.polite.__aexit__(*error)


async def test_each_request_waits_its_turn_and_robots_comes_first() -> None:
    async def get(url: str) -> None:
        async with session.get(url) as response:
            await response.read()

    async with (
        LocalWeb({"a.test": {"/robots.txt": FORBID_P, "/1": html("1")}}) as web,
        Both(web) as session,
        asyncio.TaskGroup() as group,
    ):
        for n in range(4):
            group.create_task(get(web.url("a.test", f"/{n}")))
    assert web.log.paths() == ["/robots.txt", "/0", "/1", "/2", "/3"]
    assert min(web.log.gaps()) >= DELAY_S
    for entry in web.log:
        assert entry.headers["user-agent"] == UA


async def test_what_is_disallowed_is_not_asked_for() -> None:
    async with LocalWeb({"a.test": {"/robots.txt": FORBID_P}}) as web, Both(web) as session:
        with pytest.raises(RobotsDisallowed) as caught:
            await session.get(web.url("a.test", "/p?q=1"))
    assert caught.value.verdict.line == 2
    assert web.log.paths() == ["/robots.txt"]


async def test_each_hop_of_a_redirect_passes_the_gate() -> None:
    sites = {
        "a.test": {"/robots.txt": FORBID_P, "/1": redirect("/2"), "/2": redirect("/p")},
    }
    async with LocalWeb(sites) as web, Both(web) as session:
        with pytest.raises(RobotsDisallowed):
            await session.get(web.url("a.test", "/1"))
    assert web.log.paths() == ["/robots.txt", "/1", "/2"]
    assert min(web.log.gaps()) >= DELAY_S


async def test_the_hidden_second_request_is_a_contact_as_well() -> None:
    sites = {"a.test": {"/robots.txt": FORBID_P, "/1": hang_up()}}
    async with LocalWeb(sites) as web, Both(web) as session:
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await session.get(web.url("a.test", "/1"))
    assert web.log.paths() == ["/robots.txt", "/1", "/1"]
    assert min(web.log.gaps()) >= DELAY_S


async def test_a_contact_lasts_until_its_response_is_read() -> None:
    big = Reply(body=b"x" * 3_000_000, content_type="text/plain")
    async with LocalWeb({"a.test": {"/big": big}}) as web, Both(web, delay=0.0) as session:
        response = await session.get(web.url("a.test", "/big"))
        second = asyncio.create_task(session.get(web.url("a.test", "/2")))
        await asyncio.sleep(0.1)
        assert "/2" not in web.log.paths()
        assert len(await response.read()) == 3_000_000
        (await second).release()
    assert web.log.paths() == ["/robots.txt", "/big", "/2"]


@pytest.mark.parametrize("leave", ["release", "close", "forget"])
async def test_a_contact_ends_when_its_response_is_let_go(leave: str) -> None:
    big = Reply(body=b"x" * 3_000_000, content_type="text/plain")
    async with LocalWeb({"a.test": {"/big": big}}) as web, Both(web, delay=0.0) as session:
        response: aiohttp.ClientResponse | None
        response = await session.get(web.url("a.test", "/big"))
        if leave == "release":
            response.release()
        elif leave == "close":
            response.close()
        else:
            response.close()
            response = None
        async with session.get(web.url("a.test", "/2")) as second:
            assert second.status == 404


async def test_who_waits_for_himself_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "UNREAD_MAX_S", 0.1)
    big = Reply(body=b"x" * 3_000_000, content_type="text/plain")
    async with LocalWeb({"a.test": {"/big": big}}) as web, Both(web, delay=0.0) as session:
        async with session.get(web.url("a.test", "/big")) as unread:
            with pytest.raises(ResponseUnread, match=r"/big has not been read"):
                await session.get(web.url("a.test", "/2"))
            assert len(await unread.read()) == 3_000_000
        async with session.get(web.url("a.test", "/3")) as response:
            assert response.status == 404
    assert web.log.paths() == ["/robots.txt", "/big", "/3"]
    assert UNREAD_MAX_S == 60.0


async def test_who_reads_on_slowly_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "UNREAD_MAX_S", 0.15)
    slow = Reply(body=b"x" * 3_000, body_s=0.6, content_type="text/plain")
    async with LocalWeb({"a.test": {"/slow": slow}}) as web, Both(web, delay=0.0) as session:
        response = await session.get(web.url("a.test", "/slow"))
        second = asyncio.create_task(session.get(web.url("a.test", "/2")))
        assert len(await response.read()) == 3_000
        (await second).release()
    assert web.log.paths() == ["/robots.txt", "/slow", "/2"]


async def test_a_total_timeout_includes_the_wait_and_leaves_no_trace() -> None:
    async with LocalWeb({}) as web, Both(web, delay=0.3) as session:
        (await session.get(web.url("a.test", "/1"))).release()
        with pytest.raises(TimeoutError):
            await session.get(web.url("a.test", "/2"), timeout=aiohttp.ClientTimeout(total=0.05))
        timeout = aiohttp.ClientTimeout(sock_connect=0.05, sock_read=0.05)
        (await session.get(web.url("a.test", "/3"), timeout=timeout)).release()
    assert web.log.paths() == ["/robots.txt", "/1", "/3"]
    assert min(web.log.gaps()) >= 0.3


async def test_cancelling_on_the_wire_ends_the_contact() -> None:
    asked = asyncio.Event()

    async def slow(_: ReceivedRequest) -> Reply:
        asked.set()
        await asyncio.sleep(30)
        return html("late")

    async with LocalWeb({"a.test": {"/slow": slow}}) as web, Both(web) as session:
        task = asyncio.create_task(session.get(web.url("a.test", "/slow")))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (await session.get(web.url("a.test", "/2"))).release()
    assert web.log.paths() == ["/robots.txt", "/slow", "/2"]


async def test_a_refusal_rests_the_host() -> None:
    busy = Reply(status=429, headers={"Retry-After": "1"})
    async with LocalWeb({"a.test": {"/busy": busy}}) as web, Both(web) as session:
        async with session.get(web.url("a.test", "/busy")) as response:
            assert response.status == 429
        await asyncio.sleep(0.01)
        assert 0.5 < (await _polite(session).next_turn(web.url("a.test"))).in_s <= 1.0


async def test_a_host_that_cannot_be_connected_to_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("policies.retries._RETRY_FIRST_S", (0.05, 0.05, 5.0))
    async with LocalWeb({}) as web, Both(web) as session:
        with pytest.raises(FetchFailed, match="refused the connection"):
            await session.get(f"http://a.test:{web.dead_port}/")


async def test_addresses_are_judged_by_the_guarded_connector() -> None:
    async with LocalWeb({}) as web:
        config = {"network": {"resolve": {"*.test": "127.0.0.1"}}}
        async with (
            Politeness(user_agent=UA, config=config) as polite,
            aiohttp.ClientSession(middlewares=(polite,), connector=polite.connector()) as session,
        ):
            for url in (web.url("a.test"), web.url("127.0.0.1"), web.url("[::ffff:127.0.0.1]")):
                with pytest.raises(FetchFailed, match="address"):
                    await session.get(url)
        connector = guarded_connector(allow="127.0.0.0/8")
        async with aiohttp.ClientSession(connector=connector) as plain:
            async with plain.get(web.url("127.0.0.1")) as response:
                assert response.status == 404
            with pytest.raises(aiohttp.ClientConnectorError):
                await plain.get("http://192.0.2.1/")


async def test_the_requests_own_user_agent_stays() -> None:
    async with LocalWeb({}) as web, Both(web, headers={"User-Agent": "mine/2.0"}) as session:
        (await session.get(web.url("a.test", "/1"))).release()
    assert [entry.headers["user-agent"] for entry in web.log] == [UA, "mine/2.0"]


async def test_law_10_and_what_cannot_be_kept_are_refused() -> None:
    async with Politeness() as polite, aiohttp.ClientSession(middlewares=(polite,)) as session:
        with pytest.raises(ConfigError, match=r"crawl\.user_agent"):
            await session.get("http://example.com/")
    with pytest.raises(SessionClosed):
        await polite.next_turn("http://example.com/")
    with pytest.raises(ConfigError, match="PoliteSession"):
        Politeness(user_agent=UA, config={"politeness": {"per": "ip"}})


async def test_without_a_contact_resolve_counts_only_where_it_is_used() -> None:
    """A session of its own connector resolves names itself."""
    async with LocalWeb({}) as web:
        config = web.config()
        url = web.url("a.test")
        async with Politeness(config=config) as polite:
            async with aiohttp.ClientSession(middlewares=(polite,)) as session:
                with pytest.raises(ConfigError, match=r"crawl\.user_agent"):
                    await session.get(url)
            elsewhere = guarded_connector({"network": {"resolve": {"a.test": "127.0.0.7"}}})
            async with aiohttp.ClientSession(middlewares=(polite,), connector=elsewhere) as session:
                with pytest.raises(ConfigError, match=r"crawl\.user_agent"):
                    await session.get(url)
            guarded = polite.connector()
            async with aiohttp.ClientSession(middlewares=(polite,), connector=guarded) as session:
                async with session.get(url) as response:
                    assert response.status == 404
                with pytest.raises(ConfigError, match=r"crawl\.user_agent"):
                    await session.get(url, proxy="http://127.0.0.1:9/")
    assert web.log.paths() == ["/robots.txt", "/"]


class _Anywhere(AbstractResolver):
    """Has the same address for every name, and remembers who was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        return [
            ResolveResult(
                hostname=host, host="127.0.0.1", port=port, family=family, proto=0, flags=0
            )
        ]

    async def close(self) -> None:
        """Nothing is open."""


async def test_without_a_contact_robots_txt_is_fetched_from_this_machine_only() -> None:
    """Neither a redirect nor the session of another connector leads beyond it."""
    sites = {"127.0.0.1": {"/robots.txt": redirect("http://beyond.test/robots.txt")}}
    names = _Anywhere()
    async with LocalWeb(sites) as web, Politeness(config=web.config()) as polite:
        own = aiohttp.TCPConnector(resolver=names)
        async with aiohttp.ClientSession(middlewares=(polite,), connector=own) as session:
            with pytest.raises(FetchFailed, match="not on this machine"):
                await session.get(web.url("127.0.0.1"))
    assert names.asked == []


async def test_robots_txt_is_fetched_by_a_session_that_may() -> None:
    names = _Anywhere()
    async with LocalWeb({}) as web, Politeness(config=web.config(), delay=DELAY_S) as polite:
        own = aiohttp.TCPConnector(resolver=names)
        async with (
            aiohttp.ClientSession(middlewares=(polite,), connector=polite.connector()) as guarded,
            aiohttp.ClientSession(middlewares=(polite,), connector=own) as other,
        ):

            async def get(session: aiohttp.ClientSession, url: str) -> None:
                async with session.get(url) as response:
                    await response.read()

            async with asyncio.TaskGroup() as group:
                group.create_task(get(guarded, web.url("a.test")))
                group.create_task(get(other, web.url("127.0.0.1")))
    assert names.asked == []
    assert sorted(web.log.paths()) == ["/", "/", "/robots.txt", "/robots.txt"]


async def test_several_sessions_share_the_turns_of_one_politeness(tmp_path: Path) -> None:
    async with LocalWeb({}) as web:
        config = web.config(politeness={"latency_factor": 0})
        async with (
            Politeness(user_agent=UA, config=config, delay=DELAY_S, db=tmp_path / "x.db") as polite,
            aiohttp.ClientSession(middlewares=(polite,), connector=polite.connector()) as one,
            aiohttp.ClientSession(middlewares=(polite,), connector=polite.connector()) as two,
        ):
            for session in (one, two, one):
                async with session.get(web.url("a.test", "/")) as response:
                    await response.read()
    assert web.log.paths() == ["/robots.txt", "/", "/", "/"]
    assert min(web.log.gaps()) >= DELAY_S


def _polite(session: aiohttp.ClientSession) -> Politeness:
    polite = session._middlewares[0]
    assert isinstance(polite, Politeness)
    return polite


async def test_a_session_s_secrets_stay_where_its_owner_sends_them() -> None:
    """Not to a host that robots.txt redirects to, nor to the robots.txt of one that a page
    redirects to, for which aiohttp itself drops them."""
    secrets = {"Authorization": "Bearer one", "X-Api-Key": "one"}
    async with LocalWeb() as web:
        web.sites["a.test"] = {"/robots.txt": redirect(web.url("elsewhere.test", "/robots.txt"))}
        web.sites["b.test"] = {"/": redirect(web.url("evil.test"))}
        async with Both(web, headers=secrets) as session:
            for name in ("a.test", "b.test"):
                async with session.get(web.url(name)) as response:
                    await response.read()
    carried = {(entry.host, entry.path): "authorization" in entry.headers for entry in web.log}
    assert carried == {
        ("a.test", "/robots.txt"): True,
        ("elsewhere.test", "/robots.txt"): False,
        ("a.test", "/"): True,
        ("b.test", "/robots.txt"): True,
        ("b.test", "/"): True,
        ("evil.test", "/robots.txt"): False,
        ("evil.test", "/"): False,
    }
    assert not any("x-api-key" in entry.headers for entry in web.log.requests("elsewhere.test"))


async def test_whatever_aiohttp_sends_by_itself_passes_the_check_of_headers() -> None:
    async def echo(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Upgrade"):
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            await socket.send_str("hello")
            await socket.close()
            return socket
        return web.Response(text=f"{request.method} {len(await request.read())}")

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"abc"

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", echo)
    config = {"network": {"allow": ["127.0.0.0/8"]}, "politeness": {"latency_factor": 0}}
    async with (
        test_utils.TestServer(app) as server,
        Politeness(user_agent=UA, config=config, delay=0) as polite,
        aiohttp.ClientSession(middlewares=(polite,), connector=polite.connector()) as session,
    ):
        url = server.make_url("/a")
        form = aiohttp.FormData({"name": "value"})
        form.add_field("file", b"x" * 1000, filename="a.bin")
        requests: list[dict[str, Any]] = [
            {"method": "GET"},
            {"method": "POST"},
            {"method": "POST", "data": b"abc"},
            {"method": "POST", "data": pieces()},
            {"method": "POST", "data": form},
            {"method": "POST", "json": {"a": "ä" * 1000}},
            {"method": "POST", "data": b"abc" * 1000, "compress": True},
            {"method": "POST", "data": b"abc", "headers": {"Content-Length": "3"}},
            {"method": "PUT", "data": io.BytesIO(b"abc"), "chunked": True},
            {"method": "GET", "headers": {"Cookie": "a=ä", "Connection": "close"}},
        ]
        for options in requests:
            async with session.request(url=url, **options) as response:
                assert response.status == 200, options
                assert (await response.text()).startswith(str(options["method"]))
        async with session.ws_connect(url) as socket:
            assert await socket.receive_str() == "hello"
