"""A request of a session with its redirects and retries."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from crawler.embedding.caller_gate import CallerGate
from crawler.embedding.caller_waits import WaitLimit
from crawler.embedding.host_line import OWN, Caller
from crawler.embedding.request_arguments import RequestArguments
from crawler.embedding.response import Response
from crawler.embedding.streaming import BodyStream, redirect_target
from crawler.errors import FetchFailed, TooManyRedirects
from crawler.fetching.header_scope import services_of
from crawler.fetching.request import (
    Answer,
    Failure,
    Request,
    limits_of,
    service_of,
)
from crawler.frontier.frontier import REFUSALS
from crawler.frontier.host_queue import Permit
from policies.header_field import may_leave_origin
from policies.holds import HoldReason
from policies.retries import (
    FailureCode,
    GiveUp,
    RetryLater,
    RetryRules,
    after_failure,
    after_refusal,
)
from policies.url import host_of, origin_of

if TYPE_CHECKING:
    from crawler.embedding.response_cache import ResponseCache  # loads SQLite

REDIRECTS_MAX: Final = 10  # browsers follow 20; more than ten are a loop
# The longest wait before a retry, in seconds, unless the caller has set a limit. The backoffs after
# four refusals without a Retry-After are shorter.
RETRY_WAIT_S_MAX: Final = 600.0
# Only safe methods are repeated (RFC 9110, section 9.2.1).
RETRIED: Final = frozenset({"GET", "HEAD"})
# These turn any other method into a GET, as browsers do for POST (RFC 9110, section 15.4).
BECOMES_GET: Final = frozenset({301, 302, 303})
OF_A_BODY: Final = frozenset({"content-type", "content-encoding", "content-language"})


async def follow_redirects(
    client: CallerGate,
    asked: RequestArguments,
    caller: Caller = OWN,
    *,
    stream: BodyStream | None = None,
    cache: ResponseCache | None = None,
) -> Response:
    """Return the response, after its redirects if they are followed. stream: it passes on the body,
    which is then b"" in the response. cache: where responses are looked up and kept. Raises what
    `PoliteSession.fetch` raises."""
    url, method, body = asked.url, asked.method, asked.body
    sent: Mapping[str, str] = asked.headers
    seen: list[Response] = []
    services = apply_headers(client, url, caller)
    bare = False
    limit = WaitLimit(client.clock, asked.max_wait_s, caller)
    while True:
        rules = client.config.site(host_of(url)).fetch
        place = None if stream is not None or caller.bodies is None else caller.bodies.place()
        request = Request(
            url=url,
            method=method,
            headers=sent,
            data=body,
            limits=limits_of(max(asked.timeout_s or 0.0, rules.timeout_s), rules.max_body_bytes),
            bare=bare,
            anonymous=not caller.own,
            place=place,
        )
        response = None if cache is None else await cache.get(client.config, request)
        if response is None:
            retry = asked.retry and method in RETRIED
            answer = await _ask(
                client, request, limit, retry=retry, timeout_s=asked.timeout_s, stream=stream
            )
            if place is not None and place.has_room:
                place.settle(len(answer.body))
            response = Response(
                url=url,
                status=answer.status,
                headers=answer.headers,
                body=answer.body,
                elapsed_s=answer.elapsed_s,
            )
            if cache is not None:
                await cache.put(client.config, request, response, now_s=client.clock.wall())
        response = replace(response, redirects=tuple(seen))
        target = redirect_target(response) if asked.follow else None
        if target is None:
            return response
        if response.status in BECOMES_GET and method not in RETRIED:
            method, body = "GET", None
            sent = _without(sent, OF_A_BODY)
        if origin_of(target) != origin_of(url) and (body is not None or method not in RETRIED):
            return response  # it was meant for this origin alone
        seen.append(response)
        if len(seen) > REDIRECTS_MAX:
            raise TooManyRedirects([*(one.url for one in seen), target])
        if origin_of(target) != origin_of(url):  # and if they lead back: what is dropped stays so
            sent = {name: value for name, value in sent.items() if may_leave_origin(name)}
        url = target
        bare = service_of(url) not in services


async def _ask(
    client: CallerGate,
    request: Request,
    limit: WaitLimit,
    *,
    retry: bool,
    timeout_s: float | None = None,
    stream: BodyStream | None = None,
) -> Answer:
    """Request one hop, with its retries."""
    url = request.url
    attempts_max = RetryRules(max_attempts=client.config.site(host_of(url)).fetch.max_attempts)
    attempts = refusals = 0
    while True:
        permit = await client.enter(url, limit)
        result = await _contact(client, permit, request, timeout_s, stream)
        if isinstance(result, Answer) and result.status < 500 and result.status not in REFUSALS:
            return result
        fate: RetryLater | GiveUp
        if isinstance(result, Failure):
            if result.ours is HoldReason.LEASES_EXPIRED and (retry or not result.contacted):
                continue  # with the next permit
            if result.ours is not None:
                raise FetchFailed(url, result)  # a fault of this machine: the caller decides
            if not result.connected:
                # A failure of the host, which is tried again later, or given up.
                fate = RetryLater(in_s=0.0, attempts=attempts, refusals=refusals)
            else:
                fate = after_failure(
                    result.code,
                    attempts,
                    attempts_max,
                    refusals=refusals,
                    permanent=result.permanent,
                )
        elif result.status in REFUSALS:
            fate = after_refusal(refusals, attempts=attempts)
        else:
            fate = after_failure(FailureCode.HTTP, attempts, attempts_max, refusals=refusals)
        if not retry or isinstance(fate, GiveUp) or _is_too_long(client, url, fate, limit):
            if isinstance(result, Failure):
                raise FetchFailed(url, result)
            return result
        attempts, refusals = fate.attempts, fate.refusals
        if fate.in_s > 0:
            cause = result.error if isinstance(result, Failure) else f"status {result.status}"
            await client.waits.pause(url, fate.in_s, cause, limit)


def _is_too_long(client: CallerGate, url: str, fate: RetryLater, limit: WaitLimit) -> bool:
    """Whether a retry would wait for too long: the host's backoff included, such as a Retry-After.
    Where the caller has set a limit, that one applies instead."""
    most_s = min(RETRY_WAIT_S_MAX, limit.left_s)
    return not limit.chosen and max(fate.in_s, client.wait_s(url)) > most_s


async def _contact(
    client: CallerGate,
    permit: Permit,
    request: Request,
    timeout_s: float | None,
    stream: BodyStream | None,
) -> Answer | Failure:
    """Use the permit for one request. After `timeout_s`, which is the caller's, the request is
    cancelled: the caller's haste is not charged to the host, as its own limits are."""
    gate = client if stream is None else stream
    if timeout_s is None or timeout_s >= request.limits.timeout_s:
        return await gate.contact(permit, request)
    loop, clock = asyncio.get_running_loop(), client.clock
    began_s = clock.monotonic()
    limit = asyncio.timeout(None)
    timer = clock.call_at(began_s + timeout_s, lambda: limit.reschedule(loop.time()))
    try:
        async with limit:
            return await gate.contact(permit, request)
    except TimeoutError:
        if not limit.expired():
            raise
        return Failure(
            url=request.url,
            code=FailureCode.TIMEOUT,
            sentence=f"the response was not complete after {timeout_s:g} s",
            connected=True,
            permanent=False,
            started_s=began_s,
            ended_s=clock.monotonic(),
        )
    finally:
        timer.cancel()


def _without(headers: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in names}


def apply_headers(client: CallerGate, url: str, caller: Caller = OWN) -> frozenset[str]:
    """Apply the config's headers to the schemes and ports that this URL stands for, if the config
    belongs to the caller. A robots.txt redirected elsewhere is requested without them."""
    if caller.own:
        client.downloader.restrict_headers(url)
    return services_of(url)
