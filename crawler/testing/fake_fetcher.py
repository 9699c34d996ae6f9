"""A fetcher without a network: it answers from a table or a function, on any clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import structs
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.clock import Clock
from crawler.fetching.request import (
    UNCONNECTED,
    Answer,
    BodySink,
    Failure,
    Head,
    Headers,
    OversizeError,
    Request,
)
from crawler.testing.local_web import Reply, not_found
from crawler.testing.request_log import LoggedRequest, RequestLog
from policies.retries import FailureCode
from policies.url import host_of, path_of

LOOPBACK = "127.0.0.1"
PIECE_BYTES = 1_000  # per call of a body sink
Answers = Mapping[str, Reply | FailureCode] | Callable[[Request], Reply | FailureCode]


class FakeFetcher:
    """Stands in for the network: `FakeFetcher(clock, {"http://a.test/": html("Home")})`.

    `answers` maps a URL to a `Reply` (whose `body_s` is ignored) or to a failure code, or is a
    function that returns one of these for a request. A URL that is not in the mapping answers 404.
    Every request takes `latency_s` plus the reply's `delay_s` on `clock`, and is recorded in `log`.
    Hosts that are not in `addresses` have the address 127.0.0.1.
    """

    def __init__(self, clock: Clock, answers: Answers, *, latency_s: float = 0.05) -> None:
        self.log = RequestLog()
        self.addresses: dict[str, str] = {}
        self._clock = clock
        self._answers = answers
        self._latency_s = latency_s

    async def address_of(self, host: str) -> str | Failure:
        return self.addresses.get(host, LOOPBACK)

    async def fetch(self, request: Request) -> Answer | Failure:
        """Answer a request; see `crawler.fetching.request.Fetcher`."""
        entry = LoggedRequest(
            host=host_of(request.url),
            path=path_of(request.url),
            headers={name.lower(): value for name, value in request.headers.items()},
            start_s=self._clock.monotonic(),
        )
        self.log.append(entry)
        try:
            reply = self._reply(request)
            limit_s = request.limits.timeout_s
            delay_s = self._latency_s + (reply.delay_s if isinstance(reply, Reply) else 0.0)
            await self._clock.sleep_until(entry.start_s + min(delay_s, limit_s))
        finally:
            entry.end_s = self._clock.monotonic()
        if delay_s > limit_s:
            reply = FailureCode.TIMEOUT
        if isinstance(reply, Reply) and reply.broken:
            code = FailureCode.BODY if reply.status else FailureCode.PROTOCOL
            return _failure(request, entry, code, reply)
        if isinstance(reply, FailureCode):
            return _failure(request, entry, reply)
        entry.status = reply.status
        answer = _answer(request, entry, reply, self.addresses.get(entry.host, LOOPBACK))
        if isinstance(answer, Answer) and answer.body_read and request.reader is not None:
            head = Head(url=request.url, status=answer.status, headers=answer.headers)
            sink = request.reader.sink(head)
            if sink is not None:
                return await self._pour(request, entry, answer, sink)
        return answer

    async def _pour(
        self, request: Request, entry: LoggedRequest, answer: Answer, sink: BodySink
    ) -> Answer | Failure:
        try:
            for start in range(0, len(answer.body), PIECE_BYTES):
                if not await sink.take(answer.body[start : start + PIECE_BYTES]):
                    break
            await sink.end()
        except OversizeError:
            return _failure(request, entry, FailureCode.TOO_LARGE)
        finally:
            entry.end_s = self._clock.monotonic()
        return structs.replace(answer, body=b"", poured_bytes=len(answer.body), ended_s=entry.end_s)

    def _reply(self, request: Request) -> Reply | FailureCode:
        if callable(self._answers):
            return self._answers(request)
        return self._answers.get(request.url, not_found())


def _answer(request: Request, entry: LoggedRequest, reply: Reply, address: str) -> Answer | Failure:
    body = reply.body.encode() if isinstance(reply.body, str) else reply.body
    head = Head(url=request.url, status=reply.status, headers=_headers(reply))
    reader = request.reader
    wanted = reader is None or reader.wants_body(head)
    poured = wanted and reader is not None and reader.sink(head) is not None
    bytes_max = len(body) if poured else request.limits.body_bytes_max
    cut = wanted and len(body) > bytes_max
    if cut and not request.cut_ok:
        return _failure(request, entry, FailureCode.TOO_LARGE, reply)
    return Answer(
        url=request.url,
        status=reply.status,
        headers=head.headers,
        body=body[:bytes_max] if wanted else b"",
        body_read=wanted,
        cut=cut,
        wire_bytes=len(body) if wanted else 0,
        started_s=entry.start_s,
        ended_s=entry.end_s,
        address=address,
        latency_s=entry.end_s - entry.start_s,
    )


def _headers(reply: Reply) -> Headers:
    headers = CIMultiDict(reply.headers)
    headers.setdefault("Content-Type", reply.content_type)
    return CIMultiDictProxy(headers)


def _failure(
    request: Request, entry: LoggedRequest, code: FailureCode, reply: Reply | None = None
) -> Failure:
    """reply: that of which the header arrived."""
    answered = reply is not None and reply.status
    return Failure(
        status=reply.status if reply is not None and answered else None,
        headers=_headers(reply) if reply is not None and answered else None,
        url=request.url,
        code=code,
        sentence=f"a fake failure ({code})",
        connected=code not in UNCONNECTED,
        permanent=code is FailureCode.ADDRESS,
        started_s=entry.start_s,
        ended_s=entry.end_s,
        contacted=code is not FailureCode.ADDRESS,
    )
