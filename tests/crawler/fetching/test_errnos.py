"""Every error of the system at every call of a fetch: a Failure, never an exception, and charged to
nobody where it can only be trouble of our own."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from crawler.clock import RealClock
from crawler.fetching import guard
from crawler.fetching.fetcher import AiohttpFetcher
from crawler.fetching.local_errors import LOCAL, OURS
from crawler.fetching.request import Failure, Request
from policies.holds import HoldReason
from tests.crawler.conftest import GivenDns, Serve, fetcher_config

ERRNOS = sorted(set(errno.errorcode) - {errno.EINPROGRESS, errno.EAGAIN, errno.EINTR})
OTHERS = (errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.EIO)
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CALLS = ("socket", "connect", "send", "recv")


class Failing(AbstractResolver):
    """One that raises what it is given."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def resolve(self, *_: Any, **__: Any) -> list[ResolveResult]:
        raise self._error

    async def close(self) -> None: ...


def faulty(call: str, number: int) -> Callable[..., socket.socket]:
    """In the place of `socket.socket`."""

    def fail(*_: object, **__: object) -> Any:
        raise OSError(number, "a fault")

    class Faulty(socket.socket):
        pass

    if call == "socket":
        return fail
    setattr(Faulty, call, fail)
    return Faulty


def fetcher(system: Callable[[], AbstractResolver] | None = None) -> AiohttpFetcher:
    return AiohttpFetcher(
        fetcher_config(), RealClock(), resolver=GivenDns(system, RealClock()) if system else None
    )


@pytest.mark.parametrize("call", CALLS)
async def test_every_errno_of_a_connection(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    server = await serve(ANSWER)
    numbers = ERRNOS if call in ("socket", "connect") else [*OURS, *LOCAL, *OTHERS]
    for number in numbers:
        async with fetcher() as fetching:
            with monkeypatch.context() as patch:
                patch.setattr(guard.socket, "socket", faulty(call, number))
                result = await fetching.fetch(Request(url=server.url()))
            name = errno.errorcode[number]
            assert isinstance(result, Failure), name
            if number in OURS:
                assert result.ours is OURS[number], (name, result)
            else:
                assert result.ours is None, (name, result)
                assert result.local == (number in LOCAL), (name, result)
            assert result.contacted == (call != "socket"), (name, result)
            answer = await fetching.fetch(Request(url=server.url()))  # the fault is over
            assert not isinstance(answer, Failure), (name, answer)
        await asyncio.sleep(0)  # the connection that failed is closed


async def test_every_error_of_a_lookup() -> None:
    names = {getattr(socket, name) for name in dir(socket) if name.startswith("EAI_")}
    errors: list[tuple[BaseException, HoldReason | None, bool]] = [
        (
            socket.gaierror(code, "a fault"),
            HoldReason.PORTS if code in (socket.EAI_MEMORY, socket.EAI_SYSTEM) else None,
            code == socket.EAI_AGAIN,
        )
        for code in names
    ]
    errors += [(OSError(number, "a fault"), OURS.get(number), number in LOCAL) for number in ERRNOS]
    for code in range(1, 30):  # as aiohttp passes on those of c-ares
        error = OSError(None, "a fault")
        error.__cause__ = Exception(code, "a fault")
        errors.append((error, HoldReason.PORTS if code in (14, 15) else None, code in (11, 12)))
    for error, ours, local in errors:
        given = error
        async with fetcher(lambda given=given: Failing(given)) as fetching:  # type: ignore[misc]
            result = await fetching.fetch(Request(url="http://a.test/"))
        assert isinstance(result, Failure), error
        assert (result.ours, result.local) == (ours, local), (error, result)
        assert not result.connected
        assert not result.contacted
