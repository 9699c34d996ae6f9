"""The tasks of a run: all in one group, so that none outlives it and the failure of one ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from crawler.config import ConfigError
from crawler.engine.course import Course

_T = TypeVar("_T")


class Tasks:
    """Begins tasks once `join` has given it the group of the run. Jobs are those tasks that end by
    themselves: the run waits for them, and looks about when one is over."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._group: asyncio.TaskGroup | None = None
        self._jobs: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def under_way(self) -> bool:
        """Whether something may be begun: it runs, and has not been told to stop."""
        return self._group is not None and not self._course.stopping

    def join(self, group: asyncio.TaskGroup) -> None:
        self._group = group

    def begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """A task that whoever began it looks after."""
        assert self._group is not None
        return self._group.create_task(work)

    def spawn(self, work: Coroutine[None, None, _T]) -> asyncio.Task[_T]:
        """A job."""
        assert self._group is not None
        task = self._group.create_task(work)
        self._jobs.add(task)
        task.add_done_callback(self._on_job)
        return task

    async def whole(self, work: Callable[[], Coroutine[None, None, _T]]) -> _T:
        """Do it to its end, also when who asked for it is cancelled: what is in the store and what
        is obeyed must not part. ConfigError and LookupError are the asker's; any other ends the
        crawl."""
        if not self.under_way:
            return await work()

        async def told() -> _T | ConfigError | LookupError:
            try:
                return await work()
            except (ConfigError, LookupError) as refusal:
                return refusal

        result = await asyncio.shield(self.spawn(told()))
        if isinstance(result, ConfigError | LookupError):
            raise result
        return result

    async def done(self) -> None:
        """Until there is no job any more; jobs may begin others."""
        while self._jobs:
            await asyncio.wait(self._jobs)

    def _on_job(self, task: asyncio.Task[Any]) -> None:
        self._jobs.discard(task)
        self._course.stir.set()
