"""A proxy in front of a server, which cuts connections where a test wants it to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Self


class Proxy:
    """Forwards connections. `cut_after` and `cut_before` name words in a request: the next request
    that contains them is the last of its connection, and is forwarded or not."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.cut_after = b""
        self.cut_before = b""
        self.delay_s = 0.0  # of each answer
        self.speaking = asyncio.Event()  # while it is not set, nothing is forwarded or closed
        self.speaking.set()
        self.refusing = False  # new connections are closed
        self.cuts = 0

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield self
        finally:
            self.cut_all()
            self._server.close()

    def cut_all(self) -> None:
        """Cut all connections."""
        for task in self._tasks:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self.refusing:
            writer.close()
            return
        self._tasks.add(task)
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._to)
        except OSError:
            writer.close()
            return
        back = asyncio.create_task(self._back(up_reader, writer))
        try:
            while data := await reader.read(65_536):
                await self.speaking.wait()
                if self.cut_before and self.cut_before in data:
                    self.cut_before, self.cuts = b"", self.cuts + 1
                    break
                cut = bool(self.cut_after) and self.cut_after in data
                if cut:
                    back.cancel()  # the answer does not arrive
                    await asyncio.wait([back])
                up_writer.write(data)
                await up_writer.drain()
                if cut:
                    self.cut_after, self.cuts = b"", self.cuts + 1
                    await up_reader.read(1)  # the server has answered
                    break
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            back.cancel()
            for one in (writer, up_writer):
                one.transport.abort()
            self._tasks.discard(task)

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                await self.speaking.wait()
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                writer.write(data)
                await writer.drain()
            writer.close()
