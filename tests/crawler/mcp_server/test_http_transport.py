"""Who may use the server over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import asynccontextmanager, closing

import aiohttp
import pytest

from crawler.clock import RealClock
from crawler.front_door.listener import bind
from crawler.front_door.rate_limit import FAILURES
from crawler.mcp_server.http_transport import PATH, serving_http
from tests.crawler.mcp_server.conftest import HELLO, Agent

TOKEN = "0123456789abcdef-token"


@asynccontextmanager
async def served(agent: Agent, *, token: str = "", names: tuple[str, ...] = ()):
    """Yields a function that posts with headers, and returns status and body."""
    (bound,) = await bind("127.0.0.1", 0)
    with closing(bound):
        port = bound.getsockname()[1]
        async with (
            serving_http(agent.server, [bound], RealClock(), token=token, names=names),
            aiohttp.ClientSession() as session,
        ):

            async def post(headers: Mapping[str, str]) -> tuple[int, str]:
                url = f"http://127.0.0.1:{port}{PATH}"
                accepts = {"Accept": "application/json, text/event-stream"}
                given = {**accepts, **headers}
                async with session.post(url, json=HELLO, headers=given) as answer:
                    return answer.status, await answer.text()

            yield post


@pytest.mark.parametrize(
    ("kind", "headers", "status"),
    [
        ("open", {"Host": "127.0.0.1:8711"}, 200),
        ("open", {"Host": "localhost:8711", "Origin": "http://localhost:3000"}, 200),
        ("open", {"Host": "localhost.:8711"}, 200),
        ("open", {"Host": "evil.example:8711"}, 403),
        ("open", {"Host": "127.0.0.1.evil.example"}, 403),
        ("open", {"Host": "localhost@evil.example"}, 403),
        ("open", {"Host": "evil.example@localhost/"}, 403),
        ("open", {"Host": ""}, 403),
        ("open", {"Host": "127.0.0.1:8711", "Origin": "https://evil.example"}, 403),
        ("open", {"Host": "127.0.0.1:8711", "Origin": "null"}, 403),
        ("open", {"Host": "127.0.0.1:8711", "Origin": "http://[::1"}, 403),
        ("named", {"Host": "agents.example", "Origin": "https://agents.example"}, 200),
        ("named", {"Host": "Agents.Example:443"}, 200),
        ("named", {"Host": "other.example"}, 403),
        ("closed", {"Host": "any.example", "Authorization": f"Bearer {TOKEN}"}, 200),
        ("closed", {"Host": "any.example", "Authorization": f"bearer  {TOKEN}"}, 200),
        ("closed", {"Host": "127.0.0.1"}, 401),
        ("closed", {"Host": "127.0.0.1", "Authorization": f"Basic {TOKEN}"}, 401),
        ("closed", {"Host": "127.0.0.1", "Authorization": "Bearer wrong"}, 401),
        ("closed", {"Host": "127.0.0.1", "Authorization": "Bearer \xff"}, 401),
        (
            "closed",
            {
                "Host": "a.example",
                "Authorization": f"Bearer {TOKEN}",
                "Origin": "https://a.example",
            },
            403,
        ),
    ],
)
async def test_who_is_admitted(
    agent: Agent, kind: str, headers: dict[str, str], status: int
) -> None:
    token = TOKEN if kind == "closed" else ""
    names = ("agents.example",) if kind == "named" else ()
    async with served(agent, token=token, names=names) as post:
        found, body = await post(headers)
    assert found == status
    assert (status == 200) == ("serverInfo" in body)
    assert TOKEN not in body


async def test_guesses_of_the_token_are_limited_and_lock_nobody_out(agent: Agent) -> None:
    async with served(agent, token=TOKEN) as post:
        answers = [(await post({"Authorization": "Bearer wrong"}))[0] for _ in range(FAILURES + 3)]
        assert answers[:FAILURES] == [401] * FAILURES
        assert answers[-1] == 429
        assert (await post({"Authorization": f"Bearer {TOKEN}"}))[0] == 200
