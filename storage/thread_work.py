"""The work that event loops have passed to the threads of databases. A clock of tests must not run
ahead of it."""

from __future__ import annotations

import asyncio
from typing import Any, Final, TypeVar
from weakref import WeakSet

T = TypeVar("T")

# Weak: a loop that was closed receives no results.
_open: Final[WeakSet[asyncio.Future[object]]] = WeakSet()


def begin() -> asyncio.Future[Any]:
    """A future of the running event loop, for the result of work in a thread. Raises RuntimeError
    without a running loop."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    _open.add(future)
    return future


def end(future: asyncio.Future[object]) -> None:
    """The loop has received the result. A future that is done may have been cancelled before."""
    _open.discard(future)


def in_progress(loop: asyncio.AbstractEventLoop) -> list[asyncio.Future[object]]:
    """The futures of work whose result this loop has not received."""
    return [future for future in _open if future.get_loop() is loop]


async def finish(task: asyncio.Future[T]) -> T:
    """Await a task that must not be interrupted; a cancellation is raised after it has ended."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                continue  # another one is raised below
        if not task.cancelled():
            task.exception()  # retrieved: the caller is gone
        raise
