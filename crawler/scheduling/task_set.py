"""Short tasks that end by themselves, of a crawl or a session: none outlives it, and the
first failure ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from crawler.frontier.commands import LOOK_FOR_WORK, CommandQueue

_T = TypeVar("_T")


class TaskSet:
    """Runs tasks. The command LookForWork announces the end of a task; `failure` is the first
    exception, which the command loop must raise."""

    def __init__(self, commands: CommandQueue) -> None:
        self._commands = commands
        self._running: set[asyncio.Task[Any]] = set()
        self.failure: BaseException | None = None

    def __len__(self) -> int:
        return len(self._running)

    def spawn(self, work: Coroutine[None, None, _T]) -> asyncio.Task[_T]:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failure = self.failure or error
        self._commands.put_once(LOOK_FOR_WORK)

    async def ended(self) -> None:
        """Wait until there is no task any more; tasks may begin others."""
        while self._running and self.failure is None:
            await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)

    async def cancel(self, *, but: asyncio.Task[Any] | None = None) -> None:
        """Cancel all tasks, except one, and wait until they have ended."""
        running = {task for task in self._running if task is not but}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def until_memory_is_lost() -> None:
    """Raise MemoryError once an event-loop callback ran out of memory with one.

    Nothing else detects this: the callback's work, such as waking a task, is lost, and the crawl
    would hang. A process that ends is restarted by its service manager."""
    loop = asyncio.get_running_loop()
    lost: asyncio.Future[None] = loop.create_future()
    before = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(context.get("exception"), MemoryError) and not lost.done():
            lost.set_exception(MemoryError("an event-loop callback ran out of memory"))
        if before is None:
            loop.default_exception_handler(context)
        else:
            before(loop, context)

    loop.set_exception_handler(handle)
    try:
        await lost
    finally:
        loop.set_exception_handler(before)
