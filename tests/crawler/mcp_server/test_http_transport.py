"""Who may use the server over HTTP."""

from __future__ import annotations

import pytest

from crawler.mcp_server.http_transport import Guard, Message, Receive, Scope, Send

TOKEN = "0123456789abcdef-token"


async def status_of(guard_args: dict[str, object], headers: dict[str, str]) -> tuple[int, str]:
    sent: list[Message] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    guard = Guard(app, **guard_args)  # type: ignore[arg-type]
    await guard({"type": "http", "method": "POST", "headers": raw}, receive, send)
    return int(sent[0]["status"]), sent[1]["body"].decode()


OPEN: dict[str, object] = {"token": ""}
CLOSED: dict[str, object] = {"token": TOKEN}
NAMED: dict[str, object] = {"token": "", "names": ("agents.example",)}


@pytest.mark.parametrize(
    ("guard", "headers", "status"),
    [
        (OPEN, {"Host": "127.0.0.1:8711"}, 200),
        (OPEN, {"Host": "localhost:8711", "Origin": "http://localhost:3000"}, 200),
        (OPEN, {"Host": "[::1]:8711"}, 200),
        (OPEN, {"Host": "evil.example:8711"}, 421),
        (OPEN, {"Host": "127.0.0.1.evil.example"}, 421),
        (OPEN, {"Host": "localhost@evil.example"}, 421),
        (OPEN, {"Host": "evil.example@localhost/"}, 421),
        (OPEN, {"Host": ""}, 421),
        (OPEN, {}, 421),
        (OPEN, {"Host": "127.0.0.1:8711", "Origin": "https://evil.example"}, 403),
        (OPEN, {"Host": "127.0.0.1:8711", "Origin": "null"}, 403),
        (OPEN, {"Host": "127.0.0.1:8711", "Origin": "http://[::1"}, 403),
        (NAMED, {"Host": "agents.example", "Origin": "https://agents.example"}, 200),
        (NAMED, {"Host": "Agents.Example:443"}, 200),
        (NAMED, {"Host": "other.example"}, 421),
        (CLOSED, {"Host": "any.example", "Authorization": f"Bearer {TOKEN}"}, 200),
        (CLOSED, {"Host": "any.example", "Authorization": f"bearer  {TOKEN}"}, 200),
        (CLOSED, {"Host": "127.0.0.1"}, 401),
        (CLOSED, {"Host": "127.0.0.1", "Authorization": f"Basic {TOKEN}"}, 401),
        (CLOSED, {"Host": "127.0.0.1", "Authorization": "Bearer wrong"}, 401),
        (CLOSED, {"Host": "127.0.0.1", "Authorization": "Bearer \xff"}, 401),
        (
            CLOSED,
            {
                "Host": "a.example",
                "Authorization": f"Bearer {TOKEN}",
                "Origin": "https://evil.example",
            },
            403,
        ),
    ],
)
async def test_the_guard(guard: dict[str, object], headers: dict[str, str], status: int) -> None:
    found, sentence = await status_of(guard, headers)
    assert found == status
    assert (status == 200) == (sentence == "")
    assert TOKEN not in sentence
