"""A connection of a reader, with a thread of its own, opened at the first use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from storage.engine.connection_thread import Closeable, ConnectionThread
from storage.store_errors import StoreError
from storage.thread_work import finish
from storage.transient_faults import words_of

C = TypeVar("C", bound=Closeable)


class LazyThread(Generic[C]):
    """Opens a connection when it is first needed, and again after `close`."""

    def __init__(self, name: str, connect: Callable[[], C]) -> None:
        """name: of the database, for messages."""
        self._name = name
        self._connect = connect
        self._thread: ConnectionThread[C] | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> ConnectionThread[C]:
        """Return the open connection. Raises StoreError, and what `connect` raises."""
        async with self._opening:
            if self._thread is None:
                await finish(asyncio.ensure_future(self._open()))
            assert self._thread is not None
            return self._thread

    async def _open(self) -> None:
        self._thread = await open_thread(self._name, self._connect)

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            await thread.close()


async def open_thread(name: str, connect: Callable[[], C]) -> ConnectionThread[C]:
    """Call `connect` in a new thread. Raises StoreError, and what it raises."""
    try:
        return await ConnectionThread.open(connect)
    except MemoryError as error:
        raise StoreError(f"{name} cannot be used: {words_of(error)}") from error
