"""aiosqlite's connection, extended by running a whole function in its thread."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import TypeVar

import aiosqlite

T = TypeVar("T")


class Wire(aiosqlite.Connection):
    """One connection and its thread.

    A transaction runs in the thread as one function: it costs one round trip, and no cancellation
    can reach into it.
    """

    def __init__(self, connector: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connector, iter_chunk_size=64)

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """`work(connection)` in the thread, after all that was asked for before it."""
        result: T = await self._execute(work, self._conn)  # type: ignore[no-untyped-call]
        return result

    @classmethod
    async def open(cls, connect: Callable[[], sqlite3.Connection]) -> Wire:
        """Connect by `connect`, off the event loop. What it raises is raised here.

        It runs before aiosqlite's thread is there: one whose connector fails is left behind.
        """
        db = await asyncio.to_thread(connect)
        wire = cls(lambda: db)
        await wire
        return wire


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
