"""Requests through another process: a daemon, or the crawl that holds a database."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeVar

import aiohttp
import msgspec
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.clock import RealClock
from crawler.config import ConfigError
from crawler.downloading.downloader import NO_HEADERS, LentContact
from crawler.embedding.caller_verdicts import NextTurn
from crawler.embedding.error_documents import BUSY, DISALLOWED, TOO_LONG, ErrorDocument, error_of
from crawler.embedding.permit import RequestPermit
from crawler.embedding.request_arguments import WAIT_S_MAX, PermitArguments, RequestArguments
from crawler.embedding.response import Response
from crawler.embedding.streaming import StreamedResponse
from crawler.errors import CourtlyError, FetchFailed, InvalidRequest, SessionClosed, WaitTooLong
from crawler.fetching.request import Failure
from policies.retries import FailureCode
from policies.robots_state import RobotsState
from storage.store import StoreError

_T = TypeVar("_T")

DESCRIPTION_BYTES: Final = 1_000_000  # of a response, in a header
# Of one session, so that several have room at a daemon, which takes 256 connections.
CALLS_MAX: Final = 48
PIECE_BYTES: Final = 100_000  # of a streamed body, at most
PERMIT_S: Final = 60.0  # until a permit expires, if this process dies
RENEW_S: Final = 20.0
CONNECT_S: Final = 10.0
_WAITING: Final = frozenset({"/api/fetch", "/api/permit"})
AGAIN_S: Final = 1.0  # before a request is repeated that the other side had no room for


class _Described(msgspec.Struct):
    """A response without its body."""

    url: str
    status: int
    headers: list[tuple[str, str]]
    elapsed_s: float
    redirects: list[_Described] = []


class _Answer(NamedTuple):
    """A response of the other side. open: its body is still to be read."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    open: aiohttp.ClientResponse | None = None


class _RemoteBody:
    """The body of a streamed response, while it arrives."""

    passes_on = True

    def __init__(self, response: aiohttp.ClientResponse, url: str, where: str) -> None:
        self._response = response
        self._url = url
        self._where = where

    async def next(self) -> bytes | None:
        try:
            return await self._response.content.read(PIECE_BYTES) or None
        except (OSError, aiohttp.ClientError) as error:
            now_s = time.monotonic()
            failure = Failure(
                url=self._url,
                code=FailureCode.BODY,
                sentence=f"the body broke off on its way through {self._where}",
                connected=True,
                permanent=False,
                started_s=now_s,
                ended_s=now_s,
            )
            raise FetchFailed(self._url, failure) from error


class RemoteRequests:
    """Sends every request through the API of another process. where: its address or database, for
    messages."""

    def __init__(self, http: aiohttp.ClientSession, base: str, where: str) -> None:
        self._http = http
        self._base = base
        self._where = where
        self._clock = RealClock()
        self._endings: set[asyncio.Task[None]] = set()  # of permits
        self._room = asyncio.Semaphore(CALLS_MAX)

    async def check(self) -> None:
        """Find out whether the other side answers. Raises SessionClosed, ConfigError for a missing
        or wrong token, and CourtlyError if it is something else."""
        status = await self._json("GET", "/api/status", None)
        if "version" not in status:
            raise CourtlyError(f"{self._where} is not a crawl of courtly")

    async def close(self) -> None:
        """Wait for the ends of permits."""
        await asyncio.gather(*self._endings, return_exceptions=True)

    # ------------------------------------------------------------ requests

    async def fetch(self, asked: RequestArguments) -> Response:
        answer = await self._call("POST", "/api/fetch", _sent(asked, stream=False))
        return self._response(answer, answer.body)

    @contextlib.asynccontextmanager
    async def stream(self, asked: RequestArguments) -> AsyncIterator[StreamedResponse]:
        async with contextlib.AsyncExitStack() as opened:
            answer = await self._call("POST", "/api/fetch", _sent(asked, stream=True), opened)
            assert answer.open is not None
            body = _RemoteBody(answer.open, asked.url, self._where)
            response = StreamedResponse(self._response(answer, b""), body)
            try:
                yield response
            finally:
                response.closed = True
                answer.open.close()  # nobody reads the rest

    def _response(self, answer: _Answer, body: bytes) -> Response:
        try:
            described = msgspec.json.decode(
                answer.headers.get("Courtly-Response", ""), type=_Described
            )
        except msgspec.DecodeError:
            raise self._strange() from None
        before = tuple(_response(one, b"", ()) for one in described.redirects)
        return _response(described, body, before)

    @contextlib.asynccontextmanager
    async def permit(self, asked: PermitArguments) -> AsyncIterator[RequestPermit]:
        sent = {**msgspec.to_builtins(asked), "expires_in_s": PERMIT_S}
        answer = await self._call("POST", "/api/permit", sent)
        name = str(self._object(answer.body).get("id"))
        lent = LentContact(NO_HEADERS)
        renewing = asyncio.create_task(self._renew(name))
        try:
            yield RequestPermit(asked.url, asked.method, lent)
        finally:
            renewing.cancel()
            lent.over = True
            ending = asyncio.create_task(self._end(name, lent))
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)
            await asyncio.shield(ending)

    async def _renew(self, name: str) -> None:
        with contextlib.suppress(CourtlyError):
            while True:
                await asyncio.sleep(RENEW_S)
                await self._json("POST", f"/api/permit/{name}", {"expires_in_s": PERMIT_S})

    async def _end(self, name: str, lent: LentContact) -> None:
        """If the other side is gone, so is the permit."""
        sent: dict[str, object] = {}
        if lent.status is not None:
            sent = {"status": lent.status, "headers": dict(lent.headers)}
        with contextlib.suppress(CourtlyError):
            await self._json("DELETE", f"/api/permit/{name}", sent)

    # ------------------------------------------------------------ inspecting

    async def may_fetch(self, url: str) -> bool:
        return bool((await self._json("POST", "/api/may-fetch", {"url": url})).get("allowed"))

    async def next_turn(self, url: str) -> NextTurn:
        answer = await self._json("POST", "/api/next-turn", {"url": url})
        return self._converted(answer, NextTurn)

    async def robots(self, url: str) -> RobotsState:
        answer = await self._json("POST", "/api/robots/state", {"url": url})
        return self._converted(answer, RobotsState)  # msgspec decodes base64 for bytes

    # ------------------------------------------------------------ the other side

    async def _json(self, method: str, path: str, sent: Mapping[str, Any] | None) -> dict[str, Any]:
        return self._object((await self._call(method, path, sent)).body)

    async def _call(
        self,
        method: str,
        path: str,
        sent: Mapping[str, Any] | None,
        opened: contextlib.AsyncExitStack | None = None,
    ) -> _Answer:
        """Call a route until the other side has room for it; the max_wait_s that is sent limits
        that, and the wait there. opened: it closes the response, whose body is not read. Raises the
        exception that the other side describes."""
        began_s = self._clock.monotonic()
        sent = sent or {}
        async with self._admitted(sent.get("url", ""), sent.get("max_wait_s")):
            return await self._repeat(method, path, sent, began_s, opened)

    @contextlib.asynccontextmanager
    async def _admitted(self, url: str, max_wait_s: float | None) -> AsyncIterator[None]:
        """Wait until fewer than CALLS_MAX calls for URLs are under way; others are short, and end
        what the calls wait for."""
        if not url:
            yield
            return
        try:
            async with asyncio.timeout(max_wait_s):
                await self._room.acquire()
        except TimeoutError:
            reason = f"{CALLS_MAX} requests of this session are under way"
            raise WaitTooLong(url, reason, None) from None
        try:
            yield
        finally:
            self._room.release()

    async def _repeat(
        self,
        method: str,
        path: str,
        sent: Mapping[str, Any],
        began_s: float,
        opened: contextlib.AsyncExitStack | None,
    ) -> _Answer:
        url, max_wait_s = sent.get("url", ""), sent.get("max_wait_s")
        while True:
            left_s = None
            if max_wait_s is not None:
                left_s = max(0.0, max_wait_s - (self._clock.monotonic() - began_s))
                sent = {**sent, "max_wait_s": min(left_s, WAIT_S_MAX)}
            elif path in _WAITING:  # without a limit, the other side has its own
                sent = {**sent, "max_wait_s": WAIT_S_MAX}
            answer = await self._send(method, path, sent, opened)
            if answer.status < 400:
                return answer
            document = self._document(answer)
            too_late = document.kind == TOO_LONG and path not in _WAITING  # a limit of theirs
            busy = document.kind == BUSY or answer.status == HTTPStatus.TOO_MANY_REQUESTS
            if not (busy or too_late):
                raise await self._error(document, answer.status, url)
            if left_s is not None and left_s <= AGAIN_S:
                raise WaitTooLong(url, document.detail, None)
            await self._clock.sleep_until(self._clock.monotonic() + AGAIN_S)

    async def _send(
        self,
        method: str,
        path: str,
        sent: Mapping[str, object] | None,
        opened: contextlib.AsyncExitStack | None,
    ) -> _Answer:
        headers = {"Content-Type": "application/json"}
        data = None if sent is None else json.dumps(sent).encode()
        request = self._http.request(
            method, self._base + path, data=data, headers=headers, allow_redirects=False
        )
        try:
            if opened is not None:
                response = await opened.enter_async_context(request)
                if response.status < 400:
                    return _Answer(response.status, response.headers, b"", response)
                return _Answer(response.status, response.headers, await response.read())
            async with request as response:
                return _Answer(response.status, response.headers, await response.read())
        except (OSError, aiohttp.ClientError, TimeoutError) as error:
            raise SessionClosed(
                f"{self._where} cannot be reached ({_reason(error)}): open the session again when "
                "it runs"
            ) from error

    def _document(self, answer: _Answer) -> ErrorDocument:
        body = self._object(answer.body)
        kind = str(body.get("type", "")).rpartition("/")[2]
        detail = str(body.get("detail", f"status {answer.status}"))
        return ErrorDocument(kind=kind, status=answer.status, detail=detail, attributes=body)

    async def _error(self, document: ErrorDocument, status: int, url: str) -> CourtlyError:
        match status:
            case HTTPStatus.UNAUTHORIZED:
                return ConfigError(f"token: {self._where} says: {document.detail}")
            case HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                return InvalidRequest("body", f"is too large for {self._where}: {document.detail}")
        if document.kind == "blank" or not document.kind:
            kind = StoreError if status == HTTPStatus.SERVICE_UNAVAILABLE else CourtlyError
            return kind(f"{self._where}: {document.detail}")
        robots_txt = None
        if document.kind == DISALLOWED:
            at = document.attributes.get("url", url)
            robots_txt = (await self.robots(str(at))).body
        try:
            return error_of(document, robots_txt=robots_txt, now_s=time.monotonic())
        except ValueError:
            return self._strange()

    def _object(self, body: bytes) -> dict[str, Any]:
        try:
            return msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.DecodeError:
            raise self._strange() from None

    def _converted(self, answer: Mapping[str, Any], kind: type[_T]) -> _T:
        try:
            return msgspec.convert(answer, kind)
        except msgspec.ValidationError:
            raise self._strange() from None

    def _strange(self) -> CourtlyError:
        return CourtlyError(f"{self._where} is not a crawl of courtly, or of another version")


def _sent(asked: RequestArguments, *, stream: bool) -> dict[str, Any]:
    how = {"stream": stream, "description_bytes": DESCRIPTION_BYTES}
    return {**msgspec.to_builtins(asked), **how}


def _response(described: _Described, body: bytes, before: tuple[Response, ...]) -> Response:
    return Response(
        url=described.url,
        status=described.status,
        headers=CIMultiDictProxy(CIMultiDict(described.headers)),
        body=body,
        elapsed_s=described.elapsed_s,
        redirects=before,
    )


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__
