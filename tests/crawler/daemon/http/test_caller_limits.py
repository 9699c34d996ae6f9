"""Clients of the API do not starve each other or the crawl, and get no credentials of the crawl."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from crawler.daemon.api import caller_requests
from crawler.daemon.api.caller_limits import Limit, Room
from crawler.daemon.http.accounts import account
from crawler.daemon.http.guards import HttpSettings
from crawler.daemon.problem import Problem
from crawler.embedding.host_line import HostLine, Place
from crawler.testing import LocalWeb, ReceivedRequest, Reply, html, redirect, text
from tests.crawler.daemon.conftest import Client, Start

Handler = Callable[[ReceivedRequest], Reply | Awaitable[Reply]]
TOKENS = ("greedy", "other", "third", "fourth")
SETTINGS = HttpSettings(accounts=tuple(account(name, f"{name} token") for name in TOKENS))
LARGE_BODY, HELD_BYTES = 9_000_000, 12_000_000
SLOW = {"politeness": {"delay": 0.05, "latency_factor": 0, "concurrency_per_host": 1}}


def of_token(name: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {name} token"}}


@contextlib.asynccontextmanager
async def waiting(made: Any, url: str, count: int, *names: str) -> AsyncIterator[list[Any]]:
    """So many permit calls of each token, which wait for a host that is paused."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        client = Client(session, made.client.base)
        tasks = [
            asyncio.create_task(client.post("/api/permit", {"url": url}, **of_token(name)))
            for name in names
            for _ in range(count)
        ]
        try:
            async with asyncio.timeout(20):
                left = len(tasks)
                while made.opened.scheduler.frontier.callers != left:
                    await asyncio.sleep(0.02)
                    left = sum(not one.done() for one in tasks)
            yield [one.result() for one in tasks if one.done()]
        finally:
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_checks_that_wait_for_a_robots_txt_refuse_no_other_token(
    start: Start, town: LocalWeb
) -> None:
    came, answers = asyncio.Semaphore(0), asyncio.Event()

    async def mute(request: ReceivedRequest) -> Reply:
        if request.path == "/robots.txt":
            came.release()
            await answers.wait()
        return text("")

    town.sites["mute.test"] = mute
    url, other = town.url("mute.test", "/"), town.url("b.test", "/")
    async with start("a.test", config=SLOW, settings=SETTINGS) as made:
        await made.idle()
        checks = [
            asyncio.create_task(
                made.client.post(
                    "/api/robots/check", {"url": url, "urls": [url]}, **of_token("greedy")
                )
            )
            for _ in range(20)
        ]
        async with asyncio.timeout(20):
            await came.acquire()
            while sum(one.done() for one in checks) < 12:  # noqa: ASYNC110 - the others wait
                await asyncio.sleep(0.02)
            found = await made.client.post(
                "/api/robots/check", {"url": other, "urls": [other]}, **of_token("other")
            )
            answers.set()
            refused = [one.status for one in await asyncio.gather(*checks) if one.status != 200]
        assert found.status == 200
        assert refused == [429] * 12


@pytest.mark.parametrize("greedy", [("greedy",), ("greedy", "third", "fourth")])
async def test_waiting_calls_of_some_tokens_refuse_nobody_else(
    start: Start, town: LocalWeb, greedy: tuple[str, ...]
) -> None:
    async with start("a.test", "b.test", config=SLOW, settings=SETTINGS) as made:
        await made.idle()
        await made.local.post("/api/hosts/pause", {"host": "a.test"})
        async with waiting(
            made, town.url("a.test", "/one.html"), 180 // len(greedy), *greedy
        ) as refused:
            assert refused
            assert {one.status for one in refused} <= {429, 503}
            assert all(one.body["type"] == "/problems/busy" for one in refused)
            assert all(int(one.headers["Retry-After"]) > 0 for one in refused)
            url = town.url("b.test", "/one.html")
            for client, given in ((made.client, of_token("other")), (made.local, {})):
                for path in ("may-fetch", "next-turn", "robots/state", "fetch"):
                    async with asyncio.timeout(5):
                        answer = await client.post(f"/api/{path}", {"url": url}, **given)
                    assert answer.status == 200, (path, answer.body)
                for asked in (url, town.url("a.test", "/one.html")):
                    answer = await client.post("/api/may-fetch", {"url": asked}, **given)
                    assert answer.body == {"allowed": True}
                lent = await client.post("/api/permit", {"url": url}, **given)
                assert lent.status == 201
                path = f"/api/permit/{lent.body['id']}"
                assert (await client.ask("DELETE", path, **given)).status == 200


async def test_a_call_without_a_limit_waits_for_a_bounded_time(
    start: Start, town: LocalWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.daemon.api.caller_requests.WAIT_S_DEFAULT", 0.3)
    async with start("a.test", config=SLOW) as made:
        await made.idle()
        await made.client.post("/api/hosts/pause", {"host": "a.test"})
        for path in ("permit", "fetch"):
            async with asyncio.timeout(5):
                answer = await made.client.post(
                    f"/api/{path}", {"url": town.url("a.test", "/one.html")}
                )
            assert (answer.status, answer.body["type"]) == (503, "/problems/wait-too-long")


async def test_a_permit_that_is_renewed_for_ever_ends(
    start: Start, town: LocalWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller_requests, "LENT_S_MAX", 0.5)
    async with start("a.test", config=SLOW) as made:
        await made.idle()
        lent = await made.client.post("/api/permit", {"url": town.url("a.test", "/one.html")})
        assert 0 < lent.body["expires_in_s"] <= 0.5
        path = f"/api/permit/{lent.body['id']}"
        await made.client.post("/api/seeds", {"urls": [town.url("a.test", "/new.html")]})
        async with asyncio.timeout(5):
            while (await made.client.post(path, {})).status == 200:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await made.idle()
    assert "/new.html" in town.log.paths("a.test")


async def test_held_permits_leave_room_for_the_crawl_and_for_others(
    start: Start, town: LocalWeb
) -> None:
    """At most half of `crawl.concurrency`, and at most half of that for one token."""
    for n in range(9):
        town.sites[f"h{n}.test"] = {"/": html("")}
    config = {**SLOW, "crawl": {"concurrency": 8}}
    async with start("a.test", config=config, settings=SETTINGS) as made:
        await made.idle()

        async def lend(name: str, host: int) -> int:
            url = town.url(f"h{host}.test", "/")
            answer = await made.client.post("/api/permit", {"url": url}, **of_token(name))
            return answer.status

        assert [await lend("greedy", n) for n in range(4)] == [201, 201, 429, 429]
        assert await lend("other", 5) == 201
        url = town.url("b.test", "/one.html")
        answer = await made.client.post("/api/fetch", {"url": url}, **of_token("greedy"))
        assert answer.status == 200


async def connected_deafly(port: int) -> asyncio.StreamWriter:
    """A connection to a port of this machine that takes little of what is sent to it."""
    receiver = socket.socket()
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    receiver.setblocking(False)
    await asyncio.get_running_loop().sock_connect(receiver, ("127.0.0.1", port))
    return (await asyncio.open_connection(sock=receiver, limit=1))[1]


async def test_clients_that_read_nothing_hold_a_bounded_amount_of_bodies(
    start: Start, town: LocalWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may hold half. The others are served, and it is as well when its own have gone."""
    monkeypatch.setattr("crawler.daemon.api.caller_requests.BODIES_BYTES_MAX", 2 * HELD_BYTES)
    for n in range(3):
        town.sites[f"h{n}.test"] = {"/": Reply(body=b"x" * LARGE_BODY, content_type="text/plain")}
    async with start("a.test", config=SLOW, settings=SETTINGS) as made:
        await made.idle()
        bodies = made.operations.callers._body_memory
        deaf = [await connected_deafly(made.port) for _ in range(2)]
        for n, writer in enumerate(deaf):
            body = json.dumps({"url": town.url(f"h{n}.test", "/"), "stream": False})
            writer.write(
                f"POST /api/fetch HTTP/1.1\r\nHost: 127.0.0.1:{made.port}\r\n"
                "Authorization: Bearer greedy token\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
            )
            async with asyncio.timeout(20):
                while bodies.size_bytes < LARGE_BODY:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        fetch = {"url": town.url("h2.test", "/"), "stream": False}
        async with asyncio.timeout(20):
            answer = await made.client.post("/api/fetch", fetch, **of_token("other"))
            assert (answer.status, len(answer.body)) == (200, LARGE_BODY)
            while bodies.size_bytes > HELD_BYTES:  # noqa: ASYNC110 - until the answer's has left
                await asyncio.sleep(0.02)
            for writer in deaf:
                writer.transport.abort()
            answer = await made.client.post("/api/fetch", fetch, **of_token("greedy"))
            assert (answer.status, len(answer.body)) == (200, LARGE_BODY)
            while bodies.size_bytes:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


def test_each_client_keeps_its_share() -> None:
    room = Room(Limit(what="calls", total=10, of_one=6, share=1, reserve=3))
    with contextlib.ExitStack() as taken:
        for _ in range(6):
            taken.enter_context(room.taken("a"))
        with pytest.raises(Problem, match="which is its limit") as refused:
            room.check("a")
        assert refused.value.status == 429
        taken.enter_context(room.taken("b"))
        with pytest.raises(Problem, match="all clients together") as refused:
            room.check("b")
        assert refused.value.status == 503
        for name in "cde":
            taken.enter_context(room.taken(name))
        with pytest.raises(Problem):
            room.check("f")
    room.check("f", 6)
    assert not room._of


async def test_callers_take_turns_at_a_host() -> None:
    """One with a thousand places delays another by one; within a caller, order is kept."""
    line = HostLine(None)  # type: ignore[arg-type]
    loop = asyncio.get_running_loop()
    served = []
    for n in range(1000):
        line.join(Place(f"greedy {n}", loop.create_future(), "greedy"))
    for name in ("b", "c", "b"):
        line.join(Place(name, loop.create_future(), name))
    while line.places:
        served.append(line.places.popleft().url)
        if len(served) == 500:
            line.join(Place("late", loop.create_future(), "late"))
    assert served[:7] == ["greedy 0", "greedy 1", "b", "c", "greedy 2", "b", "greedy 3"]
    assert served.index("late") <= 502
    greedy = [one for one in served if one.startswith("greedy")]
    assert greedy == [f"greedy {n}" for n in range(1000)]


async def test_one_call_of_a_token_is_not_behind_all_of_another(
    start: Start, town: LocalWeb
) -> None:
    async with start("a.test", config=SLOW, settings=SETTINGS) as made:
        await made.idle()
        await made.local.post("/api/hosts/pause", {"host": "a.test"})
        async with waiting(made, town.url("a.test", "/one.html"), 40, "greedy"):
            url = town.url("a.test", "/two.html")
            single = asyncio.create_task(
                made.client.post("/api/fetch", {"url": url}, **of_token("other"))
            )
            await asyncio.sleep(0.1)
            turn = await made.client.post("/api/next-turn", {"url": url}, **of_token("other"))
            assert turn.body["ahead"] == 41
            gate: Any = made.opened.scheduler.loop.callers
            places = [one.url for one in gate._lines["a.test"].places]
            assert places.index(url) <= 2
            single.cancel()
            await asyncio.gather(single, return_exceptions=True)


# ---------------------------------------------------------------- credentials


def echo(request: ReceivedRequest) -> Reply:
    return Reply(
        body=f"{request.method} {dict(request.headers)}",
        content_type="text/plain",
        headers={"Set-Cookie": "sid=hunter2-from-site"},
    )


@pytest.fixture
def secrets(town: LocalWeb, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setitem(os.environ, "SITE_LOGIN", "user:hunter2")
    pages: dict[str, Reply | Handler] = {
        "/robots.txt": text(""), "/": html("Home"), "/echo": echo
    }  # fmt: skip
    town.sites["a.test"] = pages
    town.sites["b.test"] = {**pages, "/to": redirect(town.url("a.test", "/echo"))}
    origin = town.url("a.test", "/").removesuffix("/")
    return {
        "fetch": {"headers": {"X-Global": "hunter2", "Accept-Language": "de"}},
        "site": {
            "a.test": {
                "headers": {"X-Staging-Key": "hunter2", "Accept-Language": "fr"},
                "credentials": {origin: "env:SITE_LOGIN"},
                "cookies": True,
            }
        },
    }


async def echoes(made: Any, town: LocalWeb, **more: object) -> list[str]:
    found = []
    for client in (made.client, made.local):
        for host, path in (("a.test", "/echo"), ("b.test", "/to"), ("a.test", "/echo")):
            for stream in (True, False):
                sent = {"url": town.url(host, path), "stream": stream, **more}
                answer = await client.post("/api/fetch", sent)
                assert answer.status == 200, answer.body
                found.append(answer.body)
    return found


async def test_a_page_that_echoes_shows_no_credentials_of_the_crawl(
    start: Start, town: LocalWeb, secrets: dict[str, Any]
) -> None:
    """Neither directly nor through a redirect; nor cookies that the site gave before."""
    async with start("a.test", config=secrets) as made:
        await made.idle()
        for body in await echoes(made, town):
            assert "hunter2" not in body
            assert "dXNlcjpodW50ZXIy" not in body  # base64
            assert "Accept-Language" in body or "accept-language" in body
        own = {"headers": {"Cookie": "mine=1", "Authorization": "Basic mine"}}
        answer = await made.client.post("/api/fetch", {"url": town.url("a.test", "/echo"), **own})
        assert "mine=1" in answer.body
        assert made.opened.scheduler.downloader._fetcher is not None
        # the crawl itself sends them still, and has learned no cookie from the callers
        await made.client.post("/api/seeds", {"urls": [town.url("a.test", "/echo?crawl")]})
        await made.idle()
    (crawled,) = [one for one in town.log.requests("a.test") if one.path == "/echo?crawl"]
    assert crawled.headers["x-staging-key"] == "hunter2"
    assert "authorization" in crawled.headers
    assert "cookie" not in crawled.headers


async def test_a_site_may_lend_its_credentials(
    start: Start, town: LocalWeb, secrets: dict[str, Any]
) -> None:
    secrets["site"]["a.test"]["lend_credentials"] = True
    async with start("a.test", config=secrets) as made:
        await made.idle()
        answer = await made.client.post("/api/fetch", {"url": town.url("a.test", "/echo")})
        assert "X-Staging-Key" in answer.body
        assert "dXNlcjpodW50ZXIy" in answer.body
        other = await made.client.post("/api/fetch", {"url": town.url("b.test", "/echo")})
        assert "hunter2" not in other.body


async def test_methods_that_echo_or_tunnel_are_refused(daemon: Any, town: LocalWeb) -> None:
    for method in ["TRACE", "trace", " TRACE", "Trace ", "CONNECT", "TRACK"]:
        url = town.url("a.test", "/one.html")
        before = len(town.log.requests("a.test"))
        for path in ("fetch", "permit"):
            answer = await daemon.client.post(f"/api/{path}", {"url": url, "method": method})
            assert (answer.status, answer.body["argument"]) == (400, "method"), method
        assert len(town.log.requests("a.test")) == before, method


async def test_callers_do_not_widen_what_the_config_s_headers_are_for(
    start: Start, town: LocalWeb, secrets: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.daemon.api.caller_requests.QUERY_WAIT_S", 0.1)
    async with start("a.test", config=secrets) as made:
        await made.idle()
        meant = made.opened.scheduler.downloader.header_scope
        assert meant is not None
        url = "http://a.test:81/"
        for path in ("fetch", "permit"):
            await made.client.post(f"/api/{path}", {"url": url, "max_wait_s": 0.1})
        for path in ("may-fetch", "robots/state"):
            await made.client.post(f"/api/{path}", {"url": url})
        assert not meant.covers(url)
