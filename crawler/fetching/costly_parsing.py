"""Limits the time that costly framing of bodies takes from everything else.

A body of 1 MB in chunks of one byte is six times as long on the wire and takes a thousand times as
long to parse as one in a single chunk. Such bodies are parsed a slice at a time, in turn, in a
fixed share of the event loop's time, and nothing more is read from their connections meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Final, Protocol

SHARE: Final = 0.1  # of the event loop's time
PASS_S: Final = 0.001  # for which other connections and timers wait at a time
SLICE_BYTES: Final = 4_096  # at most 682 chunks, which take about as long as PASS_S
# Fewer take less time than waiting would.
COSTLY_BYTES_MIN: Final = 2 * SLICE_BYTES
# Each chunk has two line breaks, so chunks of fewer bytes have more of them. A body whose content
# has as many is parsed as fast as any other, if in more steps.
BYTES_PER_LINE: Final = 32


class CostlyConnection(Protocol):
    def parse_slice(self) -> bool:
        """Parse SLICE_BYTES of what was received. Returns whether there is more to parse now."""
        ...


def is_costly(data: bytes) -> bool:
    """Whether chunked data may consist of so many chunks that it takes long to parse."""
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
