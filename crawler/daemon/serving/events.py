"""Server-sent events: what happens, told for as long as somebody listens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from aiohttp import hdrs, web

from crawler.clock import Clock
from crawler.daemon import connections
from crawler.daemon.answering.answers import Answers
from crawler.daemon.serving.guards import Guards, peer_of
from crawler.daemon.watching.stream import Listener

STATUS_EVERY_S = 1.0
WRITE_S = 20.0  # for what was written to go out; a listener that is slower is let go
RETRY_MS = 2_000  # after which a browser comes back


def events(
    answers: Answers, guards: Guards, clock: Clock
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The handler of GET /api/events.

    `status` comes at once and then every second, which is the heartbeat as well; `contact`,
    `change`, `gave_up` and `hold` when they happen. It ends when the listener is too
    slow, when its session does, or when the daemon stops.
    """

    async def handle(request: web.Request) -> web.StreamResponse:
        peer = peer_of(request)
        guards.enter_stream(peer)
        try:
            response = web.StreamResponse(
                headers={hdrs.CONTENT_TYPE: "text/event-stream", "X-Accel-Buffering": "no"}
            )
            with answers.stream.listening() as listener, suppress(ConnectionError):
                await response.prepare(request)
                try:
                    await _write(response, f"retry: {RETRY_MS}\n\n".encode())
                    while guards.may_stay(request):
                        ends_s = clock.monotonic() + STATUS_EVERY_S
                        await _write(response, as_event("status", await answers.status()))
                        if not await _pass_on(listener, response, clock, ends_s):
                            break
                except TimeoutError:
                    connections.abort(request)  # the end of the answer would wait for it, too
            return response
        finally:
            guards.leave_stream(peer)

    return handle


async def _pass_on(
    listener: Listener, response: web.StreamResponse, clock: Clock, ends_s: float
) -> bool:
    """Write what happens until then. False: there will be no more."""
    while (left_s := ends_s - clock.monotonic()) > 0:
        try:
            async with asyncio.timeout(left_s):
                event = await listener.next()
        except TimeoutError:
            return True
        if event is None:
            return False
        await _write(response, as_event(event.kind, event.data))
    return True


async def _write(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(WRITE_S):
        await response.write(data)


def as_event(kind: str, data: Mapping[str, object]) -> bytes:
    """JSON has no line ends of its own, so one `data:` line holds it."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return f"event: {kind}\ndata: {text}\n\n".encode()
