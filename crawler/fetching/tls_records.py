"""Notices TLS connections whose records are far too small, and bounds what one read costs.

A record of one byte is 23 bytes on the wire and costs as much to decrypt as one of a kilobyte. The
event loop decrypts before the protocol receives anything, so only the socket knows what arrived.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from asyncio.sslproto import SSLProtocol
from typing import Any, Final

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
    """None if the connection is not encrypted, or this system does not count what arrives."""
    if sys.platform != "linux" or transport.get_extra_info("ssl_object") is None:
        return None
    connected = transport.get_extra_info("socket")
    return None if connected is None else TlsRecords(connected)
