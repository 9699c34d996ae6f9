"""Short tasks that end by themselves, of a crawl or a session: none outlives it, and the
first failure ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from crawler.frontier.commands import LOOK_FOR_WORK, CommandQueue

_T = TypeVar("_T")


class TaskSet:
    """The command LookForWork announces the end of a task; `failure` holds the first exception,
    which the command loop must raise."""

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
