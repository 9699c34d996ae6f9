"""What a token that only reads is shown, and refused."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import BaseTestServer, TestServer

from crawler.clock import RealClock
from crawler.console import add_console
from crawler.daemon.http.accounts import Role, account
from crawler.daemon.http.application import build
from crawler.daemon.http.guards import HttpSettings
from crawler.daemon.monitoring.monitor import Monitor
from tests.crawler.console.test_web import PAGES

READER, OPERATOR = "aD3fG6hJ9kL2zX5cV8bN", "kQ7vX2mZp9Rt4LsW8eYb"
ACCOUNTS = (account("alice", OPERATOR), account("grafana", READER, Role.READ))


@pytest.fixture
async def server(answers: Any) -> AsyncIterator[BaseTestServer]:
    clock = RealClock()
    app = build(answers, HttpSettings(accounts=ACCOUNTS), clock=clock)
    add_console(app, answers, Monitor(clock))
    async with TestServer(app) as server:
        yield server


@pytest.fixture
async def client(server: BaseTestServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(server.make_url("/"), headers={"Accept": "text/html"}) as made:
        yield made


async def posting_forms(client: aiohttp.ClientSession, path: str, token: str) -> list[str]:
    headers = {"Authorization": f"Bearer {token}"}
    async with client.get(path, headers=headers) as answer:
        assert answer.status == 200, path
        found = re.findall(r'<form method="post" action="([^"]*)"', await answer.text())
    return [action for action in found if action != "/logout"]


async def test_no_page_has_a_form_that_is_refused(client: aiohttp.ClientSession) -> None:
    for path in [*PAGES, "/config/reload"]:
        assert await posting_forms(client, path, READER) == []


async def test_the_tester_says_why_it_has_no_form(
    client: aiohttp.ClientSession, answers: Any
) -> None:
    assert await posting_forms(client, "/tester", OPERATOR) == ["/tester"]
    headers = {"Authorization": f"Bearer {READER}"}
    async with client.get("/tester", headers=headers) as answer:
        assert "Read-only: your token may not test a robots.txt" in await answer.text()
    fields = {"robots": "User-agent: *\nDisallow: /", "urls": "/a"}
    async with client.post("/tester", headers=headers, data=fields) as answer:
        assert answer.status == 403
    assert ("robots_check", ("/a",), None, [], "all") not in answers.asked
