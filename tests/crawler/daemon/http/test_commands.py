"""Commands in the log: what was done or refused, by whom and from where."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from crawler.config.sections import LogLevel
from crawler.daemon.monitoring.event_log import EventLog, LogFile


class Logged:
    """A log, and its events about commands."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = EventLog(LogFile(path), LogLevel.INFO)

    def events(self) -> Sequence[dict[str, Any]]:
        self.log.file.close(5)
        found = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [one for one in found if one["event"] in ("steered", "refused")]


@pytest.fixture
def logged(tmp_path: Path) -> Logged:
    return Logged(tmp_path / "log.jsonl")


async def test_a_command_says_who_and_from_where(start: Any, logged: Logged) -> None:
    async with start("a.test", log=logged.log) as daemon:
        await daemon.client.post("/api/pause")
        await daemon.client.post("/crawl/resume", data={})
        await daemon.local.post("/api/hosts/pause", {"host": "a.test"})
    api, page, local = logged.events()
    assert (api["what"], api["by"], api["from"], api["via"]) == (
        "pause", "anyone", "127.0.0.1", "api",
    )  # fmt: skip
    assert (page["what"], page["from"], page["via"]) == ("resume", "127.0.0.1", "page")
    assert (local["what"], local["host"], local["via"]) == ("host_pause", "a.test", "socket")
    assert local["by"] == pwd.getpwuid(os.getuid()).pw_name
    assert local["from"] == f"process {os.getpid()}"


@pytest.mark.parametrize(
    ("path", "options", "what", "why"),
    [
        ("/api/reload", {}, "reload", "there is none to reload"),
        ("/config/reload", {"data": {}}, "reload", "there is none to reload"),
        ("/api/hosts/pause", {"json": {"host": "no.test"}}, "host_pause", "unknown host"),
        ("/host/pause", {"data": {"host": "no.test"}}, "host_pause", "unknown host"),
        ("/host/slow", {"data": {"host": "a.test", "delay_s": "x"}}, "host_slow", "not a number"),
        ("/api/hosts/slow", {"data": b"{"}, "host_slow", "must be application/json"),
        ("/api/retry", {"json": {"host": "no.test"}}, "retry", "unknown host"),
        ("/urls/retry", {"data": {"host": "no.test"}}, "retry", "unknown host"),
        ("/hosts/steer", {"data": {"command": "pause"}}, "host_steer", "at least one host"),
        ("/api/seeds", {"json": {"urls": []}}, "seeds", "at least one URL"),
        ("/seeds", {"data": {"urls": "http://x/", "priority": "x"}}, "seeds", "not a number"),
    ],
)
async def test_a_refused_command_is_logged(
    start: Any, logged: Logged, path: str, options: dict[str, Any], what: str, why: str
) -> None:
    async with start("a.test", log=logged.log) as daemon:
        assert (await daemon.client.ask("POST", path, **options)).status >= 400
    (refused,) = logged.events()
    assert (refused["event"], refused["level"], refused["what"]) == ("refused", "warning", what)
    assert why in refused["why"]
    assert (refused["by"], refused["from"]) == ("anyone", "127.0.0.1")


async def test_questions_are_no_commands(start: Any, logged: Logged) -> None:
    async with start("a.test", log=logged.log) as daemon:
        assert (await daemon.client.post("/api/reload?dry_run=1")).status == 422
        assert (await daemon.client.post("/api/robots/check", {"urls": []})).status == 422
        assert (await daemon.client.get("/api/host?host=no.test")).status == 404
    assert logged.events() == []


async def test_a_long_refusal_is_shortened(start: Any, logged: Logged) -> None:
    async with start("a.test", log=logged.log) as daemon:
        await daemon.client.post("/api/hosts/pause", {"host": f"{'x.' * 490}test"})
    (refused,) = logged.events()
    assert len(refused["why"]) <= 501
