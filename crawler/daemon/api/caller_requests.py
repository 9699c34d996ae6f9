"""Requests of other programs through the crawl, on its clocks, robots.txt copies and
connections."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json as json_module
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

from msgspec import structs

from crawler.clock import Clock
from crawler.daemon import responses
from crawler.daemon.api.lent_permits import LentPermits
from crawler.daemon.problem import Problem
from crawler.embedding.caller_gate import CallerGate
from crawler.embedding.caller_verdicts import canonical_url
from crawler.embedding.crawl_gate import gate_of
from crawler.embedding.error_documents import document_of
from crawler.embedding.request_arguments import (
    RequestArguments,
    check_method,
    read_arguments,
    seconds,
)
from crawler.embedding.response import Response
from crawler.embedding.session_requests import LocalRequests
from crawler.embedding.streaming import StreamedResponse
from crawler.errors import CourtlyError, InvalidRequest
from crawler.scheduling.scheduler import Scheduler
from storage.store import StoreError

REQUESTS_MAX: Final = 128  # of API clients: waiting for their hosts, or in flight
BUSY_S: Final = 5.0  # before a client tries again when there are more


class CallerRequests:
    """The operations of `PoliteSession`, for clients of the API."""

    def __init__(self, scheduler: Scheduler, clock: Clock) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._under_way = 0
        self._lent = LentPermits(clock)

    # ------------------------------------------------------------ requests

    async def fetch(self, *, stream: bool, **given: Any) -> FetchedBody:
        """Send a request as `PoliteSession.fetch` does, or as `stream`. given: the fields of
        `FetchBody`. The caller closes what it returns. Raises Problem."""
        async with contextlib.AsyncExitStack() as opened:
            requests = LocalRequests(opened.enter_context(self._call()))
            asked = _arguments(**given)
            if stream:
                response = await opened.enter_async_context(requests.stream(asked))
                fetched = FetchedBody(response, response.chunks())
            else:
                whole = await requests.fetch(asked)
                fetched = FetchedBody(whole, _whole(whole.body))
            fetched.push_async_exit(opened.pop_all())
            return fetched

    async def may_fetch(self, url: str) -> responses.MayFetch:
        """Whether robots.txt allows a URL now."""
        with self._call() as gate:
            allowed = await LocalRequests(gate).may_fetch(canonical_url(url))
            return responses.MayFetch(allowed=allowed)

    async def next_turn(self, url: str) -> responses.NextTurn:
        """When the host of a URL may be contacted next."""
        with self._call() as gate:
            turn = await gate.next_turn(canonical_url(url))
            return responses.NextTurn(in_s=turn.in_s, reason=turn.reason, ahead=turn.ahead)

    async def robots_state(self, url: str) -> responses.RobotsKnown:
        """What is known of the robots.txt of a URL's origin."""
        with self._call() as gate:
            known = structs.asdict(await LocalRequests(gate).robots(canonical_url(url)))
            body = known.pop("body")
            encoded = None if body is None else base64.b64encode(body).decode()
            return responses.RobotsKnown(**known, body=encoded)

    @contextlib.contextmanager
    def _call(self) -> Iterator[CallerGate]:
        """The gate of the crawl, for one request. What the block raises becomes a Problem."""
        if self._scheduler.frontier.stopping:
            raise Problem(503, "the crawl is ending", kind="session-closed", retry_after_s=BUSY_S)
        if self._under_way >= REQUESTS_MAX:
            raise Problem(
                503,
                f"{REQUESTS_MAX} requests of other programs are waiting or in flight",
                kind="busy",
                retry_after_s=BUSY_S,
            )
        self._under_way += 1
        try:
            yield gate_of(self._scheduler)
        except StoreError:
            raise  # reported like every failure of the database
        except CourtlyError as error:
            raise self._problem(error) from error
        finally:
            self._under_way -= 1

    def _problem(self, error: CourtlyError) -> Problem:
        document = document_of(error)
        wait_s = None
        if document.status == 503:
            until = document.until
            wait_s = BUSY_S if until is None else max(0.0, until - self._clock.wall())
        return Problem(
            document.status,
            document.detail,
            kind=document.kind,
            attributes=document.attributes,
            retry_after_s=wait_s,
        )

    # ------------------------------------------------------------ permits

    async def permit(
        self, *, url: str, method: str, max_wait_s: float | None, expires_in_s: float
    ) -> responses.LentPermit:
        """Wait for a permit, and lend it until `end_permit`, or until it expires. Raises
        Problem."""
        with self._call() as gate:
            canonical, method = canonical_url(url), check_method(method)
            limit_s = seconds("max_wait_s", max_wait_s, zero_ok=True)
            waiting = LocalRequests(gate).permit(canonical, method, limit_s)
            return await self._lent.lend(waiting, expires_in_s)

    async def renew_permit(self, name: str, expires_in_s: float) -> responses.LentPermit:
        """Have a permit expire later. Raises Problem."""
        return self._lent.renew(name, expires_in_s)

    async def end_permit(
        self, name: str, status: int | None, headers: Mapping[str, str]
    ) -> responses.PermitEnded:
        """End the contact of a permit, with the answer if there was one. Raises Problem."""
        try:
            await self._lent.end(name, status, headers)
        except InvalidRequest as error:
            raise self._problem(error) from error
        return responses.PermitEnded(id=name)

    async def close(self) -> None:
        """End all permits."""
        await self._lent.close()


class FetchedBody(contextlib.AsyncExitStack):
    """A response and the pieces of its body. An async context manager: the contact of a streamed
    response lasts until its end."""

    def __init__(self, response: Response | StreamedResponse, pieces: AsyncIterator[bytes]) -> None:
        super().__init__()
        self.response = response
        self.pieces = pieces


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _arguments(*, text: str | None, body: str | None, **given: Any) -> RequestArguments:
    return read_arguments(**given, data=text, body=None if body is None else _decoded(body))


def _decoded(body: str) -> bytes:
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest("body", "must be base64; use text or json for text") from None


def description(response: Response | StreamedResponse, bytes_max: int) -> str:
    """A response without its body, as JSON in ASCII, for a header. If it is too long, the headers
    of redirects are left out, then the longest headers, and `shortened` is true."""
    hops = [_hop(one) for one in response.redirects]
    described = {**_hop(response), "redirects": hops}
    encoded = _ascii(described)
    if len(encoded) <= bytes_max:
        return encoded
    described["shortened"] = True
    for hop in hops:
        hop["headers"] = [pair for pair in hop["headers"] if pair[0].lower() == "location"]
    while len(encoded := _ascii(described)) > bytes_max and described["headers"]:
        described["headers"].remove(max(described["headers"], key=lambda pair: len(pair[1])))
    while len(encoded) > bytes_max and hops:
        hops.pop()
        encoded = _ascii(described)
    return encoded


def _hop(response: Response | StreamedResponse) -> dict[str, Any]:
    return {
        "url": response.url,
        "status": response.status,
        "headers": [[name, value] for name, value in response.headers.items()],
        "elapsed_s": response.elapsed_s,
    }


def _ascii(value: object) -> str:
    return json_module.dumps(value, separators=(",", ":"))
