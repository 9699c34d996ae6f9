"""Run work in threads; where the machine can start no thread, the work waits instead of failing.

At a limit (RLIMIT_NPROC, a container's process limit, memory), Python raises a RuntimeError
wherever a thread is started. The cause is this machine, not a page, host or task.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

RETRY_S: Final = 0.5
_log = logging.getLogger("courtly.threads")


def is_lack(error: BaseException) -> bool:
    """Return whether this error means that no thread could be started."""
    return isinstance(error, RuntimeError) and "start new thread" in str(error)


class _NoThreadError(Exception):
    pass


class Threads(ThreadPoolExecutor):
    """A pool that continues with its existing threads when no more can be started."""

    def ready(self) -> None:
        """Ensure that there is at least one thread. Raises MemoryError if none can be started."""
        if self._threads:
            return
        try:
            self.submit(_nothing)
        except RuntimeError as error:
            if not is_lack(error):
                raise
            raise MemoryError("cannot start a thread") from error

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except RuntimeError as error:
            if not (self._threads and is_lack(error)):
                raise
            # The existing threads will run it: it is already in their queue.

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return `work(*args, **kwargs)`, run in a thread of the pool, like `asyncio.to_thread`."""
        said = False
        while True:
            try:
                self.ready()
                break
            except MemoryError as error:
                if not said:
                    _log.warning("%s; retrying", error)
                said = True
                await asyncio.sleep(RETRY_S)
        call = partial(contextvars.copy_context().run, work, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self, call)


def start() -> None:
    """Start the first threads early, while they can still be started."""
    with contextlib.suppress(MemoryError):
        _shared().ready()
    _daemons.ready()


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return `work(*args, **kwargs)`, run in a thread; waits until one is available."""
    return await _shared().run(work, *args, **kwargs)


_Work = tuple[Callable[[], object], Future[Any]]


class _DaemonThreads(Executor):
    """An executor whose threads do not delay the end of the process, even if their work hangs.
    Threads that have no work wait for more: later, no other may be started."""

    def __init__(self) -> None:
        self._idle: deque[SimpleQueue[_Work]] = deque()  # of each thread without work, its queue

    def ready(self) -> None:
        """Ensure that there is a thread, if one can be started."""
        if not self._idle:
            with contextlib.suppress(_NoThreadError):
                self.submit(_nothing)

    def forget(self) -> None:
        """There are no threads."""
        self._idle.clear()

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        done: Future[T] = Future()
        done.set_running_or_notify_cancel()
        try:
            queue = self._idle.pop()
        except IndexError:
            queue = SimpleQueue()
            if start_daemon(self._serve, queue, name="courtly-daemon") is None:
                raise _NoThreadError("cannot start a thread") from None
        queue.put((partial(work, *args, **kwargs), done))
        return done

    def _serve(self, queue: SimpleQueue[_Work]) -> None:
        while True:
            work, done = queue.get()
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
                self._idle.append(queue)
                done.set_exception(error)
            else:
                self._idle.append(queue)
                done.set_result(result)
            del work, done  # else what they refer to stays until there is more work


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """Return `work()`, run in a thread that does nothing else; waits until one is available. Once
    the caller is cancelled, nobody waits for it any more, not even the end of the process."""
    said = False
    while True:
        call = partial(contextvars.copy_context().run, work)
        try:
            return await asyncio.get_running_loop().run_in_executor(_daemons, call)
        except _NoThreadError as error:
            if not said:
                _log.warning("%s; retrying", error)
            said = True
            await asyncio.sleep(RETRY_S)


def result_or_error(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Exception:
    """Return `work(*args, **kwargs)`, or the exception that it raised: for functions of users,
    because a thread cannot raise StopIteration into a coroutine."""
    try:
        return work(*args, **kwargs)
    except Exception as error:  # noqa: BLE001
        return error


def start_daemon(work: Callable[..., object], *args: object, name: str) -> threading.Thread | None:
    """Start a daemon thread, which does not delay the end of the process even if it hangs. Returns
    None if cannot start a thread now."""
    thread = threading.Thread(target=work, args=args, name=name, daemon=True)
    try:
        thread.start()
    except (RuntimeError, MemoryError) as error:
        if not (is_lack(error) or isinstance(error, MemoryError)):
            raise
        return None
    return thread


def _nothing() -> None:
    pass


_pools: Final[list[Threads]] = []  # one, once it was asked for


def _shared() -> Threads:
    if not _pools:
        _pools.append(Threads(thread_name_prefix="courtly"))
    return _pools[0]


_daemons: Final = _DaemonThreads()


def _forget() -> None:
    """The threads are not there, as in the child of a fork."""
    _pools.clear()
    _daemons.forget()


os.register_at_fork(after_in_child=_forget)
