"""The log through the API, as files and on its page, of a real daemon."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crawler.config.sections import LogLevel
from crawler.daemon.monitoring.event_log import EventLog, LogFile
from tests.crawler.daemon.conftest import Daemon, Start

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    return EventLog(LogFile(tmp_path / "crawl.log"), LogLevel.INFO)


@pytest.fixture
async def logged(start: Start, log: EventLog) -> AsyncIterator[Daemon]:
    async with start("a.test", log=log) as daemon:
        await daemon.idle()
        log.event(LogLevel.WARNING, "warning", message=f"beware of {HOSTILE}", size=3)
        log.event(LogLevel.INFO, "visited", url="http://a.test/x", status=200, error=None)
        assert (await daemon.client.post("/api/hosts/pause", {"host": "a.test"})).status == 200
        assert (await daemon.client.post("/api/hosts/pause", {"host": "no.test"})).status == 404
        yield daemon
    log.file.close()


async def test_the_route(logged: Daemon) -> None:
    body = (await logged.client.get("/api/log")).body
    assert [one["event"] for one in body["lines"]] == ["refused", "steered", "visited", "warning"]
    steered = body["lines"][1]
    assert steered["level"] == "info"
    assert steered["values"] == {
        "what": "host_pause", "host": "a.test", "by": "anyone", "from": "127.0.0.1", "via": "api",
    }  # fmt: skip
    assert abs(steered["at"] - (await logged.operations.status()).at) < 60
    first = (await logged.client.get("/api/log?event=actions&limit=1")).body
    second = (await logged.client.get(f"/api/log?event=actions&after={first['after']}")).body
    assert [one["event"] for one in (*first["lines"], *second["lines"])] == ["refused", "steered"]
    assert second["after"] is None
    answer = await logged.client.get("/api/log?level=loud")
    assert (answer.status, answer.body["field"]) == (422, "level")
    assert (await logged.local.get("/api/log?level=warning")).body["written"] == 4


async def test_files(logged: Daemon) -> None:
    url = f"{logged.client.base}/log.jsonl?level=warning"
    async with logged.client.session.get(url) as response:
        assert 'filename="log.jsonl"' in response.headers["Content-Disposition"]
        lines = [json.loads(line) for line in (await response.text()).splitlines()]
    assert [one["event"] for one in lines] == ["refused", "warning"]
    assert lines[1]["values"] == {"message": f"beware of {HOSTILE}", "size": 3}
    answer = await logged.client.get("/log.csv?text=beware")
    (row,) = csv.DictReader(io.StringIO(answer.body))
    assert json.loads(row["values"]) == lines[1]["values"]
    assert (await logged.client.get("/log.csv?after=1&level=loud")).status == 422


async def test_the_page(logged: Daemon) -> None:
    page = str((await logged.client.get("/log")).body)
    assert "crawl.log" in page
    assert HOSTILE not in page
    assert "beware of &lt;script&gt;" in page
    assert 'href="/url?url=http%3A%2F%2Fa.test%2Fx"' in page
    assert 'href="/host?host=a.test"' in page
    actions = str((await logged.client.get("/log?event=actions")).body)
    assert "host_pause" in actions
    assert "beware" not in actions
    page = str((await logged.client.get("/log?text=nothing-has-this")).body)
    assert "No line matches." in page
    assert (
        await logged.client.get("/log?level=loud", headers={"Accept": "text/html"})
    ).status == 422


async def test_the_log_of_a_crawl_without_one_is_empty(daemon: Daemon) -> None:
    body = (await daemon.client.get("/api/log")).body
    assert body == {"lines": [], "after": None, "kept": 0, "written": 0}
    assert "Nothing was logged yet." in str((await daemon.client.get("/log")).body)


async def test_pages_of_the_page(start: Start, log: EventLog) -> None:
    async with start(log=log) as daemon:
        for number in range(120):
            log.event(LogLevel.INFO, "visited", url=f"http://a.test/{number}")
        page = str((await daemon.client.get("/log?text=a.test")).body)
        assert "http%3A%2F%2Fa.test%2F119" in page
        assert "http%3A%2F%2Fa.test%2F69&" not in page
        assert 'href="/log?text=a.test&amp;after=' in page
        assert "120 lines in this run" in page
    log.file.close()
