"""Permits lent to clients of the API, each until it is ended or expires."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

from crawler.clock import Clock, Timer
from crawler.daemon.api.caller_limits import Limit, Room
from crawler.daemon.problem import Problem
from crawler.daemon.responses import LentPermit
from crawler.embedding.permit import RequestPermit
from crawler.faults import contained

LENT_MAX: Final = 64  # permits lent at the same time; at most half of `crawl.concurrency`
# From the grant on, however often it is renewed: then the crawl has its turn at the host.
LENT_S_MAX: Final = 1_800.0


class _Lent:
    """A permit that a client has. over: it was ended, or has expired. until_s: it ends then at the
    latest (monotonic)."""

    def __init__(self, permit: RequestPermit, until_s: float) -> None:
        self.permit = permit
        self.until_s = until_s
        self.name = secrets.token_urlsafe(16)
        self.over = asyncio.Event()
        self.timer: Timer | None = None


class LentPermits:
    """A task holds each: the contact lasts as long as its block."""

    def __init__(self, clock: Clock, *, concurrency: int) -> None:
        self._clock = clock
        self._lent: dict[str, _Lent] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        total = max(1, min(LENT_MAX, concurrency // 2))
        self._room = Room(
            Limit(
                what="permits",
                total=total,
                of_one=max(1, total // 2),
                share=1,
                reserve=total // 4,
            )
        )

    async def lend(
        self, wait: AbstractAsyncContextManager[RequestPermit], client: str, expires_in_s: float
    ) -> LentPermit:
        """Wait for the permit, and lend it. Raises what `wait` raises, and Problem if too many are
        lent already; those that only wait do not count. Cancelled, it leaves no trace."""
        self._room.check(client)
        granted: asyncio.Future[_Lent] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._hold(wait, client, granted))
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        try:
            lent = await granted
        except BaseException:
            task.cancel()
            raise
        self._lent[lent.name] = lent
        return self.renew(lent.name, expires_in_s)

    async def _hold(
        self,
        wait: AbstractAsyncContextManager[RequestPermit],
        client: str,
        granted: asyncio.Future[_Lent],
    ) -> None:
        lent: _Lent | None = None
        try:
            async with wait as permit:
                with self._room.taken(client):
                    lent = _Lent(permit, self._clock.monotonic() + LENT_S_MAX)
                    if granted.done():
                        return  # the client has left
                    granted.set_result(lent)
                    await lent.over.wait()
        except Exception as error:  # noqa: BLE001 - it is the client's to deal with
            if not granted.done():
                granted.set_exception(error)
            else:
                contained("ending a permit of an API client", error)
        finally:
            if lent is not None:
                self._lent.pop(lent.name, None)
                if lent.timer is not None:
                    lent.timer.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)

    def renew(self, name: str, expires_in_s: float) -> LentPermit:
        """The permit expires `expires_in_s` from now, or LENT_S_MAX after it was granted. Raises
        Problem."""
        lent = self._get(name)
        if lent.timer is not None:
            lent.timer.cancel()
        now_s = self._clock.monotonic()
        expires_in_s = min(expires_in_s, lent.until_s - now_s)
        at_s = now_s + expires_in_s
        lent.timer = self._clock.call_at(at_s, lent.over.set)
        permit = lent.permit
        return LentPermit(id=name, url=permit.url, method=permit.method, expires_in_s=expires_in_s)

    async def end(self, name: str, status: int | None, headers: Mapping[str, str]) -> None:
        """End a permit; the host learns from the status and headers, if there are any. Raises
        Problem and InvalidRequest."""
        lent = self._get(name)
        if status is not None:
            lent.permit.record(status, headers)
        del self._lent[name]
        lent.over.set()

    def _get(self, name: str) -> _Lent:
        lent = self._lent.get(name)
        if lent is None or lent.over.is_set():
            raise Problem(404, "this permit has ended, or has never existed", kind="permit-ended")
        return lent

    async def close(self) -> None:
        """End all; none outlives the crawl."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
