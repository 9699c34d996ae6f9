"""Work beside the event loop, on a machine that may lack threads: it waits, and nothing fails.

Where a limit is met (RLIMIT_NPROC, a container's pids, memory), Python raises a RuntimeError from
wherever a thread would be started. That is a lack of this machine: no page, host or task is to
blame.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

RETRY_S: Final = 0.5
_log = logging.getLogger("courtly.threads")


def is_lack(error: BaseException) -> bool:
    """Does this error say that no thread could be started?"""
    return isinstance(error, RuntimeError) and "start new thread" in str(error)


class Threads(ThreadPoolExecutor):
    """A pool that makes do with the threads it has where no further one can be started."""

    def ready(self) -> None:
        """See to it that there is one. Raises MemoryError where none can be started."""
        if self._threads:
            return
        try:
            self.submit(_nothing)
        except RuntimeError as error:
            if not is_lack(error):
                raise
            raise MemoryError("no thread can be started") from error

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except RuntimeError as error:
            if not (self._threads and is_lack(error)):
                raise
            # Those there are will get to it: it is in their line already.

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`work(*args, **kwargs)` in one of them, as `asyncio.to_thread` runs it."""
        said = False
        while True:
            try:
                self.ready()
                break
            except MemoryError as error:
                if not said:
                    _log.warning("%s; trying again until one can", error)
                said = True
                await asyncio.sleep(RETRY_S)
        call = partial(contextvars.copy_context().run, work, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self, call)


def start() -> None:
    """Start a first thread early, while there is room for it."""
    with contextlib.suppress(MemoryError):
        _shared().ready()


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`work(*args, **kwargs)` in a thread; waits until there is one."""
    return await _shared().run(work, *args, **kwargs)


def start_daemon(work: Callable[..., object], *args: object, name: str) -> threading.Thread | None:
    """A thread that the process does not wait for at its end, be it stuck. None: it cannot be
    started now."""
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


os.register_at_fork(after_in_child=_pools.clear)  # its threads are not there
