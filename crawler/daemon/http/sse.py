"""GET /api/events: the event stream as server-sent events (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
from aiohttp import hdrs, web

from crawler.clock import Clock
from crawler.daemon.api.operations import Operations
from crawler.daemon.http.guards import Guards
from crawler.daemon.monitoring.event_stream import Listener
from crawler.front_door import connections

STATUS_EVERY_S = 1.0
WRITE_S = 20.0  # for written data to be sent; a slower listener is disconnected
RETRY_MS = 2_000  # before a browser reconnects


def events(
    operations: Operations, guards: Guards, clock: Clock
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The handler of GET /api/events.

    It sends `status` immediately and then every second, as a heartbeat as well, and `contact`,
    `change`, `gave_up` and `hold` as they happen. It ends when the listener is too slow, when its
    session ends, or when the daemon stops.
    """

    async def handle(request: web.Request) -> web.StreamResponse:
        with guards.streaming(request):
            response = web.StreamResponse(
                headers={hdrs.CONTENT_TYPE: "text/event-stream", "X-Accel-Buffering": "no"}
            )
            with operations.stream.listening() as listener, suppress(ConnectionError):
                await response.prepare(request)
                try:
                    await _write(response, f"retry: {RETRY_MS}\n\n".encode())
                    while guards.may_stay(request):
                        ends_s = clock.monotonic() + STATUS_EVERY_S
                        await _write(response, as_event("status", await operations.status()))
                        if not await _write_until(listener, response, clock, ends_s):
                            break
                except TimeoutError:
                    connections.abort(request)  # a clean end would wait for the listener
            return response

    return handle


async def _write_until(
    listener: Listener, response: web.StreamResponse, clock: Clock, ends_s: float
) -> bool:
    """Write events until `ends_s`. False: there will be no more."""
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


def as_event(kind: str, data: object) -> bytes:
    """JSON contains no line ends, so one `data:` line is enough."""
    text = json.dumps(msgspec.to_builtins(data), separators=(",", ":"), allow_nan=False)
    return f"event: {kind}\ndata: {text}\n\n".encode()
