"""Server-sent events: sent as they happen, bounded, and never blocking the crawl."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp

from crawler.daemon.http.guards import HttpSettings
from crawler.daemon.monitoring.event_stream import EVENTS_PER_S_MAX, QUEUE_MAX, EventStream
from crawler.observer import Contacted
from crawler.testing import LocalWeb


async def events(response: aiohttp.ClientResponse, kind: str) -> dict[str, Any]:
    """The next event of a kind."""
    async with asyncio.timeout(20):
        name = ""
        async for raw in response.content:
            line = raw.decode().rstrip("\n")
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: ") and name == kind:
                found: dict[str, Any] = json.loads(line.removeprefix("data: "))
                return found
    raise AssertionError("the stream has ended")


async def test_events_are_sent(daemon: Any, town: LocalWeb) -> None:
    url = f"{daemon.client.base}/api/events"
    async with daemon.client.session.get(url) as response:
        assert response.content_type == "text/event-stream"
        status = await events(response, "status")
        assert (status["state"], status["visited"]) == ("idle", 6)
        await daemon.client.post("/api/seeds", {"urls": [town.url("a.test", "/two.html?x")]})
        assert (await events(response, "change"))["what"] == "seeds"
        contact = await events(response, "contact")
        assert contact["url"] == town.url("a.test", "/two.html?x")
        assert (contact["kind"], contact["status"]) == ("page", 200)
        assert (await events(response, "status"))["visited"] == 7


async def test_streams_end_with_the_daemon(daemon: Any) -> None:
    async with daemon.client.session.get(f"{daemon.client.base}/api/events") as response:
        await events(response, "status")
        daemon.operations.stream.close()
        async with asyncio.timeout(20):
            await response.content.read()


async def test_a_stream_ends_with_its_session(start: Any) -> None:
    async with start(settings=HttpSettings(token="t")) as daemon:
        here = f"http://127.0.0.1:{daemon.port}"
        done = await daemon.client.post("/login", data={"token": "t"})
        own = {"Cookie": str(done.headers["Set-Cookie"]).partition(";")[0], "Origin": here}
        async with daemon.client.session.get(f"{here}/api/events", headers=own) as response:
            await events(response, "status")
            await daemon.client.post("/logout", headers=own)
            async with asyncio.timeout(20):
                await response.content.read()


def contact(url: str = "http://a.test/") -> Contacted:
    return Contacted(
        url=url, slot="a.test", kind="page", status=200, error=None, sentence="", started_at=1.0,
        elapsed_s=0.1, latency_s=0.1, body_bytes=1, wire_bytes=1, address=None, late_s=0.0,
        next_in_s=1.0, rest_source="politeness.delay",
    )  # fmt: skip


async def test_a_listener_that_is_too_slow_is_let_go(hand: Any) -> None:
    stream = EventStream(hand)
    with stream.listening() as slow, stream.listening() as quick:
        for number in range(QUEUE_MAX + 1):
            stream.send("change", {"number": number})
            assert (await quick.next()) is not None
        assert slow.lost
        assert await slow.next() is None
        assert not quick.lost
    assert len(stream) == 0


async def test_contacts_per_second_are_limited(hand: Any) -> None:
    stream = EventStream(hand)
    with stream.listening() as listener:
        for _ in range(EVENTS_PER_S_MAX + 100):
            stream.contacted(contact())
        told = 0
        while not listener.empty:
            await listener.next()
            told += 1
        assert told == EVENTS_PER_S_MAX
        hand.advance(1.0)
        stream.contacted(contact())
        assert not listener.empty


def test_no_events_are_kept_without_listeners(hand: Any) -> None:
    stream = EventStream(hand)
    stream.contacted(contact())
    stream.send("change", {})
    assert len(stream) == 0
