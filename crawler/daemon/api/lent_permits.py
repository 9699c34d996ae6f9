"""Permits lent to clients of the API, each until it is ended or expires."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

from crawler.clock import Clock, Timer
from crawler.daemon.problem import Problem
from crawler.daemon.responses import LentPermit
from crawler.embedding.permit import RequestPermit
from crawler.faults import contained

LENT_MAX: Final = 64  # permits lent at the same time
BUSY_S: Final = 5.0  # before a client tries again when there are more


class _Lent:
    """A permit that a client has. over: it was ended, or has expired."""

    def __init__(self, permit: RequestPermit) -> None:
        self.permit = permit
        self.name = secrets.token_urlsafe(16)
        self.over = asyncio.Event()
        self.timer: Timer | None = None


class LentPermits:
    """A task holds each: the contact lasts as long as its block."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lent: dict[str, _Lent] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def lend(
        self, wait: AbstractAsyncContextManager[RequestPermit], expires_in_s: float
    ) -> LentPermit:
        """Wait for the permit, and lend it. Raises what `wait` raises, and Problem if too many are
        lent. Cancelled, it leaves no trace."""
        if len(self._tasks) >= LENT_MAX:
            raise Problem(503, f"{LENT_MAX} permits are lent", kind="busy", retry_after_s=BUSY_S)
        granted: asyncio.Future[_Lent] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._hold(wait, granted))
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
        self, wait: AbstractAsyncContextManager[RequestPermit], granted: asyncio.Future[_Lent]
    ) -> None:
        lent: _Lent | None = None
        try:
            async with wait as permit:
                lent = _Lent(permit)
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
        """The permit expires `expires_in_s` from now. Raises Problem."""
        lent = self._get(name)
        if lent.timer is not None:
            lent.timer.cancel()
        at_s = self._clock.monotonic() + expires_in_s
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
