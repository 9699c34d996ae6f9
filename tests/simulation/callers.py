"""Callers that fetch on the clocks of a running crawl: through its session, and with permits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from crawler.embedding.caller_gate import gate_of
from crawler.embedding.request_arguments import PermitArguments, read_arguments
from crawler.embedding.session_requests import LocalRequests
from crawler.errors import CourtlyError
from tests.simulation.history import Done
from tests.simulation.scenario import Deed

if TYPE_CHECKING:
    from tests.simulation.running import Process, Simulation


class Caller:
    """Whoever fetches through one process."""

    def __init__(self, process: Process, world: Simulation) -> None:
        self._process = process
        self._world = world
        self._calls: set[asyncio.Task[Any]] = set()
        # A host may be another worker's for as long as that has something to wait for.
        self._most_s = 300.0 if world.scenario.workers > 1 else None

    async def call(self, deed: Deed, done: Done) -> None:
        task = asyncio.create_task(self._call(deed, done))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        if deed.verb.startswith("cancelled"):
            await self._world.sleep(0.4)
            task.cancel()
        await asyncio.wait([task])

    async def end(self) -> None:
        """The process has ended: nobody waits for it any more."""
        for task in self._calls:
            task.cancel()
        if self._calls:
            await asyncio.wait(self._calls)

    async def _call(self, deed: Deed, done: Done) -> None:
        path, for_s, status, retry_after_s = deed.value
        url = f"http://{deed.host}{path}"
        requests = LocalRequests(gate_of(self._process.scheduler.loop))
        try:
            if deed.verb.endswith("fetch"):
                response = await requests.fetch(read_arguments(url, max_wait_s=self._most_s))
                done.result = response.status
            else:
                asked = PermitArguments(url=url, max_wait_s=self._most_s)
                async with requests.permit(asked) as permit:
                    await self._lent(permit, for_s, status, retry_after_s)
        except CourtlyError as error:
            done.error = type(error).__name__

    async def _lent(
        self, permit: Any, for_s: float, status: int, retry_after_s: int | None
    ) -> None:
        """One request by a client of the caller's own."""
        contact = self._world.web.begin(permit.url, self._process.number, self._process.clock)
        try:
            await self._process.clock.sleep_until(contact.start_s + for_s)
            contact.status, contact.retry_after_s = status, retry_after_s
            headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
            permit.record(status, headers)
        except BaseException:
            contact.broken_off = True
            raise
        finally:
            contact.end_s = self._process.clock.monotonic()
