"""A database connection with a thread of its own, which runs whole functions."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Final, Generic, Protocol, TypeVar

import aiosqlite

from storage import thread_work
from storage.engine.statements import Statements, Values
from storage.store_errors import StoreError
from storage.thread_work import finish
from storage.transient_faults import words_of

T = TypeVar("T")
C = TypeVar("C", bound="Closeable")
_Request = tuple["asyncio.Future[object] | None", Callable[[], object]]

_MEMORY_WAIT_S: Final = 0.1  # before delivering a result again after a MemoryError
_END: Final = object()  # the result of the last function


class Closeable(Protocol):
    def close(self) -> None: ...


class ConnectionThread(aiosqlite.Connection, Generic[C]):
    """One connection, of whatever kind, and its thread.

    A transaction runs in the thread as one function, so it costs one round trip, and no
    cancellation can interrupt it. The thread is a daemon: a connection that was not closed does
    not prevent the interpreter from exiting, and an event loop that was closed before the answer
    causes no error.
    """

    def __init__(self, connect: Callable[[], C]) -> None:
        """Start the thread. Raises MemoryError if that fails; nothing is open yet."""
        super().__init__(connect, iter_chunk_size=64)  # type: ignore[arg-type]
        self._thread = threading.Thread(
            target=_work, args=(self._tx,), name="courtly-store", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError as error:  # no memory for it, or too many threads
            raise MemoryError("no thread can be started") from error

    def __del__(self) -> None:
        try:
            super().__del__()  # type: ignore[no-untyped-call]
        finally:  # the warning in it may be an error
            if self._running:
                self.stop()

    async def run(self, work: Callable[[C], T]) -> T:
        """Return `work(connection)`, run in the thread after all earlier calls."""
        result: T = await self._execute(work, self._conn)
        return result

    async def _execute(self, fn: Callable[..., T], *args: object, **kwargs: object) -> T:
        """Run a function as aiosqlite does, but in a way that a clock of tests can see."""
        if not self._running or not self._connection:
            raise ValueError("Connection closed")
        future = thread_work.begin()
        self._tx.put_nowait((future, partial(fn, *args, **kwargs)))
        result: T = await future
        return result

    async def run_whole(self, work: Callable[[C], T]) -> T:
        """Run a function as `run` does, but let a cancellation take effect only after it has
        returned."""
        return await finish(asyncio.ensure_future(self.run(work)))

    def stop(self) -> asyncio.Future[object] | None:
        """Close the connection and end the thread, after all earlier calls."""
        self._running = False
        db, self._connection = self._connection, None

        def close() -> None:
            if db is not None:
                db.close()

        try:
            future = thread_work.begin()
        except RuntimeError:  # outside of the event loop: nobody waits
            future = None
        self._tx.put_nowait((future, close))
        self._tx.put_nowait((None, lambda: _END))  # separate, because closing may fail
        return future

    @classmethod
    async def open(cls, connect: Callable[[], C]) -> ConnectionThread[C]:
        """Call `connect` in a new thread. Raises what it raises, and MemoryError if no thread can
        be started. A cancellation takes effect when connecting has ended. After any exception the
        connection is closed and the thread has ended.
        """
        opened = cls(connect)
        connecting = thread_work.begin()
        opened._tx.put_nowait((connecting, connect))
        try:
            opened._connection = await finish(connecting)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and connecting.exception() is None:
                opened._connection = connecting.result()
            stopped = opened.stop()
            with contextlib.suppress(Exception):  # nothing was written by it
                if stopped is not None:
                    await finish(stopped)
            opened._thread.join()  # it has given its last answer
            raise
        return opened


def _work(requests: SimpleQueue[_Request]) -> None:
    """The loop of the thread."""
    while True:
        future, function = requests.get()
        result: object = None
        raised: BaseException | None = None
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - it is raised to the caller
            raised = error
        if future is not None:
            _tell(future, result, raised)
        ended = result is _END
        del future, function, result, raised  # do not keep the connection alive while waiting
        if ended:
            return


def _tell(future: asyncio.Future[object], result: object, raised: BaseException | None) -> None:
    while True:
        try:
            future.get_loop().call_soon_threadsafe(_settle, future, result, raised)
        except RuntimeError:
            return  # the event loop is closed, and the caller gone
        except MemoryError:  # otherwise the caller would wait forever
            time.sleep(_MEMORY_WAIT_S)
        else:
            return


def _settle(future: asyncio.Future[object], result: object, raised: BaseException | None) -> None:
    thread_work.end(future)
    if future.done():
        return
    if raised is None:
        future.set_result(result)
    else:
        future.set_exception(raised)


async def open_thread(name: str, connect: Callable[[], C]) -> ConnectionThread[C]:
    """Call `connect` in a new thread. Raises StoreError, and what it raises."""
    try:
        return await ConnectionThread.open(connect)
    except MemoryError as error:
        raise StoreError(f"{name} cannot be used: {words_of(error)}") from error


class ReadConnection(Protocol):
    """A connection that changes nothing. Its methods raise StoreRefused and StoreError."""

    def read(self, work: Callable[[Statements], T]) -> T:
        """Return `work(statements)`, maybe at the second attempt."""

    def close(self) -> None: ...


class ReportRows(Protocol):
    """The rows of a report. They are in a temporary file: it reads whole tables beside a crawl, and
    no transaction must be open while a caller reads them."""

    def read(self) -> Sequence[Values]:
        """Return the next rows; none at the end. Raises StoreError."""

    def close(self) -> None: ...


class ThreadedReads:
    """`ReadDatabase` by a connection that has a thread of its own, and one for each report."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], ReadConnection],
        report: Callable[[str], ReportRows],
    ) -> None:
        self.name = name
        self._connect = connect
        self._report = report
        self._thread: ConnectionThread[ReadConnection] | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> ConnectionThread[ReadConnection]:
        async with self._opening:
            if self._thread is None:
                await finish(asyncio.ensure_future(self._open()))
            assert self._thread is not None
            return self._thread

    async def _open(self) -> None:
        self._thread = await open_thread(self.name, self._connect)

    async def read(self, work: Callable[[Statements], T]) -> T:
        thread = await self.open()
        return await thread.run(lambda connection: connection.read(work))

    async def report(self, kind: str) -> AsyncGenerator[Values, None]:
        thread = await open_thread(self.name, partial(self._report, kind))
        try:
            while rows := await thread.run(lambda report: report.read()):
                for row in rows:
                    yield row
        finally:
            await thread.close()

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            await thread.close()
