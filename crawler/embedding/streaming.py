"""Responses whose body is read while it arrives."""

from __future__ import annotations

import asyncio
import contextlib
import math
from asyncio import Future
from collections.abc import AsyncIterator
from typing import Protocol

from msgspec.structs import replace

from crawler.embedding.caller_gate import CallerGate
from crawler.embedding.response import Response
from crawler.errors import FetchFailed, SessionClosed
from crawler.fetching.request import REDIRECT_STATUSES, Answer, Failure, Head, Headers, Request
from crawler.frontier.frontier import REFUSALS
from crawler.frontier.host_queue import Permit
from policies.url import canonical


class BodyStream:
    """Passes the body of a response on to its reader, a piece at a time: the `BodyReader` and
    `BodySink` of a contact in a task of its own, which waits while the reader does not read.

    Bodies of redirects that are followed, of 429 and of 5xx are not passed on, because another
    request may follow: they are in the Answer.
    """

    kept_bytes = 0  # it hands on what it takes
    timeout_s = math.inf  # once the body arrives; the minimum rate of the fetcher applies to it

    def __init__(self, gate: CallerGate, *, follow: bool) -> None:
        self._gate = gate
        self._follow = follow
        self._task: asyncio.Task[Answer | Failure] | None = None
        self._head: Head | None = None
        self._piece: bytes | None = None
        self._changed = asyncio.Event()  # for the reader: the head, a piece, or the end
        self._taken: Future[None] | None = None  # for the contact

    async def contact(self, permit: Permit, request: Request) -> Answer | Failure:
        """Begin a contact, and return when its header has arrived if the body is passed on. The
        Answer has no body then. Otherwise, as `CallerGate.contact`."""
        gate = self._gate
        self._reset()
        began_s = gate.clock.monotonic()
        task = self._task = gate.watch(permit, replace(request, reader=self))
        stack = contextlib.ExitStack()
        stack.enter_context(gate.owned(permit))

        def ended(_: object) -> None:
            stack.close()
            gate.frontier.permits.give_back(permit)  # if it was cancelled before it began
            self._changed.set()

        task.add_done_callback(ended)
        try:
            await self._changed.wait()
        except BaseException:
            await self.close()
            raise
        head = self._head
        if head is None:
            return self._result(task, request.url)
        return Answer(
            url=head.url,
            status=head.status,
            headers=head.headers,
            body=b"",
            body_read=False,
            cut=False,
            wire_bytes=0,
            started_s=began_s,
            ended_s=gate.clock.monotonic(),
            address=None,
        )

    def _reset(self) -> None:
        self._head = self._piece = None
        self._changed.clear()

    @property
    def passes_on(self) -> bool:
        """Whether the body of the response comes from `next`."""
        return self._head is not None

    async def next(self) -> bytes | None:
        """The next piece of the body; None: it has ended. Raises FetchFailed if it is broken, and
        SessionClosed."""
        task, head = self._task, self._head
        assert task is not None
        assert head is not None
        while self._piece is None:
            if task.done():
                result = self._result(task, head.url)
                if isinstance(result, Failure):
                    raise FetchFailed(head.url, result)
                return None
            self._changed.clear()
            await self._changed.wait()
        piece, self._piece = self._piece, None
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(None)
        return piece

    async def close(self) -> None:
        """End the contact, wherever its response is."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    def _result(self, task: asyncio.Task[Answer | Failure], url: str) -> Answer | Failure:
        if task.cancelled():
            raise SessionClosed(f"the request for {url} was ended before its response had arrived")
        return task.result()

    # ------------------------------------------------------------ called by the fetcher

    def wants_body(self, _head: Head) -> bool:
        return True

    def sink(self, head: Head) -> BodyStream | None:
        followed = self._follow and redirect_target(head) is not None
        if followed or head.status >= 500 or head.status in REFUSALS:
            return None
        self._head = head
        self._changed.set()
        return self

    async def take(self, piece: bytes) -> bool:
        self._piece = piece
        self._changed.set()
        self._taken = asyncio.get_running_loop().create_future()
        await self._taken
        return True

    async def end(self) -> None:
        pass  # the end of the task shows it


class BodySource(Protocol):
    """The source of the body of a streamed response."""

    @property
    def passes_on(self) -> bool:
        """Whether it comes from `next`; otherwise, it is in the Response."""
        ...

    async def next(self) -> bytes | None:
        """The next piece; None: the body has ended. Raises FetchFailed and SessionClosed."""
        ...


class StreamedResponse:
    """A response of any status whose body is read with `chunks`, within the block of
    `PoliteSession.stream`.

    url: canonical; after redirects, the last one. redirects: the responses that led here, in order.
    """

    def __init__(self, response: Response, stream: BodySource) -> None:
        self._response = response
        self._stream = stream
        self._begun = self.closed = False

    @property
    def url(self) -> str:
        return self._response.url

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Headers:
        return self._response.headers

    @property
    def elapsed_s(self) -> float:
        """Seconds from the permit to the end of the response header."""
        return self._response.elapsed_s

    @property
    def redirects(self) -> tuple[Response, ...]:
        return self._response.redirects

    @property
    def ok(self) -> bool:
        return self._response.ok

    @property
    def content_type(self) -> str | None:
        return self._response.content_type

    def __repr__(self) -> str:
        return f"StreamedResponse(url={self.url!r}, status={self.status})"

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the decompressed body in pieces of some 100 KB as they arrive, once.

        Raises FetchFailed if the body is broken or stalls, and SessionClosed after the block.
        """
        if self._begun:
            raise RuntimeError(f"the body of {self.url} can be read only once")
        self._begun = True
        if not self._stream.passes_on:
            if self._response.body:
                yield self._response.body
            return
        while True:
            if self.closed:
                raise SessionClosed(f"the block of {self.url} has ended: read its body inside it")
            if (piece := await self._stream.next()) is None:
                return
            yield piece


def redirect_target(answer: Answer | Head | Response) -> str | None:
    """The target of a redirect, if it is a valid URL."""
    location = answer.headers.get("Location")
    if answer.status not in REDIRECT_STATUSES or not location:
        return None
    return canonical(location, answer.url)
