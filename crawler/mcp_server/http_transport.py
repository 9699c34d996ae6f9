"""Serve clients over HTTP (the transport "Streamable HTTP"), at the path /mcp.

Requests are independent: there are no sessions to keep, and each answer is one JSON document.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from crawler.clock import Clock
from crawler.front_door.calls_server import BODY_BYTES_MAX, CallsServer
from crawler.front_door.listener import accepting
from crawler.front_door.own_names import OwnNames
from crawler.front_door.tls import Certificate

PATH: Final = "/mcp"
_log = logging.getLogger("courtly.mcp")


@contextlib.asynccontextmanager
async def serving_http(
    server: Server[Any],
    sockets: Sequence[socket.socket],
    clock: Clock,
    *,
    token: str,
    names: Sequence[str] = (),
    certificate: Certificate | None = None,
) -> AsyncIterator[None]:
    """Serve while this is open. When it ends, calls in progress have a moment to be answered; the
    caller closes the sockets.

    token: "" admits every client of this machine. names: host names accepted in Host and Origin
    besides those of the loopback. With a token any Host is accepted: a page that was led here by
    DNS rebinding does not have the token.
    """
    manager = StreamableHTTPSessionManager(
        server,
        json_response=True,
        stateless=True,
        max_request_body_size=BODY_BYTES_MAX,
        # The front door checks the headers of every path, and says what is wrong.
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    calls = CallsServer(
        manager.handle_request,
        clock,
        path=PATH,
        token=token,
        names=OwnNames(names, any_host=bool(token), local_pages=True),
        log=_log,
    )
    async with (
        manager.run(),
        calls.serving() as connections,
        accepting(sockets, connections, clock, certificate=certificate, malformed=calls),
    ):
        yield
