"""The connection pool: aiohttp's connector with a protocol class that limits what aiohttp does not:
the bytes of a header, interim answers, and bytes that no request asked for.
"""

from __future__ import annotations

import asyncio
import functools
import re
import socket
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from aiohttp import ClientConnectionResetError, TCPConnector
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler

from crawler.fetching.costly_input import (
    SLICE_BYTES,
    CostlyParsing,
    TlsRecords,
    bound_reads,
    is_costly,
    tls_records,
)
from crawler.fetching.exchange import Exchange, LeaseExpiredError, current_exchange
from crawler.fetching.guard import AddrInfo, socket_guard
from crawler.fetching.request import NetworkError
from policies.address import AddressRules
from policies.retries import FailureCode

# Content-Security-Policy values of over 8 KiB are common.
FIELD_BYTES_MAX: Final = 64 * 1024
FIELDS_MAX: Final = 256
# Continuation lines of fields (RFC 9112, 5.2), obsolete since 2014. The parser copies a field for
# each of its lines.
FOLDS_MAX: Final = 256
_FOLD: Final = re.compile(rb"\n[ \t]")
# RFC 9110, 15.2 allows any number of 1xx answers before the final one.
INTERIM_MAX: Final = 16
# Of a chunked body: what is not body. Beside it, half as much as the body is allowed, which is
# enough for chunks of 10 bytes.
FRAMING_BYTES_MAX: Final = 512 * 1024


class LimitError(Exception):
    """An answer went beyond a limit on what aiohttp leaves unbounded."""

    def __init__(self, code: FailureCode, sentence: str) -> None:
        super().__init__(sentence)
        self.error = NetworkError(code, sentence)


class OpenConnections:
    """The open connections.

    While there are more than `kept_max`, none is kept for another request, so that idle ones of
    many hosts do not use up the process's file descriptors.
    """

    __slots__ = ("costly", "kept_max", "open")

    def __init__(self, kept_max: int) -> None:
        # Weak: the first protocol of a tunnel passes its socket to the second without notice.
        self.open: weakref.WeakSet[PooledConnection] = weakref.WeakSet()
        self.kept_max = kept_max
        self.costly = CostlyParsing()

    def retire(self) -> None:
        """Close the idle connections now and the others after their requests."""
        self.kept_max = 0
        for connection in tuple(self.open):
            if connection.idle:
                connection.close()


class PooledConnection(ResponseHandler):
    """The protocol of one connection of the pool."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connections: OpenConnections) -> None:
        super().__init__(loop)
        self.exchange: Exchange | None = None
        self.address: str | None = None
        self.idle = False  # True between requests; a new connection is about to be used
        self._connections = connections
        self._slices: deque[bytes] = deque()  # received, and not parsed yet
        self._parses_slices = False  # they wait for their turns
        self._records: TlsRecords | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connections.open.add(self)
        bound_reads(transport)
        self._records = tls_records(transport)
        peer = transport.get_extra_info("peername")
        self.address = peer[0] if peer else None

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.open.discard(self)
        exchange = self.exchange
        if exchange is not None and exc is not None:
            # A body that ends with the connection is complete only if the connection ended well.
            payload = exchange.payload
            exchange.reset = True
            exchange.broken = payload is not None and not payload.is_eof()
        if exchange is not None and self._slices:
            data = b"".join(self._slices)  # no more than one read
            self._slices.clear()
            self._parse_body(data, exchange)
        super().connection_lost(exc)

    def set_response_params(self, **params: Any) -> None:
        super().set_response_params(**params)
        exchange = current_exchange()
        if exchange is None:
            return
        self.exchange = exchange
        self.idle = False
        if exchange.expires():
            self._lose(LeaseExpiredError())
            return
        exchange.sending(self)
        if not exchange.keep or len(self._connections.open) > self._connections.kept_max:
            self.force_close()
        if len(self):
            # An answer that came before the request cannot belong to it.
            self._buffer.clear()
            self._lose(ClientConnectionResetError())

    def finish_exchange(self) -> None:
        """The connection is idle until the next exchange.

        The parser of the last answer is dropped, because it keeps the header: 8 KB of memory.
        """
        self.exchange = None
        self.idle = True
        self._slices.clear()
        if self._payload is None or self._payload.is_eof():  # else it cannot be reused
            self._parser = self._payload = None
        if not self._connections.kept_max:
            self.close()

    def data_received(self, data: bytes) -> None:
        exchange = self.exchange
        if exchange is None:
            if data and self.transport is not None:
                # Without a request, it would be taken for the answer to the next one.
                self.transport.abort()
            return
        exchange.received += len(data)
        if self._records is not None and (overhead := self._records.overhead_bytes(len(data))):
            sentence = f"TLS records so small that {overhead:,} bytes are not content"
            self._lose(LimitError(FailureCode.TOO_LARGE, sentence))
            return
        if exchange.payload is not None:
            self._receive_body(data, exchange)
            return
        head_left = exchange.limits.head_bytes_max - exchange.received + len(data)
        # Header and body are fed separately: aiohttp drops an answer together with its header if
        # what follows in the same bytes is broken or longer than announced.
        for _ in range(INTERIM_MAX + 1):
            if not exchange.waiting() or (end := data.find(b"\r\n\r\n") + 4) < 4:
                break
            head_left -= end
            if head_left < 0:
                self._exceed("the response header", exchange.limits.head_bytes_max)
                return
            head = data[:end]
            if _FOLD.search(head) and self._folds_too_often(head, exchange):
                return
            exchange.ascii = exchange.ascii and head.isascii()
            super().data_received(head)
            data = data[end:]
            if not data or self.exception() is not None:
                exchange.arrived()
                return
        if not exchange.waiting():
            self._receive_body(data, exchange)
            return
        if _FOLD.search(data) and self._folds_too_often(data, exchange):
            return
        exchange.ascii = exchange.ascii and data.isascii()
        super().data_received(data)
        exchange.arrived()
        if len(data) > head_left and exchange.waiting():
            self._exceed("the response header", exchange.limits.head_bytes_max)

    def _folds_too_often(self, head: bytes, exchange: Exchange) -> bool:
        """Lose the connection if this part of a header has too many folded fields."""
        exchange.folds += len(_FOLD.findall(head))
        if exchange.folds > FOLDS_MAX:
            sentence = f"the response header has more than {FOLDS_MAX} continuation lines"
            self._lose(LimitError(FailureCode.TOO_LARGE, sentence))
        return exchange.folds > FOLDS_MAX

    def _receive_body(self, data: bytes, exchange: Exchange) -> None:
        if not (self._slices or (exchange.chunked and is_costly(data))):
            self._parse_body(data, exchange)
            return
        if not data:  # the parser may continue with what it has
            super().data_received(data)
            return
        self.force_close()
        self._slices.extend(data[at : at + SLICE_BYTES] for at in range(0, len(data), SLICE_BYTES))
        if not self._buffer_paused:
            self._pause_reading_for_buffer()
        self._parse_slices()

    def _parse_slices(self) -> None:
        if self._slices and not self._parses_slices:
            self._parses_slices = True
            self._connections.costly.add(self)

    def parse_slice(self) -> bool:
        """See `CostlyConnection.parse_slice`."""
        exchange = self.exchange
        if exchange is None or self.transport is None or self.exception() is not None:
            self._slices.clear()
        elif not self._reading_paused:
            self._parse_body(self._slices.popleft(), exchange)
            if self._slices:
                return True
            self._resume_reading_for_buffer()
        self._parses_slices = False
        return False

    def _parse_body(self, data: bytes, exchange: Exchange) -> None:
        super().data_received(data)
        exchange.arrived()
        exchange.parsed(len(data))
        if exchange.unfed_bytes > exchange.limits.head_bytes_max:
            self._exceed("the body's trailer", exchange.limits.head_bytes_max)
        elif (
            exchange.framing_bytes > FRAMING_BYTES_MAX
            and exchange.chunked
            and exchange.framing_bytes - FRAMING_BYTES_MAX > exchange.fed_bytes / 2
        ):
            sentence = f"chunks so small that {exchange.framing_bytes:,} bytes are not content"
            self._lose(LimitError(FailureCode.TOO_LARGE, sentence))

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Do nothing unless reading is paused. aiohttp calls this for every piece that is read and
        at the end of every body, and each call costs a pass of the parser over no data."""
        if self._reading_paused or (self._buffer_paused and not self._slices):
            super().resume_reading(resume_parser)
            self._parse_slices()

    def _pause_transport_reading(self) -> None:
        super()._pause_transport_reading()
        # The time in which an answer waits because it is costly to parse is charged to it.
        if self.exchange is not None and not self._buffer_paused:
            self.exchange.stop_clock()

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
            # aiohttp reports a lost connection to the reader of the body, but not broken chunking:
            # the reader would wait forever.
            payload.set_exception(exc)

    def feed_data(self, data: Any, size: int = 0) -> None:
        exchange = self.exchange
        if exchange is not None:
            message, payload = data
            if 100 <= message.code < 200 and message.code != 101:
                exchange.interims += 1
                if exchange.interims > INTERIM_MAX:
                    if exchange.interims == INTERIM_MAX + 1:
                        sentence = f"more than {INTERIM_MAX} interim (1xx) responses"
                        self._lose(LimitError(FailureCode.PROTOCOL, sentence))
                    return
            else:
                exchange.head_complete(payload, chunked=message.chunked)
        super().feed_data(data, size)

    def _exceed(self, part: str, bytes_max: int) -> None:
        sentence = f"{part} is longer than {bytes_max:,} bytes"
        self._lose(LimitError(FailureCode.TOO_LARGE, sentence))

    def _lose(self, exc: Exception) -> None:
        self.set_exception(exc)
        if self.transport is not None:
            self.transport.abort()


class Connector(TCPConnector):
    """A TCPConnector of PooledConnections, which checks the address of each socket."""

    def __init__(
        self,
        *,
        addresses: AddressRules,
        resolver: AbstractResolver,
        connections: OpenConnections,
        keepalive_s: float,
    ) -> None:
        super().__init__(
            limit=0,  # the crawl limits its requests in flight
            keepalive_timeout=keepalive_s,
            resolver=resolver,
            use_dns_cache=False,  # the resolver has its own, by host instead of host and port
            # Not a method: a connector that refers to itself stays in memory, together with the
            # cache of its resolver, until a full garbage collection, which is rare.
            socket_factory=functools.partial(_make_socket, socket_guard(addresses)),
        )
        make: Callable[..., ResponseHandler] = PooledConnection
        self._factory = functools.partial(make, self._loop, connections)


def _make_socket(guard: Callable[[AddrInfo], socket.socket], info: AddrInfo) -> socket.socket:
    exchange = current_exchange()
    if exchange is None:
        return guard(info)
    if exchange.expires():
        raise LeaseExpiredError
    # A proxy is configured explicitly: its own address is not checked.
    made = socket.socket(*info[:3]) if exchange.proxied else guard(info)
    exchange.contacting(made)
    return made
