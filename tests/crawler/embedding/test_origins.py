"""What a redirect takes along to another origin: a short list of harmless headers, and no body."""

from __future__ import annotations

import aiohttp
import pytest

from crawler.embedding.middleware import Politeness
from crawler.embedding.session import PoliteSession
from crawler.errors import InvalidRequest
from crawler.testing import FakeFetcher, JumpClock, LocalWeb, Reply, html, redirect

UA = "examplebot/1.0 (+https://example.com/bot)"
CONFIG = {"politeness": {"delay": 0.01, "latency_factor": 0}}
SECRET_NAMES = (
    "Authorization Cookie X-Api-Key X-Auth-Token X-Csrf X-Passwd X-Pin X-Signature X-Amz- "
    "Security X-Hub Private X-Access X-Credential X-Sid X-Jwt X-Otp X-Bearer X-User "
    "X-Account X-Vault X-License X-Client-Id Referer Origin If-None-Match If-Modified- "
    "Since Range X-Forwarded-For Forwarded Via X Content-Location Accept-Secret X-Accept- "
    "Language "
)
SECRETS = dict.fromkeys(SECRET_NAMES.split(), "hunter2")
HARMLESS = {"Accept": "text/html", "accept-language": "de", "Cache-Control": "no-cache", "DNT": "1"}


def session_of(clock: JumpClock, fetcher: FakeFetcher) -> PoliteSession:
    return PoliteSession(user_agent=UA, config=CONFIG, clock=clock, fetcher=fetcher)


def sent(fetcher: FakeFetcher, host: str, path: str = "/x") -> dict[str, str]:
    last = [one for one in fetcher.log.requests(host) if one.path == path][-1]
    return {name: value for name, value in last.headers.items() if name != "user-agent"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("how", ["get", "stream"])
@pytest.mark.parametrize(
    "to", ["http://b.test/x", "https://a.test/x", "http://a.test:8080/x", "http://w.a.test/x"]
)
async def test_only_harmless_headers_follow(
    clock: JumpClock, to: str, how: str, status: int
) -> None:
    fetcher = FakeFetcher(clock, {"http://a.test/": redirect(to, status=status), to: html("")})
    async with session_of(clock, fetcher) as session:
        headers = {**SECRETS, **HARMLESS}
        if how == "get":
            assert (await session.get("http://a.test/", headers=headers)).url == to
        else:
            async with session.stream("http://a.test/", headers=headers) as response:
                assert response.url == to
    found = sent(fetcher, to.split("/")[2].partition(":")[0])
    assert found == {name.lower(): value for name, value in HARMLESS.items()}
    assert sent(fetcher, "a.test", "/").keys() >= {name.lower() for name in SECRETS}


async def test_what_was_dropped_does_not_come_back(clock: JumpClock) -> None:
    answers = {
        "http://a.test/": redirect("http://b.test/"),
        "http://b.test/": redirect("http://a.test/x"),
        "http://a.test/x": html(""),
    }
    fetcher = FakeFetcher(clock, answers)
    async with session_of(clock, fetcher) as session:
        await session.get("http://a.test/", headers={**SECRETS, **HARMLESS})
    assert sent(fetcher, "a.test").keys() == {name.lower() for name in HARMLESS}


async def test_within_an_origin_everything_follows(clock: JumpClock) -> None:
    fetcher = FakeFetcher(clock, {"http://a.test/": redirect("/x"), "http://a.test/x": html("")})
    async with session_of(clock, fetcher) as session:
        await session.get("http://a.test/", headers=SECRETS)
    assert sent(fetcher, "a.test").keys() == {name.lower() for name in SECRETS}


@pytest.mark.parametrize(
    ("method", "status", "follows"),
    [
        ("POST", 301, True), ("POST", 302, True), ("POST", 303, True), ("DELETE", 303, True),
        ("POST", 307, False), ("POST", 308, False), ("PUT", 307, False), ("DELETE", 308, False),
        ("GET", 307, False), ("GET", 302, False),
    ],
)  # fmt: skip
async def test_no_body_and_no_unsafe_method_goes_to_another_origin(
    clock: JumpClock, method: str, status: int, follows: bool
) -> None:
    """The redirect is returned. Those that turn the request into a GET are followed."""
    answers = {
        "http://a.test/": redirect("http://b.test/x", status=status),
        "http://b.test/x": html(""),
    }
    fetcher = FakeFetcher(clock, answers)
    async with session_of(clock, fetcher) as session:
        response = await session.fetch("http://a.test/", method=method, body=b"secret=1")
    assert response.status == (200 if follows else status)
    assert bool(fetcher.log.requests("b.test")) == follows


async def through_middleware(web: LocalWeb, url: str, **options: object) -> None:
    async with (
        Politeness(user_agent=UA, config=web.config(**CONFIG)) as polite,
        aiohttp.ClientSession(
            middlewares=(polite,),
            connector=polite.connector(),
            headers={"X-Session": "hunter2", "Authorization": "Bearer hunter2"},
        ) as session,
    ):
        method = str(options.pop("method", "GET"))
        async with session.request(method, url, **options) as response:  # type: ignore[arg-type]
            await response.read()
        async with session.get(web.url("a.test", "/again"), headers={"X-Pin": "1"}) as response:
            await response.read()


async def test_aiohttp_s_own_redirects_take_no_more_along() -> None:
    """Neither the headers of the call, nor those and the credentials of the session; also where
    the chain leads back."""
    sites = {"a.test": {"/x": html("")}, "b.test": {}}
    async with LocalWeb(sites) as web:
        web.sites["a.test"] = {
            "/": redirect(web.url("b.test", "/")), "/x": html(""), "/again": html("")
        }  # fmt: skip
        web.sites["b.test"] = {"/": redirect(web.url("a.test", "/x"))}
        given = {name: value for name, value in SECRETS.items() if name != "Authorization"}
        await through_middleware(
            web, web.url("a.test", "/"), headers={**given, **HARMLESS}, cookies={"sid": "hunter2"}
        )
    for host, path in (("b.test", "/"), ("a.test", "/x"), ("b.test", "/robots.txt")):
        (request,) = [one for one in web.log.requests(host) if one.path == path]
        assert "hunter2" not in str(request.headers), (host, path)
        assert request.headers["user-agent"] == UA
        if path != "/robots.txt":
            assert request.headers["accept-language"] == "de"
    (again,) = [one for one in web.log.requests("a.test") if one.path == "/again"]
    assert again.headers["x-session"] == "hunter2"  # another call of the same task
    assert again.headers["x-pin"] == "1"


@pytest.mark.parametrize(("method", "status"), [("POST", 307), ("PUT", 308), ("DELETE", 307)])
async def test_aiohttp_sends_no_body_on_to_another_origin(method: str, status: int) -> None:
    async with LocalWeb({"a.test": {}, "b.test": {"/": html("")}}) as web:
        web.keep_alive = False
        web.sites["a.test"] = {"/": redirect(web.url("b.test", "/"), status=status)}
        with pytest.raises(InvalidRequest, match="another origin"):
            await through_middleware(web, web.url("a.test", "/"), method=method, data=b"secret")
    assert web.log.requests("b.test") == []


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "track"])
async def test_the_middleware_refuses_methods_that_echo(method: str) -> None:
    async with LocalWeb({"a.test": {"/": Reply(body="x")}}) as web:
        with pytest.raises(InvalidRequest, match="method"):
            await through_middleware(web, web.url("a.test", "/"), method=method)
    assert web.log.requests("a.test") == []
