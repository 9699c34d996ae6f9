"""Notices TLS connections whose records are far too small.

A record of one byte is 23 bytes on the wire and costs as much to decrypt as one of a kilobyte. The
event loop decrypts before the protocol receives anything, so only the socket knows what arrived.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from typing import Any, Final

# Bytes received that are not content. Beside it, three times the content is allowed: records of
# more than 7 bytes are.
OVERHEAD_BYTES_MAX: Final = 64 * 1024
_CONTENT_FACTOR: Final = 3
# The socket is not asked about the first reads, which are all of most answers, nor about those that
# bring as much as that: one read brings at most 256 KB.
READS_UNASKED: Final = 2
FULL_BYTES: Final = 64 * 1024

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


def tls_records(transport: asyncio.BaseTransport) -> TlsRecords | None:
    """None if the connection is not encrypted, or this system does not count what arrives."""
    if sys.platform != "linux" or transport.get_extra_info("ssl_object") is None:
        return None
    connected = transport.get_extra_info("socket")
    return None if connected is None else TlsRecords(connected)
