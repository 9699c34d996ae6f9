"""Serve one client over standard input and output, until it closes the input or the task is
cancelled.

The SDK's own transport reads in a thread that nothing can interrupt: a signal would be obeyed only
after the client's next message.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final, Self, cast

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

MESSAGE_BYTES_MAX: Final = 4_000_000
_log = logging.getLogger("courtly.mcp")


async def serve_stdio(server: Server[Any]) -> None:
    """Serve until end of file."""
    async with contextlib.AsyncExitStack() as stack:
        stdin = stdout = None
        if _is_stream(0):
            stdin = await stack.enter_async_context(_lines())
        if _is_stream(1):
            stdout = await stack.enter_async_context(_output())
        reads, writes = await stack.enter_async_context(
            stdio_server(
                stdin=cast("anyio.AsyncFile[str] | None", stdin),
                stdout=cast("anyio.AsyncFile[str] | None", stdout),
            )
        )
        await server.run(reads, writes, server.create_initialization_options())


def _is_stream(descriptor: int) -> bool:
    """Whether the event loop can wait for it: a pipe, socket or terminal, not a file."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


class _Lines:
    """The messages on standard input, as the SDK iterates over them."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:
                _log.warning("a message of more than %d bytes is ignored", MESSAGE_BYTES_MAX)
                continue
            if not line:
                raise StopAsyncIteration
            return line.decode("utf-8", "replace")


class _Output:
    """Standard output, as the SDK writes messages to it."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        self._writer.write(text.encode())

    async def flush(self) -> None:
        with contextlib.suppress(ConnectionError):  # the client has gone; the input ends as well
            await self._writer.drain()


@contextlib.asynccontextmanager
async def _lines() -> AsyncIterator[_Lines]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MESSAGE_BYTES_MAX, loop=loop)
    with _blocking_again(0), os.fdopen(os.dup(0), "rb", buffering=0) as file:
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader, loop=loop), file
        )
        try:
            yield _Lines(reader)
        finally:
            transport.close()


@contextlib.asynccontextmanager
async def _output() -> AsyncIterator[_Output]:
    """Meanwhile, what anything else prints goes to standard error: it would break the protocol."""
    loop = asyncio.get_running_loop()
    with _blocking_again(1), os.fdopen(os.dup(1), "wb", buffering=0) as file:
        sys.stdout.flush()
        os.dup2(2, 1)
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, file)
        try:
            yield _Output(asyncio.StreamWriter(transport, protocol, None, loop))
        finally:
            transport.close()


@contextlib.contextmanager
def _blocking_again(descriptor: int) -> Iterator[None]:
    """Restore the mode, which a terminal shares with the shell that started this process."""
    original = os.dup(descriptor)
    blocking = os.get_blocking(original)
    try:
        yield
    finally:
        os.set_blocking(original, blocking)
        os.dup2(original, descriptor)
        os.close(original)
