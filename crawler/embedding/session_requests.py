"""What a session does: requests, permits and inspections, in this process or through another."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from crawler.embedding.caller_gate import CallerGate
from crawler.embedding.caller_verdicts import NextTurn
from crawler.embedding.caller_waits import WaitLimit
from crawler.embedding.host_line import OWN, Caller
from crawler.embedding.permit import RequestPermit, lend_permit
from crawler.embedding.redirects import apply_headers, follow_redirects
from crawler.embedding.request_arguments import PermitArguments, RequestArguments
from crawler.embedding.response import Response
from crawler.embedding.streaming import BodyStream, StreamedResponse
from policies.robots_state import RobotsState

if TYPE_CHECKING:
    from crawler.embedding.response_cache import ResponseCache


class SessionRequests(Protocol):
    """The work behind the methods of `PoliteSession`, which raise what these do. Arguments
    are checked, and URLs canonical."""

    async def fetch(self, asked: RequestArguments) -> Response: ...

    def stream(self, asked: RequestArguments) -> AbstractAsyncContextManager[StreamedResponse]: ...

    def permit(self, asked: PermitArguments) -> AbstractAsyncContextManager[RequestPermit]: ...

    async def may_fetch(self, url: str) -> bool: ...

    async def next_turn(self, url: str) -> NextTurn: ...

    async def robots(self, url: str) -> RobotsState: ...


class LocalRequests:
    """Through a gate of this process. cache: responses of earlier sessions, for `fetch`."""

    def __init__(
        self, gate: CallerGate, cache: ResponseCache | None = None, *, caller: Caller = OWN
    ) -> None:
        self._gate = gate
        self._cache = cache
        self._caller = caller

    async def fetch(self, asked: RequestArguments) -> Response:
        return await follow_redirects(self._gate, asked, self._caller, cache=self._cache)

    @contextlib.asynccontextmanager
    async def stream(self, asked: RequestArguments) -> AsyncIterator[StreamedResponse]:
        body = BodyStream(self._gate, follow=asked.follow)
        response = None
        try:
            response = StreamedResponse(
                await follow_redirects(self._gate, asked, self._caller, stream=body), body
            )
            yield response
        finally:
            if response is not None:
                response.closed = True
            await body.close()

    @contextlib.asynccontextmanager
    async def permit(self, asked: PermitArguments) -> AsyncIterator[RequestPermit]:
        limit = WaitLimit(self._gate.clock, asked.max_wait_s, self._caller)
        apply_headers(self._gate, asked.url, self._caller)
        async with lend_permit(self._gate, asked.url, asked.method, limit) as permit:
            yield permit

    async def may_fetch(self, url: str) -> bool:
        apply_headers(self._gate, url, self._caller)
        return await self._gate.may_fetch(url)

    async def next_turn(self, url: str) -> NextTurn:
        return await self._gate.next_turn(url)

    async def robots(self, url: str) -> RobotsState:
        apply_headers(self._gate, url, self._caller)
        return await self._gate.robots(url)
