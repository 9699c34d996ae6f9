"""A database connection with a thread of its own, which runs whole functions."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, TypeVar

import aiosqlite

T = TypeVar("T")
_Request = tuple["asyncio.Future[object] | None", Callable[[], object]]

_MEMORY_WAIT_S: Final = 0.1  # until an answer that memory was lacking for is given again
_END: Final = object()  # what the last function of a connection gives


class ConnectionThread(aiosqlite.Connection):
    """One connection and its thread.

    A transaction runs in the thread as one function: it costs one round trip, and no cancellation
    can reach into it. The thread is a daemon and outlives no one's patience: a connection that
    nobody closed does not keep the interpreter from its end, nor does an event loop that closed
    before its answer came make a noise. What was committed is in the file either way.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        """Start the thread; nothing is open yet. Raises MemoryError where no thread can be had."""
        super().__init__(connect, iter_chunk_size=64)
        self._thread = threading.Thread(
            target=_work, args=(self._tx,), name="courtly-store", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError as error:  # its memory, or a limit on the number of threads
            raise MemoryError("no thread can be started") from error

    def __del__(self) -> None:
        try:
            super().__del__()  # type: ignore[no-untyped-call]
        finally:  # where warnings are errors it gets no further than its warning
            if self._running:
                self.stop()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """`work(connection)` in the thread, after all that was asked for before it."""
        result: T = await self._execute(work, self._conn)  # type: ignore[no-untyped-call]
        return result

    async def run_whole(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """As `run`, but a cancellation takes effect only after the function has returned."""
        return await finish(asyncio.ensure_future(self.run(work)))

    def stop(self) -> asyncio.Future[object] | None:
        """Close the connection and end the thread, after all that was asked for before."""
        self._running = False
        db, self._connection = self._connection, None

        def close() -> None:
            if db is not None:
                db.close()

        try:
            future = asyncio.get_running_loop().create_future()
        except RuntimeError:  # stopped from outside: nobody waits
            future = None
        self._tx.put_nowait((future, close))
        self._tx.put_nowait((None, lambda: _END))  # apart from closing, which may fail
        return future

    @classmethod
    async def open(cls, connect: Callable[[], sqlite3.Connection]) -> ConnectionThread:
        """Connect by `connect`, in the connection's thread. What it raises is raised here, and
        MemoryError where no thread can be started: `connect` is not called then.

        A cancellation is raised when connecting has ended. Whatever is raised, the connection is
        closed again and its thread has ended.
        """
        opened = cls(connect)
        connecting = asyncio.get_running_loop().create_future()
        opened._tx.put_nowait((connecting, connect))
        try:
            opened._connection = await finish(connecting)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and connecting.exception() is None:
                opened._connection = connecting.result()
            stopped = opened.stop()
            with contextlib.suppress(sqlite3.Error):  # nothing was written by it
                if stopped is not None:
                    await finish(stopped)
            opened._thread.join()  # it has given its last answer
            raise
        return opened


def _work(requests: SimpleQueue[_Request]) -> None:
    """What the thread does."""
    while True:
        future, function = requests.get()
        result: object = None
        raised: BaseException | None = None
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - it is raised where it was asked for
            raised = error
        if future is not None:
            _tell(future, result, raised)
        ended = result is _END
        del future, function, result, raised  # they would keep the connection while it waits
        if ended:
            return


def _tell(future: asyncio.Future[object], result: object, raised: BaseException | None) -> None:
    while True:
        try:
            future.get_loop().call_soon_threadsafe(_settle, future, result, raised)
        except RuntimeError:
            return  # the event loop is closed: whoever asked is gone
        except MemoryError:  # else whoever asked would wait for ever
            time.sleep(_MEMORY_WAIT_S)
        else:
            return


def _settle(future: asyncio.Future[object], result: object, raised: BaseException | None) -> None:
    if future.done():
        return
    if raised is None:
        future.set_result(result)
    else:
        future.set_exception(raised)


async def finish(task: asyncio.Future[T]) -> T:
    """Await what must not be left half done: a cancellation is raised only when it has ended."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                continue  # one is under way already, and is raised below
        if not task.cancelled():
            task.exception()  # whoever was to be told is gone
        raise
