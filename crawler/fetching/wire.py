"""The connections. aiohttp reads HTTP and keeps them; what it leaves unbounded is bounded by the
protocol class here, which it is made to use: bytes of header, interim answers, bytes unasked for.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import weakref
from collections.abc import Callable
from typing import Any, Final

from aiohttp import ClientConnectionResetError, TCPConnector
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler

from crawler.fetching.exchange import Exchange, current_exchange
from crawler.fetching.guard import AddrInfo, socket_guard
from policies.address import AddressRules

# Content-Security-Policy values of over 8 KiB are common.
FIELD_BYTES_MAX: Final = 64 * 1024
FIELDS_MAX: Final = 256
# RFC 9110 15.2 allows any number of 1xx answers before the final one; nobody needs more than two.
INTERIM_MAX: Final = 16


class HeadTooLargeError(Exception):
    """The header passed its bound."""


class TrailerTooLargeError(HeadTooLargeError):
    """A body's framing, its trailer before all, passed the same bound without a byte of body."""


class TooManyInterimsError(Exception):
    """More than INTERIM_MAX answers of the 1xx kind."""


class Sockets:
    """The connections that are open. Beyond `kept_max` none is kept for another request, so that
    the idle ones of many hosts do not use up the process's file descriptors."""

    __slots__ = ("kept_max", "open")

    def __init__(self, kept_max: int) -> None:
        # Weak: a tunnel's first protocol hands its socket to the second without a word.
        self.open: weakref.WeakSet[Wire] = weakref.WeakSet()
        self.kept_max = kept_max

    def retire(self) -> None:
        """No request will begin on them: close those that are idle now, the others after theirs."""
        self.kept_max = 0
        for wire in tuple(self.open):
            if wire.idle:
                wire.close()


class Wire(ResponseHandler):
    """aiohttp's end of a connection, counted."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sockets: Sockets) -> None:
        super().__init__(loop)
        self.exchange: Exchange | None = None
        self.address: str | None = None
        self.idle = False  # it has been used; before that, who opened it is about to
        self._sockets = sockets

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._sockets.open.add(self)
        peer = transport.get_extra_info("peername")
        self.address = peer[0] if peer else None

    def connection_lost(self, exc: BaseException | None) -> None:
        self._sockets.open.discard(self)
        exchange = self.exchange
        if exchange is not None and exc is not None:
            # A body that ends with the connection has ended well only if the connection has.
            payload = exchange.payload
            exchange.reset = True
            exchange.broken = payload is not None and not payload.is_eof()
        super().connection_lost(exc)

    def set_response_params(self, **params: Any) -> None:
        super().set_response_params(**params)
        exchange = current_exchange()
        if exchange is None:
            return
        self.exchange = exchange
        self.idle = False
        exchange.sending(self)
        if not exchange.keep or len(self._sockets.open) > self._sockets.kept_max:
            self.force_close()
        if len(self):
            # An answer before the request: whatever it answers, it is not this.
            self._buffer.clear()
            self._lose(ClientConnectionResetError())

    def rest(self) -> None:
        """Until the next exchange. aiohttp makes a parser for each answer; the last one would keep
        the header of its answer meanwhile: 8 KB of memory for each idle connection."""
        self.exchange = None
        self.idle = True
        if self._payload is None or self._payload.is_eof():  # else it tells that it cannot go on
            self._parser = self._payload = None
        if not self._sockets.kept_max:
            self.close()

    def data_received(self, data: bytes) -> None:
        exchange = self.exchange
        if exchange is None:
            if data and self.transport is not None:
                # Nothing was asked: it would be taken for the answer to the next request.
                self.transport.abort()
            return
        exchange.received += len(data)
        if exchange.payload is not None:
            super().data_received(data)
            exchange.arrived()
            if exchange.unfed_bytes(len(data)) > exchange.limits.head_bytes_max:
                self._lose(TrailerTooLargeError())
            return
        head_left = exchange.limits.head_bytes_max - exchange.received + len(data)
        # Header and body apart: aiohttp drops the answer with its header when what follows in the
        # same bytes is broken, or is more than was announced.
        for _ in range(INTERIM_MAX + 1):
            if not exchange.waiting() or (end := data.find(b"\r\n\r\n") + 4) < 4:
                break
            head_left -= end
            if head_left < 0:
                self._lose(HeadTooLargeError())
                return
            head = data[:end]
            exchange.ascii = exchange.ascii and head.isascii()
            super().data_received(head)
            data = data[end:]
            if not data or self.exception() is not None:
                exchange.arrived()
                return
        if exchange.waiting():
            exchange.ascii = exchange.ascii and data.isascii()
        super().data_received(data)
        exchange.arrived()
        if len(data) > head_left and exchange.waiting():
            self._lose(HeadTooLargeError())

    def resume_reading(self, resume_parser: bool = True) -> None:
        """aiohttp asks for it at every piece that is read and at the end of every body, and has the
        parser look at no data for it; but what was not held back need not be resumed."""
        if self._reading_paused or self._buffer_paused:
            super().resume_reading(resume_parser)

    def _pause_transport_reading(self) -> None:
        super()._pause_transport_reading()
        if self.exchange is not None:
            self.exchange.hold()

    def _resume_transport_reading(self) -> None:
        super()._resume_transport_reading()
        if self.exchange is not None:
            self.exchange.read_on()

    def set_exception(self, exc: BaseException, exc_cause: BaseException | None = None) -> None:
        if exc_cause is not None and exc_cause is not exc:
            exc.__cause__ = exc_cause
        super().set_exception(exc)
        exchange = self.exchange
        payload = None if exchange is None else exchange.payload
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            # aiohttp tells the reader of the body about a lost connection, but not about broken
            # chunking, for which it would wait for ever.
            payload.set_exception(exc)

    def feed_data(self, data: Any, size: int = 0) -> None:
        exchange = self.exchange
        if exchange is not None:
            message, payload = data
            if 100 <= message.code < 200 and message.code != 101:
                exchange.interims += 1
                if exchange.interims > INTERIM_MAX:
                    if exchange.interims == INTERIM_MAX + 1:
                        self._lose(TooManyInterimsError())
                    return
            else:
                exchange.head_complete(payload)
        super().feed_data(data, size)

    def _lose(self, exc: Exception) -> None:
        self.set_exception(exc)
        if self.transport is not None:
            self.transport.abort()


class Connector(TCPConnector):
    """A TCPConnector whose connections are Wires and whose sockets are judged."""

    def __init__(
        self,
        *,
        addresses: AddressRules,
        resolver: AbstractResolver,
        sockets: Sockets,
        keepalive_s: float,
    ) -> None:
        super().__init__(
            limit=0,  # the crawl counts what is in flight
            keepalive_timeout=keepalive_s,
            resolver=resolver,
            use_dns_cache=False,  # the resolver keeps its own, by host and not by port
            # Not a method: a connector that refers to itself stays, with all that its resolver
            # remembers, until the garbage collector looks at old objects, which is hardly ever.
            socket_factory=functools.partial(_make_socket, socket_guard(addresses)),
        )
        make: Callable[..., ResponseHandler] = Wire
        self._factory = functools.partial(make, self._loop, sockets)


def _make_socket(guard: Callable[[AddrInfo], socket.socket], info: AddrInfo) -> socket.socket:
    exchange = current_exchange()
    if exchange is None:
        return guard(info)
    # A proxy is set by hand: its own address is not judged.
    made = socket.socket(*info[:3]) if exchange.proxied else guard(info)
    exchange.contacting(made)
    return made
