"""Per-site settings in complete crawls: the server's log shows which requests used them."""

from __future__ import annotations

import base64
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from crawler import PoliteSession
from crawler.testing import LocalWeb, ReceivedRequest, Reply, html, redirect, text

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

FAST = {"delay": 0, "latency_factor": 0}
SECRET = "swordfish"
BASIC = "Basic " + base64.b64encode(f"bot:{SECRET}".encode()).decode()


def guarded(asked: ReceivedRequest) -> Reply:
    """A site behind a password, robots.txt included."""
    if asked.headers.get("Authorization") != BASIC:
        return Reply(status=401, headers={"WWW-Authenticate": "Basic"})
    return {
        "/": html("Home", "/leaves", "/private/", "/stays"),
        "/robots.txt": text("User-agent: *\nDisallow: /private/\n"),
        "/leaves": redirect(f"http://b.test:{asked.headers['Host'].rpartition(':')[2]}/"),
        "/stays": redirect("/inside"),
        "/inside": html("Inside"),
    }.get(asked.path, Reply(status=404))


async def test_credentials_in_a_crawl(courtly: Courtly, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COURTLY_TEST", f"bot:{SECRET}")
    async with LocalWeb({"a.test": guarded, "b.test": {"/": html("Other")}}) as web:
        web.sites["b.test"] = {
            "/": html("Other", web.url("www.a.test")),
            "/robots.txt": redirect(web.url("a.test", "/robots.txt")),
        }
        web.sites["www.a.test"] = {"/": html("WWW")}
        sources = {web.url("a.test", ""): "env:COURTLY_TEST"}
        await courtly.crawl(
            web,
            "a.test",
            politeness=FAST,
            scope={"follow": "any"},
            site={"*.a.test": {"credentials": sources}},
        )
        sent = {(entry.host, entry.path): entry.headers.get("authorization") for entry in web.log}
        assert {host for (host, _), value in sent.items() if value is None} == {
            "b.test",
            "www.a.test",
        }
        assert {value for (host, _), value in sent.items() if host == "a.test"} == {BASIC}
        assert ("a.test", "/private/") not in sent  # the file behind the password is obeyed
        assert courtly.rows("visited", "count(*)", "status = 200") == [(4,)]
    held = courtly.db.read_bytes()
    with closing(sqlite3.connect(courtly.db)) as db, db:
        held += "\n".join(db.iterdump()).encode()
    db.close()
    assert SECRET.encode() not in held
    assert BASIC.partition(" ")[2].encode() not in held


async def test_secrets_that_cannot_be_had_stop_a_crawl_before_it_starts(courtly: Courtly) -> None:
    async with LocalWeb({"a.test": {"/": html("Home")}}) as web:
        origin = web.url("a.test", "")
        fetch = {"credentials": {origin: "env:COURTLY_TEST_UNSET"}}
        async with courtly.process(web, web.url("a.test"), fetch=fetch) as process:
            _, errors = await process.communicate()
        assert process.returncode == 2
        (problem,) = errors.decode().splitlines()
        assert problem.endswith(
            f"config.toml:14: fetch.credentials: for {origin}: "
            "the environment variable COURTLY_TEST_UNSET is not set"
        )
        assert not courtly.db.exists()
        assert web.log == []


async def test_cookies_in_a_crawl(courtly: Courtly) -> None:
    def site(asked: ReceivedRequest) -> Reply:
        if asked.path == "/robots.txt":
            return text("")
        if "Cookie" not in asked.headers:
            to = asked.path if asked.path != "/" else "/start"
            return Reply(status=302, headers={"Location": to, "Set-Cookie": "id=1; Path=/"})
        return html("Home", "/x", f"http://b.test:{asked.headers['Host'].rpartition(':')[2]}/")

    async with LocalWeb({"a.test": site, "b.test": site, "c.test": site}) as web:
        await courtly.crawl(
            web,
            "a.test",
            "c.test",
            politeness=FAST,
            scope={"follow": "any"},
            site={"a.test": {"cookies": True}, "b.test": {"cookies": True}},
        )
        cookies = [
            (entry.host, entry.path, entry.headers.get("cookie"))
            for entry in web.log
            if entry.path != "/robots.txt"
        ]
    assert ("a.test", "/", None) in cookies
    assert {cookie for host, path, cookie in cookies if host == "a.test" and path != "/"} == {
        "id=1"
    }
    assert ("b.test", "/", None) in cookies
    assert {cookie for host, _, cookie in cookies if host == "c.test"} == {None}


async def test_headers_and_proxy_go_for_robots_txt_too(courtly: Courtly) -> None:
    async with LocalWeb({"a.test": {"/": html("Home")}}) as web, LocalWeb() as proxy:
        proxy.sites["a.test"] = lambda _: html("From the proxy")
        site = {"a.test": {"headers": {"X-Key": "1"}, "proxy": f"http://127.0.0.1:{proxy.port}"}}
        agent = {"user_agent": "testbot/1 (+http://a.test/)"}
        await courtly.crawl(web, "a.test", politeness=FAST, site=site, crawl=agent)
        assert web.log == []
        assert [entry.headers.get("x-key") for entry in proxy.log] == ["1", "1"]
        assert [entry.path for entry in proxy.log] == [
            web.url("a.test", "/robots.txt"),
            web.url("a.test", "/"),
        ]


async def test_credentials_in_a_session_stay_behind_at_a_redirect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COURTLY_TEST", f"bot:{SECRET}")
    async with LocalWeb({"a.test": guarded, "b.test": {"/": html("Other")}}) as web:
        sources = {web.url("a.test", ""): "env:COURTLY_TEST"}
        config = web.config(
            politeness=FAST, fetch={"credentials": sources, "headers": {"X-Key": "1"}}
        )
        async with PoliteSession(config=config) as session:
            response = await session.get(web.url("a.test", "/leaves"))
            assert (response.status, response.url) == (200, web.url("b.test"))
            assert (await session.get(web.url("a.test", "/stays"))).status == 200
        sent = {(entry.host, entry.headers.get("authorization")) for entry in web.log}
        assert sent == {("a.test", BASIC), ("b.test", None)}
        assert {entry.headers.get("x-key") for entry in web.log} == {"1"}
