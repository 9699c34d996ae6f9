"""What the API says of one host: its next URLs, and what its robots.txt does and did."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crawler.testing import LocalWeb, Reply, html, text
from policies.robots_state import RobotsState
from tests.crawler.daemon.conftest import Daemon, Start


async def next_urls(daemon: Daemon, host: str) -> list[dict[str, Any]]:
    answer = await daemon.client.get(f"/api/host?host={host}")
    found: list[dict[str, Any]] = answer.body["next_urls"]
    return found


async def test_the_next_urls_come_with_their_times(start: Start, town: LocalWeb) -> None:
    town.sites["a.test"] = {
        "/robots.txt": text("User-agent: *\nCrawl-delay: 100\n"),
        "/": html("A"),
    }
    async with start("a.test") as daemon:
        urls = [town.url("a.test", f"/{number}") for number in range(30)]
        await daemon.client.post("/api/seeds", {"urls": urls})
        await daemon.until(
            lambda status: status["hosts_by_state"].get("waiting") == 1 and not status["in_flight"]
        )
        found = await next_urls(daemon, "a.test")
        assert len(found) == 20
        host = (await daemon.client.get("/api/host?host=a.test")).body
        times = [one["at"] for one in found]
        assert times[0] == pytest.approx(host["now"]["next_at"], abs=1.0)
        assert times[1] - times[0] == pytest.approx(100.0)
        assert times == sorted(times)
        prefetched = daemon.opened.control.host_urls("a.test")
        assert prefetched is not None
        urls = [one.url for one in prefetched.next]
        assert urls
        assert [one["url"] for one in found][: len(urls)] == urls[:20]
        assert len({one["url"] for one in found}) == 20
        await daemon.client.post("/api/hosts/pause", {"host": "a.test"})
        assert {one["at"] for one in await next_urls(daemon, "a.test")} == {None}


async def test_forbidden_urls_are_not_among_the_next(start: Start, town: LocalWeb) -> None:
    """Neither those in memory nor those on disk, however many there are."""
    town.sites["a.test"] = {
        "/robots.txt": text("User-agent: *\nCrawl-delay: 1000\nDisallow: /no\n"),
        "/": html("A"),
    }
    async with start("a.test") as daemon:
        forbidden = [town.url("a.test", f"/no/{number}") for number in range(200)]
        urls = [*forbidden, town.url("a.test", "/yes")]
        await daemon.client.post("/api/seeds", {"urls": urls})
        found = [{"url": forbidden[0]}]
        async with asyncio.timeout(20):  # until the robots.txt is known
            while not found or any(one["url"] in forbidden for one in found):
                await asyncio.sleep(0.05)
                found = await next_urls(daemon, "a.test")
        assert urls[-1] in [one["url"] for one in found]


async def test_a_retry_says_until_when_and_why(start: Start, town: LocalWeb) -> None:
    town.sites["a.test"] = {"/": html("A", "/bad"), "/bad": Reply(status=500)}
    config = {"fetch": {"max_attempts": 5}}
    async with start("a.test", config=config) as daemon:
        retry: dict[str, Any] = {"attempts": 0}
        async with asyncio.timeout(20):
            while not (retry["attempts"] and retry["waits_for"] == "retry"):
                await asyncio.sleep(0.05)
                retry = next(iter(await next_urls(daemon, "a.test")), retry)
        assert "500" in retry["error"]
        assert retry["at"] >= retry["due_at"] > 0


async def test_a_host_without_queued_urls_has_none(daemon: Daemon) -> None:
    assert await next_urls(daemon, "a.test") == []


async def test_lines_that_allow_urls_are_found_by_a_sample(start: Start, town: LocalWeb) -> None:
    town.sites["a.test"] = {
        "/robots.txt": text("User-agent: *\nDisallow: /x/\nAllow: /x/open\n"),
        "/": html("A", "/x/open/1", "/x/open/2", "/x/shut", "/y"),
        **{f"/x/open/{number}": html("open") for number in (1, 2)},
        "/y": html("y"),
    }
    async with start("a.test") as daemon:
        await daemon.idle()
        origin = town.url("a.test").rstrip("/")
        body = (await daemon.client.get("/api/robots", params={"origin": origin})).body
        assert [(one["blocked"], one["allowed"]) for one in body["lines"][:3]] == [
            (0, 0), (1, 0), (0, 2),
        ]  # fmt: skip
        assert body["sampled"] >= 4
        assert body["change"] is None


async def test_a_robots_txt_is_compared_with_the_copy_before(
    daemon: Daemon, town: LocalWeb
) -> None:
    origin = town.url("a.test").rstrip("/")
    store, session = daemon.opened.store, daemon.opened.scheduler.crawl.session

    async def put(body: bytes | None, at: float) -> dict[str, Any]:
        state = RobotsState(status=200 if body else 404, body=body, copy_at=at, fetched_at=at)
        await store.robots_put(session, "a.test", origin, state)
        answer = await daemon.client.get("/api/robots", params={"origin": origin})
        found: dict[str, Any] = answer.body
        return found

    await put(b"User-agent: *\nDisallow: /a\nDisallow: /b\n", 100.0)
    change = (await put(b"User-agent: *\nDisallow: /a\nAllow: /b\n", 200.0))["change"]
    assert (change["changed_at"], change["copy_at"]) == (200.0, 100.0)
    assert (change["added"], change["removed"]) == (1, 1)
    assert "\n-Disallow: /b\n+Allow: /b" in change["diff"]
    assert (change["ordered"], change["cut"]) == (True, False)
    gone = await put(None, 300.0)
    assert gone["lines"] == []
    assert gone["change"]["changed_at"] == 300.0
    assert gone["change"]["added"] == 0
