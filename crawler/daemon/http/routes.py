"""The JSON routes as a table, from which the server and the OpenAPI description are made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import asdict

from crawler.daemon import responses
from crawler.daemon.api.operations import Operations
from crawler.daemon.http import request_types as types
from crawler.daemon.http.request_types import NoParams, Strict, read_body, read_query
from crawler.steering.live_state import Reloaded, SeedsAdded


@dataclass(frozen=True, slots=True)
class Route:
    """One route. `call` takes the operations and the decoded request: `query` of a GET, `body` of a
    POST, or both. `answer`: the type that it returns."""

    method: str
    path: str
    summary: str
    answer: type
    call: Callable[[Operations, Any], Awaitable[object]]
    query: type[Strict] = NoParams
    body: type[Strict] | None = None

    async def serve(
        self, operations: Operations, items: Iterable[tuple[str, str]], raw: bytes
    ) -> object:
        """Decode a request and run it. `items`: of the query. Raises Problem."""
        request = read_query(items, self.query)
        if self.body is not None:
            body = read_body(raw, self.body)
            request = body if self.query is NoParams else request
        return await self.call(operations, request)


def _get(
    path: str,
    summary: str,
    answer: type,
    call: Callable[[Operations, Any], Awaitable[object]],
    query: type[Strict] = NoParams,
) -> Route:
    return Route("GET", path, summary, answer, call, query)


def _post(
    path: str,
    summary: str,
    answer: type,
    call: Callable[[Operations, Any], Awaitable[object]],
    body: type[Strict] = NoParams,
    query: type[Strict] = NoParams,
) -> Route:
    return Route("POST", path, summary, answer, call, query, body)


def _strings(given: str | list[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)


ROUTES: tuple[Route, ...] = (
    _get(
        "/api/status",
        "Describe what the crawl is doing now.",
        responses.Status,
        lambda do, _: do.status(),
    ),
    _get(
        "/api/hosts",
        "List hosts: by name, by state, sorted.",
        responses.Hosts,
        lambda do, query: do.hosts(**asdict(query)),
        types.HostsParams,
    ),
    _get(
        "/api/host",
        "Describe one host, with its robots.txt copies and recent contacts.",
        responses.HostDetail,
        lambda do, query: do.host(query.host),
        types.HostParams,
    ),
    _post(
        "/api/hosts/pause",
        "Begin no request to this host; durable.",
        responses.Controlled,
        lambda do, body: do.host_pause(body.host),
        types.HostBody,
    ),
    _post(
        "/api/hosts/resume",
        "Undo pause and slow of this host; durable.",
        responses.Controlled,
        lambda do, body: do.host_resume(body.host),
        types.HostBody,
    ),
    _post(
        "/api/hosts/slow",
        "Set the minimum delay between requests to this host; durable.",
        responses.Controlled,
        lambda do, body: do.host_slow(body.host, body.delay_s),
        types.SlowBody,
    ),
    _get(
        "/api/url",
        "Explain the state of a URL.",
        responses.UrlAnswer,
        lambda do, query: do.url(query.url),
        types.UrlParams,
    ),
    _get(
        "/api/blocked",
        "List blocked URLs, of one host, by rules that contain a string.",
        responses.BlockedPage,
        lambda do, query: do.blocked(**asdict(query)),
        types.BlockedParams,
    ),
    _get(
        "/api/robots",
        "Return the robots.txt stored for an origin, line by line.",
        responses.RobotsCopy,
        lambda do, query: do.robots(query.origin),
        types.OriginParams,
    ),
    _get(
        "/api/config",
        "Return the effective settings, of one host if it is named; without secrets.",
        responses.Settings,
        lambda do, query: do.config(query.host),
        types.ConfigParams,
    ),
    _post(
        "/api/seeds",
        "Queue seeds.",
        SeedsAdded,
        lambda do, body: do.seeds(body.urls, body.priority),
        types.SeedsBody,
    ),
    _post(
        "/api/retry",
        "Queue failed URLs again, of one host or error code if it is named.",
        responses.Retried,
        lambda do, body: do.retry(body.host, body.code),
        types.RetryBody,
    ),
    _post(
        "/api/pause",
        "Begin no request until the crawl is resumed.",
        responses.StateAnswer,
        lambda do, _: do.pause(),
    ),
    _post(
        "/api/resume",
        "Begin requests again.",
        responses.StateAnswer,
        lambda do, _: do.resume(),
    ),
    _post(
        "/api/reload",
        "Reload the config; with dry_run, only report what would change.",
        Reloaded,
        lambda do, query: do.reload(dry_run=query.dry_run),
        query=types.ReloadParams,
    ),
    _post(
        "/api/robots/check",
        "Judge URLs by a robots.txt in the request, or by that of a site.",
        responses.Checked,
        lambda do, body: do.robots_check(
            urls=body.urls,
            robots=body.robots,
            url=body.url,
            agent=_strings(body.agent),
            dialect=_strings(body.dialect),
        ),
        types.CheckBody,
    ),
)
