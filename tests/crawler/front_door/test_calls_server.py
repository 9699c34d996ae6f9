"""Calls are shared among clients, and end with their connections."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack, closing

import pytest

from crawler.clock import RealClock
from crawler.front_door.calls_server import (
    CALLS_MAX,
    CallShares,
    CallsServer,
    Receive,
    RefusedError,
    Scope,
    Send,
)
from crawler.front_door.listener import accepting, bind
from crawler.front_door.own_names import OwnNames


def test_the_calls_of_one_client_leave_room_for_others() -> None:
    shares = CallShares()
    with ExitStack() as first, ExitStack() as others:
        for _ in range(CALLS_MAX // 2):
            first.enter_context(shares.one("192.0.2.1"))
        others.enter_context(shares.one("192.0.2.2"))
        with pytest.raises(RefusedError):  # it has its share, and there is another client
            first.enter_context(shares.one("192.0.2.1"))
        for _ in range(CALLS_MAX // 2 - 1):
            others.enter_context(shares.one("192.0.2.2"))
        with pytest.raises(RefusedError):
            others.enter_context(shares.one("192.0.2.3"))
    with ExitStack() as alone:
        for _ in range(CALLS_MAX):
            alone.enter_context(shares.one("192.0.2.1"))


async def test_a_call_whose_client_is_gone_ends() -> None:
    """Otherwise calls that wait for a host would gather, without a connection each."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    clock = RealClock()
    names, log = OwnNames(local_pages=True), logging.getLogger("test")
    server = CallsServer(app, clock, path="/call", token="", names=names, log=log)
    (bound,) = await bind("127.0.0.1", 0)
    with closing(bound):
        async with (
            asyncio.timeout(10),
            server.serving() as connections,
            accepting([bound], connections, clock),
        ):
            _, writer = await asyncio.open_connection(*bound.getsockname())
            writer.write(b"POST /call HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
            await begun.wait()
            writer.close()
            await ended.wait()
