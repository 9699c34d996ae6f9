"""Stalled connections are closed, and a flood leaves room for the operator."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import pytest

from crawler.daemon.http import application
from crawler.daemon.http.guards import STREAMS_OF_PEER_MAX, HttpSettings
from crawler.front_door import connections
from crawler.front_door.connections import CONNECTIONS_MAX

STALLED_S = 0.5
TOKEN = "correct horse battery staple"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALLED_S", STALLED_S)
    monkeypatch.setattr(connections, "CHECK_EVERY_S", STALLED_S / 5)
    monkeypatch.setattr(application, "WRITE_S", STALLED_S)


async def stalled(port: int, path: str, *, requests: int = 1, bytes_read: int = 0) -> socket.socket:
    """A connection that sends a request and stops reading the response."""
    loop = asyncio.get_running_loop()
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    made.setblocking(False)
    await loop.sock_connect(made, ("127.0.0.1", port))
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
    await loop.sock_sendall(made, head.encode() * requests)
    if bytes_read:
        await loop.sock_recv(made, bytes_read)
    return made


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


async def until(true: Any, *, within_s: float = 15.0) -> None:
    async with asyncio.timeout(within_s):
        while not true():  # noqa: ASYNC110 - sockets, in real time
            await asyncio.sleep(0.05)


async def test_stalled_listeners_are_disconnected(daemon: Any) -> None:
    """Their file descriptors are released, over several rounds with all listeners."""
    before = open_files()
    note = "x" * 20_000
    for _ in range(3):
        opened = [
            await stalled(daemon.port, "/api/events", bytes_read=100)
            for _ in range(STREAMS_OF_PEER_MAX)
        ]
        await until(lambda: len(daemon.operations.stream) == STREAMS_OF_PEER_MAX)
        async with asyncio.timeout(20):
            while len(daemon.connections):
                daemon.operations.stream.change("note", note=note)
                await asyncio.sleep(0.02)
        await until(lambda: not len(daemon.operations.stream))
        for one in opened:
            one.close()
    await until(lambda: open_files() <= before)


async def test_unread_responses_are_aborted(daemon: Any) -> None:
    before = open_files()
    opened = [
        await stalled(daemon.port, "/api/openapi.json", requests=300, bytes_read=10)
        for _ in range(5)
    ]
    await until(lambda: not len(daemon.connections))
    for one in opened:
        one.close()
    await until(lambda: open_files() <= before)


async def test_a_slow_reader_is_not_disconnected(daemon: Any) -> None:
    slow = await stalled(daemon.port, "/api/openapi.json", requests=20, bytes_read=10)
    loop = asyncio.get_running_loop()
    read = 0
    for _ in range(12):
        await asyncio.sleep(STALLED_S / 4)
        read += len(await loop.sock_recv(slow, 60_000))
    assert read
    assert len(daemon.connections) == 1
    slow.close()


async def test_listeners_that_reset_are_removed(daemon: Any) -> None:
    before = open_files()
    for _ in range(100):
        one = await stalled(daemon.port, "/api/events")
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        one.close()
    await until(lambda: not len(daemon.connections) and not len(daemon.operations.stream))
    await until(lambda: open_files() <= before)


async def test_idle_connections_leave_room_for_the_operator(start: Any) -> None:
    async with start(settings=HttpSettings(token=TOKEN)) as daemon:
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert (await daemon.client.get("/api/status", headers=bearer)).status == 200
        opened = []
        for number in range(CONNECTIONS_MAX + 40):
            opened.append(await asyncio.open_connection("127.0.0.1", daemon.port))
            opened[-1][1].write((b"GET / HTTP/1.1\r\nHost: ", b"", b"GET /api/status")[number % 3])
        assert len(daemon.connections) <= CONNECTIONS_MAX
        # The one that the operator has stays, and a new one gets in.
        assert (await daemon.client.get("/api/status", headers=bearer)).status == 200
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
        asked = f"GET /api/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}"
        writer.write(f"{asked}\r\n\r\n".encode())
        assert b" 200 " in await reader.readline()
        for _, one in [*opened, (reader, writer)]:
            one.close()
