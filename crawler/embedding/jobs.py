"""Tasks with an owner: kept, awaited at the end, and their failure told to everybody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine


class Jobs:
    """What a TaskGroup is to a function, for an object that is used from many tasks: the failure
    of a job cancels none of them, but `broken` holds it and `failed()` is called once."""

    def __init__(self, failed: Callable[[], None]) -> None:
        self._failed = failed
        self._running: set[asyncio.Task[None]] = set()
        self.broken: BaseException | None = None

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        job = asyncio.get_running_loop().create_task(work)
        self._running.add(job)
        job.add_done_callback(self._on_done)
        return job

    def _on_done(self, job: asyncio.Task[None]) -> None:
        self._running.discard(job)
        if not job.cancelled() and (error := job.exception()) is not None and self.broken is None:
            self.broken = error
            self._failed()

    async def cancel(self, *, but: asyncio.Task[None] | None = None) -> None:
        """Break off all jobs, save one, and wait until they have ended."""
        running = {job for job in self._running if job is not but}
        for job in running:
            job.cancel()
        await asyncio.gather(*running, return_exceptions=True)
