"""An event loop of which nothing depends on the speed of the machine or on threads."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

import aiosqlite

from crawler.clock import Clock
from storage.engine.connection_thread import ConnectionThread

PASSES_MAX: Final = 60_000  # of the loop, without time passing: the program spins


class SpinsError(Exception):
    """The program is busy for ever, and time does not pass."""


class SimulationLoop(asyncio.SelectorEventLoop):
    """Runs work for threads itself, and may shuffle what is ready to run.

    order: the seed of the shuffling; None keeps asyncio's own order.
    """

    def __init__(self, order: int | None) -> None:
        super().__init__()
        self._order = None if order is None else random.Random(order)
        self.clock: Clock | None = None
        self._passes = 0
        self._seen_s = 0.0

    def _run_once(self) -> None:
        ready: Any = vars(self)["_ready"]
        if self._order is not None and len(ready) > 1:
            handles = list(ready)
            self._order.shuffle(handles)
            ready.clear()
            ready.extend(handles)
        now_s = 0.0 if self.clock is None else self.clock.monotonic()
        self._passes = self._passes + 1 if now_s == self._seen_s else 0
        self._seen_s = now_s
        if self._passes > PASSES_MAX:
            self._passes = 0
            raise SpinsError(f"{PASSES_MAX:,} passes of the event loop at {now_s:.3f} s")
        super()._run_once()  # type: ignore[misc]

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except BaseException as error:  # noqa: BLE001 - it is raised to whoever awaits it
            future.set_exception(error)
        return future


@contextlib.contextmanager
def without_threads() -> Iterator[None]:
    """Connections of databases run their functions on the loop, for the duration of the block."""
    names = ("__init__", "_execute", "open", "stop")
    usual = {name: vars(ConnectionThread)[name] for name in names}
    try:
        for name, instead in zip(names, (_init, _execute, classmethod(_open), _stop), strict=True):
            setattr(ConnectionThread, name, instead)
        yield
    finally:
        for name, method in usual.items():
            setattr(ConnectionThread, name, method)


@contextlib.contextmanager
def outside_of_loop() -> Iterator[None]:
    """Connections to servers run event loops of their own, as if in threads of their own."""
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(running)


def _init(self: Any, connect: Callable[[], Any]) -> None:
    aiosqlite.Connection.__init__(self, connect, iter_chunk_size=64)


async def _execute(self: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if not self._running or not self._connection:
        raise ValueError("Connection closed")
    with outside_of_loop():
        return fn(*args, **kwargs)


async def _open(cls: Any, connect: Callable[[], Any]) -> Any:
    opened = cls(connect)
    with outside_of_loop():
        opened._connection = connect()
    return opened


def _stop(self: Any) -> asyncio.Future[object] | None:
    self._running = False
    db, self._connection = self._connection, None
    if db is not None:
        with outside_of_loop():
            db.close()
    try:
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    except RuntimeError:
        return None
    future.set_result(None)
    return future
