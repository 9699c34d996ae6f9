"""The history of a crawl outlives its process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from crawler.testing import LocalWeb, html
from tests.crawler.daemon.conftest import Start
from tests.crawler.daemon.test_processes import Place


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with LocalWeb({"a.test": {"/": html("<p>a</p>")}}) as web:
        made = Place(tmp_path, web)
        made.write(crawl={"seeds": [web.url("a.test")]})
        yield made


async def history(daemon: Any) -> dict[str, Any]:
    answer = await daemon.client.get("/api/history")
    assert answer.status == 200
    found: dict[str, Any] = answer.body
    return found


def kinds(found: dict[str, Any]) -> list[str]:
    return [mark["kind"] for mark in found["marks"]]


async def test_minutes_and_marks_of_the_run_before_are_still_there(start: Start) -> None:
    async with start("a.test", "b.test") as daemon:
        await daemon.idle()
        await daemon.client.post("/api/pause")
        await daemon.client.post("/api/resume")
        await daemon.local.post("/api/pause")
        before = await history(daemon)
        assert kinds(before) == ["start", "pause", "resume", "pause"]
        assert sum(point["success"] for point in before["points"]) > 3
    async with start("c.test") as daemon:
        after = await history(daemon)
        assert kinds(after) == ["start", "pause", "resume", "pause", "stop", "start"]
        first, pause, _, second, stop, last = after["marks"]
        assert first["clean"]
        assert first["ended_at"] == stop["at"]
        assert pause["by"] == "anyone"
        assert (pause["via"], second["via"]) == ("api", "socket")
        assert (last["reason"], last["ended_at"], second["ended_at"]) == ("paused", None, None)
        assert sum(point["success"] for point in after["points"]) == sum(
            point["success"] for point in before["points"]
        )
        await daemon.client.post("/api/resume")
        await daemon.idle()
        resumed = await history(daemon)
        assert resumed["marks"][3]["ended_at"] == resumed["marks"][-1]["at"]
        assert sum(point["success"] for point in resumed["points"]) > sum(
            point["success"] for point in before["points"]
        )


async def test_a_span_in_the_past_is_empty(start: Start) -> None:
    async with start("a.test") as daemon:
        await daemon.idle()
        answer = await daemon.client.get("/api/history?from=1000&to=2000&step=60")
        assert (answer.body["from"], answer.body["to"], answer.body["step_s"]) == (1000, 2000, 60)
        assert answer.body["points"] == answer.body["marks"] == []


async def test_a_wrong_span_is_refused(start: Start) -> None:
    async with start("a.test") as daemon:
        for query in ("from=x", "from=2000&to=1000", "step=1", "step=1.5", "span=1"):
            answer = await daemon.client.get(f"/api/history?{query}")
            assert answer.status == 422, query
            assert answer.body["field"] in ("from", "step", "span")


async def test_a_kill_shows_as_a_start_without_a_stop(place: Place) -> None:
    """A start is written immediately, so that even a daemon that dies at once shows."""
    for _ in range(2):
        async with place.running() as daemon:
            await daemon.until(lambda status: status["visited"] == 1)
            daemon.process.kill()
            await daemon.process.wait()
    async with place.running() as daemon:
        found = await daemon.get("/api/history")
        assert kinds(found) == ["start", "start", "start"]
        assert [mark["clean"] for mark in found["marks"]] == [False, False, True]
        assert found["marks"][-1]["ended_at"] is None
        assert await daemon.end() == 0
