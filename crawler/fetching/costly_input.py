"""Notices TLS connections whose records are far too small, and bounds what one read costs.

A record of one byte is 23 bytes on the wire and costs as much to decrypt as one of a kilobyte. The
event loop decrypts before the protocol receives anything, so only the socket knows what arrived.

Also limits the time that costly framing of bodies takes from everything else. A body of 1 MB in
chunks of one byte is six times as long on the wire and takes a thousand times as long to parse as
one in a single chunk. Such bodies are parsed a slice at a time, in turn, in a fixed share of the
event loop's time, and nothing more is read from their connections meanwhile.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import time
from asyncio.sslproto import SSLProtocol
from collections import deque
from typing import Any, Final, Protocol

# Bytes received that are not content. Beside it, as much as the content is allowed: records of more
# than 22 bytes are.
OVERHEAD_BYTES_MAX: Final = 64 * 1024
_CONTENT_FACTOR: Final = 1
# asyncio decrypts what one read of the socket brought without a pause, and reserves memory of its
# `max_size`, 256 KB, for each record, which takes ten times as long as decrypting a small one.
READ_BYTES: Final = 64 * 1024  # of one read: at most 3,000 records, a few milliseconds
RECORD_BYTES: Final = 16 * 1024  # RFC 8446, 5.1: no record has more content
# The socket is not asked about the first reads, which are all of most answers, nor about those that
# bring mostly content.
READS_UNASKED: Final = 2
FULL_BYTES: Final = READ_BYTES // 2

# struct tcp_info of Linux: tcpi_bytes_received, since 4.1.
_INFO_BYTES: Final = 136
_RECEIVED: Final = struct.Struct("@128xQ")
_UNREAD: Final = struct.Struct("@i")
SHARE: Final = 0.1  # of the event loop's time
PASS_S: Final = 0.001  # for which other connections and timers wait at a time
SLICE_BYTES: Final = 4_096  # at most 682 chunks, which take about as long as PASS_S
# Fewer take less time than waiting would.
COSTLY_BYTES_MIN: Final = 2 * SLICE_BYTES
# Each chunk has two line breaks, so chunks of fewer bytes have more of them. A body whose content
# has as many is parsed as fast as any other, if in more steps.
BYTES_PER_LINE: Final = 32


class TlsRecords:
    """Compares what a connection received with the content of its records."""

    __slots__ = ("_content_bytes", "_reads", "_socket")

    def __init__(self, connected: Any) -> None:
        self._socket = connected
        self._content_bytes = 0
        self._reads = 0

    def overhead_bytes(self, size: int) -> int:
        """Count decrypted bytes. Returns what was received beside the content, if that is too much;
        otherwise 0."""
        self._content_bytes += size
        self._reads += 1
        if self._reads <= READS_UNASKED or size >= FULL_BYTES:
            return 0
        overhead = self._received_bytes() - self._content_bytes
        allowed = OVERHEAD_BYTES_MAX + _CONTENT_FACTOR * self._content_bytes
        return overhead if overhead > allowed else 0

    def _received_bytes(self) -> int:
        """Bytes received and read from the socket."""
        import fcntl
        import termios

        info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
        if len(info) < _INFO_BYTES:
            return 0
        unread = fcntl.ioctl(self._socket.fileno(), termios.FIONREAD, _UNREAD.pack(0))
        received: int = _RECEIVED.unpack(info)[0]
        waiting: int = _UNREAD.unpack(unread)[0]
        return received - waiting


def bound_reads(transport: asyncio.BaseTransport) -> None:
    """Bound what asyncio decrypts at a time, if the connection is encrypted by it. (uvloop has
    buffers of its own.)"""
    protocol = getattr(transport, "_ssl_protocol", None)
    if isinstance(protocol, SSLProtocol):
        protocol.max_size = RECORD_BYTES  # type: ignore[misc]
        protocol._ssl_buffer = bytearray(READ_BYTES)  # type: ignore[attr-defined]  # noqa: SLF001
        protocol._ssl_buffer_view = memoryview(protocol._ssl_buffer)  # type: ignore[attr-defined]  # noqa: SLF001


def tls_records(transport: asyncio.BaseTransport) -> TlsRecords | None:
    """Return its TLS records; None if it is not encrypted, or this system does not count them."""
    if sys.platform != "linux" or transport.get_extra_info("ssl_object") is None:
        return None
    connected = transport.get_extra_info("socket")
    return None if connected is None else TlsRecords(connected)


class CostlyConnection(Protocol):
    def parse_slice(self) -> bool:
        """Parse SLICE_BYTES of what was received. Returns whether there is more to parse now."""
        ...


def is_costly(data: bytes) -> bool:
    """Return whether chunked data may consist of so many chunks that it takes long to parse."""
    size = len(data)
    return size >= COSTLY_BYTES_MIN and data.count(b"\n") * BYTES_PER_LINE > size


class CostlyParsing:
    """The connections that have costly data to parse."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[CostlyConnection] = deque()

    def add(self, connection: CostlyConnection) -> None:
        """Let a connection take its turns until it has nothing more to parse."""
        self._waiting.append(connection)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._pass)

    def _pass(self) -> None:
        """Let connections parse for PASS_S, in turn; wait until that was SHARE of the time."""
        began_s = time.monotonic()
        elapsed_s = 0.0
        while elapsed_s < PASS_S:
            connection = self._waiting[0]
            more = connection.parse_slice()
            self._waiting.popleft()
            if more:
                self._waiting.append(connection)
            elapsed_s = time.monotonic() - began_s
            if not self._waiting:
                return
        asyncio.get_running_loop().call_later(elapsed_s * (1 / SHARE - 1), self._pass)
