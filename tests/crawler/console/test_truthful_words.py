"""What the pages, the API and `courtly why` say of hosts and URLs in every state: no contradiction,
no value of Python, and the same before and after a restart."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest

from crawler.testing import LocalWeb, Reply, html, text
from tests.crawler.daemon.conftest import ROBOTS, site

RAW = re.compile(r">\s*(None|nan)\s*<|\b(False|True)\b|[:=(] ?None\b")
WEB_PAGE = "<!DOCTYPE html>\n<html><title>Sorry</title>We have no such file</html>"


@pytest.fixture
async def town() -> Any:
    """Sites of all kinds."""
    busy = Reply(status=429, headers={"Retry-After": "900"}, body=b"")
    kinds = {
        "a.test": site("one", "two"),
        "busy.test": {"/robots.txt": ROBOTS, "/": busy},
        "page.test": {"/robots.txt": Reply(status=200, body=WEB_PAGE.encode()), "/": html("x")},
        "empty.test": {"/robots.txt": text(""), "/": html("x")},
        "norules.test": {"/robots.txt": text("Sitemap: x\n"), "/": html("x")},
        "closed.test": {"/robots.txt": Reply(status=503, body=b""), "/": html("x")},
    }
    async with LocalWeb(kinds) as made:
        yield made


FORBIDDEN = "http://private.test:81/"
DOWN = "http://127.0.0.1:9/"


async def settled(daemon: Any) -> None:
    await daemon.until(lambda status: status["failed"] >= 2 and status["in_flight"] == 0)


async def shown(daemon: Any, host: str) -> str:
    return str((await daemon.client.get(f"/host?host={host}")).body)


async def test_pages_and_sentences_in_every_state(start: Any, town: LocalWeb) -> None:
    hosts = [name for name in town.sites if name != "a.test"]
    names = {"*.test": "127.0.0.1", "private.test": "192.168.77.1"}
    config = {
        "crawl": {"user_agent": "pagebot/1.0 (+https://example.com/bot)"},
        "fetch": {"max_attempts": 1, "unreachable_for": 0},
        "network": {"allow": ["127.0.0.0/8"], "resolve": names},
    }
    async with start("a.test", *hosts, config=config) as daemon:
        await daemon.client.post("/api/seeds", {"urls": [FORBIDDEN, DOWN]})
        await settled(daemon)
        rows = (await daemon.client.get("/api/hosts")).body["hosts"]
        for row in rows:
            page = await shown(daemon, row["host"])
            assert RAW.search(page) is None, RAW.search(page)
            detail = (await daemon.client.get(f"/api/host?host={row['host']}")).body
            assert RAW.search(" ".join(detail["why"])) is None
        for url in (FORBIDDEN, DOWN, town.url("a.test"), town.url("busy.test"), "http://x.test/"):
            found = await daemon.client.get(f"/url?url={quote(url, safe='')}")
            assert RAW.search(found.body) is None

        forbidden = await shown(daemon, "private.test")
        assert "not allowed" in forbidden or 'pill calm">done' in forbidden
        assert "unreachable" not in re.sub(r"<option.*?</option>|<nav.*?</nav>", "", forbidden)
        assert "connection attempt" not in forbidden
        assert "network.allow" in forbidden
        assert "Not fetched, because the config does not allow its address" in forbidden
        assert not re.search(r"no answer|no connection", forbidden)
        asked = (await daemon.client.get("/api/host?host=private.test")).body
        assert (asked["contacts"], asked["recent_contacts"]) == (0, [])
        for route in ("/api/host?host=private.test", f"/api/url?url={quote(FORBIDDEN, safe='')}"):
            why = " ".join((await daemon.client.get(route)).body["why"])
            assert "not fetched, because the config does not allow its address" in why
            assert "no connection" not in why
        down = await shown(daemon, "127.0.0.1")
        assert "unreachable" in down
        assert "no work to do" not in down
        assert "nothing to do" not in down
        assert "connection attempt failed" in down or "no connection could be made" in down

        for host, word in (("page", "a web page"), ("empty", "empty"), ("norules", "no rules")):
            page = await shown(daemon, f"{host}.test")
            assert f">{word}</span>" in page
            assert 'pill good">active' not in page


async def test_a_restart_changes_no_reason(start: Any, town: LocalWeb) -> None:
    async with start("busy.test", "a.test") as daemon:
        await daemon.until(lambda status: status["visited"] >= 3)
        await daemon.until(lambda status: status["in_flight"] == 0)
        before = (await daemon.client.get("/api/host?host=busy.test")).body
    assert before["wait_reason"] == "backing off after a 429 response (too many requests)"
    async with start("busy.test") as daemon:
        for _ in range(2):  # on disk, and in memory
            after = (await daemon.client.get("/api/host?host=busy.test")).body
            assert after["wait_reason"] == before["wait_reason"]
            await daemon.client.post("/api/seeds", {"urls": [town.url("busy.test", "/more")]})


async def test_urls_of_other_sites_are_not_judged_by_a_sites_robots_txt(
    start: Any, town: LocalWeb
) -> None:
    async with start("a.test") as daemon:
        await daemon.idle()
        own, other = town.url("a.test", "/private/x"), town.url("busy.test", "/x")
        asked = {"url": town.url("a.test"), "urls": [own, other, "/y"]}
        found = (await daemon.client.post("/api/robots/check", asked)).body["verdicts"]
        assert [(one["allowed"], one["governed"]) for one in found] == [
            (False, True),
            (False, False),
            (True, True),
        ]
        assert found[1]["reason"].startswith("Not governed by this file, but by http://busy.test")
        form = {"url": town.url("a.test"), "urls": f"{own}\n{other}"}
        page = (await daemon.client.post("/tester", data=form)).body
        assert "not governed" in page
