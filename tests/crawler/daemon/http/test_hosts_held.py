"""The hosts of what holds the queue: those that the status counts, by the same reasons."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from crawler.testing import LocalWeb, Reply, html
from tests.crawler.daemon.conftest import Daemon, Start


@pytest.fixture
async def waiting(start: Start, town: LocalWeb) -> AsyncIterator[Daemon]:
    """Hosts that wait for different reasons, for an hour."""
    town.sites["busy.test"] = {
        "/robots.txt": Reply(status=503, headers={"Retry-After": "3600"}),
        "/": html("Busy"),
    }
    config = {"politeness": {"delay": 3600, "latency_factor": 0}}
    async with start("a.test", "b.test", "c.test", "busy.test", config=config) as made:
        await made.until(lambda status: status["in_flight"] == 0 and status["hosts"] == 4)
        await made.client.post("/api/hosts/pause", {"host": "c.test"})
        yield made


async def hosts_of(daemon: Daemon, reason: str) -> list[dict[str, Any]]:
    answer = await daemon.client.get(f"/api/hosts?reason={reason}")
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer.body["hosts"]
    return found


async def test_every_reason_leads_to_its_hosts(waiting: Daemon) -> None:
    await waiting.until(
        lambda status: (
            {one["reason"] for one in status["queue"]} >= {"delay", "paused"}
            and sum(one["hosts"] for one in status["queue"]) == 4
        )
    )
    held = (await waiting.client.get("/api/status")).body["queue"]
    for one in held:
        rows = await hosts_of(waiting, one["reason"])
        assert len(rows) == one["hosts"], one
        assert sum(row["queued"] for row in rows) == one["urls"], one
    assert [row["host"] for row in await hosts_of(waiting, "paused")] == ["c.test"]
    assert await hosts_of(waiting, "limit") == []


async def test_while_the_whole_crawl_is_paused_each_reason_still_finds_its_hosts(
    waiting: Daemon,
) -> None:
    await waiting.client.post("/api/pause")
    every = [row["host"] for row in await hosts_of(waiting, "crawl-paused")]
    assert every == ["a.test", "b.test", "busy.test", "c.test"]
    assert [row["host"] for row in await hosts_of(waiting, "paused")] == ["c.test"]
    assert await hosts_of(waiting, "crawl-held") == []


async def test_what_waits_for_the_same_is_steered_together(waiting: Daemon) -> None:
    would = await waiting.client.post("/api/hosts/resume", {"reason": "paused", "dry_run": True})
    assert would.body["names"] == ["c.test"]
    done = await waiting.client.post("/api/hosts/resume", {"reason": "paused"})
    assert done.body["names"] == ["c.test"]
    assert await hosts_of(waiting, "paused") == []


async def test_an_unknown_reason_is_refused(waiting: Daemon) -> None:
    answer = await waiting.client.get("/api/hosts?reason=tired")
    assert (answer.status, answer.body["field"]) == (422, "reason")
    assert "ready, in-flight, delay" in answer.body["detail"]
