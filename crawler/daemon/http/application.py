"""The aiohttp application of the API: routes, guards, errors and headers."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Protocol

import msgspec
from aiohttp import hdrs, web

from crawler.clock import Clock
from crawler.daemon import problem as problems
from crawler.daemon.api.operations import Operations
from crawler.daemon.http import openapi
from crawler.daemon.http.bodies import as_json, json_body
from crawler.daemon.http.caller_routes import add_caller_routes
from crawler.daemon.http.commands import answered, route_of
from crawler.daemon.http.guards import HEADERS, Guards, HttpSettings
from crawler.daemon.http.routes import ROUTES, Route
from crawler.daemon.monitoring.access_log import AccessLog
from crawler.daemon.monitoring.event_stream import Listener
from crawler.daemon.problem import Problem
from crawler.daemon.responses import Liveness
from crawler.front_door import bodies, connections
from crawler.front_door.connections import while_connected
from crawler.front_door.request_handler import CLIENT_ERRORS
from storage.store import StoreError

BODY_BYTES_MAX = 4_000_000  # 10,000 seeds, or a robots.txt of 500 KiB in JSON
UNAVAILABLE_S = 5.0  # before a request is repeated that the database could not answer

OPERATIONS = web.AppKey("operations", Operations)
GUARDS = web.AppKey("guards", Guards)
STATUS_EVERY_S = 1.0
WRITE_S = 20.0  # for written data to be sent; a slower listener is disconnected
RETRY_MS = 2_000  # before a browser reconnects


class ErrorPages(Protocol):
    """What browsers get in place of a problem document, where there is a console."""

    def of(self, request: web.Request, problem: Problem) -> web.Response:
        """An error page, or the way to the login."""
        ...


ERROR_PAGES: web.AppKey[ErrorPages] = web.AppKey("error_pages")

# Requests that need no token: the health checks, the login form and its files.
PUBLIC: Final = frozenset({"/healthz", "/readyz", "/login"})
PUBLIC_UNDER: Final = "/static/"

_log = logging.getLogger("courtly.http")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def build(
    operations: Operations,
    settings: HttpSettings,
    *,
    clock: Clock,
    access: AccessLog | None = None,
) -> web.Application:
    """The application: JSON under /api, /healthz and /readyz.

    Further routes may be added with `app.router`; the same guards apply. Forms need no CSRF token,
    because Origin, Sec-Fetch-Site and a SameSite cookie are checked. A `Problem` that a handler
    raises becomes JSON; outside of /api, for clients that accept HTML, what ERROR_PAGES make of it.
    access: where refused requests are logged.
    """
    app = web.Application(middlewares=[_errors, _guard, _act], client_max_size=BODY_BYTES_MAX)
    app[OPERATIONS] = operations
    app[GUARDS] = Guards(settings, clock, access)
    app.on_response_prepare.append(_add_headers)
    app.router.add_get("/healthz", _healthz)
    app.router.add_get("/readyz", _readyz)
    app.router.add_get("/api/openapi.json", _openapi)
    app.router.add_get("/openapi.json", _openapi)  # where tools look first
    app.router.add_get("/api/events", events(operations, app[GUARDS], clock), allow_head=False)
    for route in ROUTES:
        add = app.router.add_get if route.method == hdrs.METH_GET else app.router.add_post
        add(route.path, _handler(route))
    add_caller_routes(app, operations.callers)
    return app


def _handler(route: Route) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        raw = await json_body(request) if route.method == hdrs.METH_POST else b""
        answer = route.serve(request.app[OPERATIONS], request.query.items(), raw)
        return as_json(await (while_connected(request, answer) if route.waits else answer))

    return handle


async def _healthz(_request: web.Request) -> web.StreamResponse:
    return as_json(Liveness(status="ok"))


async def _readyz(request: web.Request) -> web.StreamResponse:
    found = await request.app[OPERATIONS].readiness()
    return as_json(found, status=200 if found.status == "ready" else 503)


async def _openapi(request: web.Request) -> web.StreamResponse:
    base_path = request.app[GUARDS].settings.base_path
    servers = {"servers": [{"url": base_path}]} if base_path else {}
    return as_json({**openapi.description(), **servers})


# ------------------------------------------------------------ errors


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn exceptions into responses. Unexpected ones are logged, and not described to the
    client."""
    try:
        return await handler(request)
    except Problem as problem:
        return _problem_response(request, problem)
    except web.HTTPRequestEntityTooLarge as error:
        limit = error.headers.get("X-Limit") or f"{BODY_BYTES_MAX:,}"
        return _problem_response(
            request, Problem(413, f"the body is longer than {limit} bytes", field="body")
        )
    except web.HTTPException as error:
        if error.status < 400:
            # Not raised any further: aiohttp would send the exception itself, which its traceback
            # refers to, and the request with it, until the garbage collector runs.
            location = error.headers[hdrs.LOCATION]
            return web.Response(status=error.status, headers={hdrs.LOCATION: location})
        response = _problem_response(request, Problem(error.status, error.reason))
        if allow := error.headers.get(hdrs.ALLOW):
            response.headers[hdrs.ALLOW] = allow
        return response
    except StoreError as error:  # which the crawl meets and reports, too
        unavailable = Problem(503, str(error), retry_after_s=UNAVAILABLE_S)
        return _problem_response(request, unavailable)
    except CLIENT_ERRORS as error:
        guards = request.app[GUARDS]
        guards.access.malformed(guards.client_of(request), type(error).__name__)
        return _problem_response(request, Problem(400, "the body is not valid HTTP", field="body"))
    except ConnectionError:  # the client is gone: nobody reads this
        return web.Response(status=400)
    except Exception:  # noqa: BLE001 - one request that fails must not end the crawl
        _log.exception("a request failed: %s", route_of(request) or "an unknown page")
        return _problem_response(
            request, Problem(500, "the daemon failed to answer; its log says why")
        )


def _problem_response(request: web.Request, problem: Problem) -> web.Response:
    headers: dict[str, str] = {}
    if problem.retry_after_s is not None:
        headers[hdrs.RETRY_AFTER] = str(max(1, round(problem.retry_after_s + 0.5)))
    wants_page = "text/html" in request.headers.get(hdrs.ACCEPT, "")
    if wants_page and not request.path.startswith("/api/") and ERROR_PAGES in request.app:
        response = request.app[ERROR_PAGES].of(request, problem)
        response.headers.update(headers)
        return response
    response = as_json(problem.body(), status=problem.status, content_type=problems.CONTENT_TYPE)
    if problem.status == 401:
        headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
    response.headers.update(headers)
    return response


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.path == bodies.PATH:  # for any name that led here: it says nothing of the crawl
        return web.Response(body=bodies.BODY, content_type=bodies.CONTENT_TYPE)
    public = request.path in PUBLIC or request.path.startswith(PUBLIC_UNDER)
    request.app[GUARDS].check(request, public=public)
    return await handler(request)


@web.middleware
async def _act(request: web.Request, handler: Handler) -> web.StreamResponse:
    guards = request.app[GUARDS]

    async def permitted(request: web.Request) -> web.StreamResponse:
        guards.check_role(request)
        return await handler(request)

    return await answered(request, permitted, guards.access, local=guards.settings.local)


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the headers of every response, and the path prefix to redirects."""
    if (onward := response.headers.get(hdrs.LOCATION, "")).startswith("/"):
        response.headers[hdrs.LOCATION] = request.app[GUARDS].settings.base_path + onward
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = HEADERS["Server"]


def events(
    operations: Operations, guards: Guards, clock: Clock
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The handler of GET /api/events, server-sent events (WHATWG HTML, section 9.2).

    It sends `status` immediately and then every second, as a heartbeat as well, and `contact`,
    `change`, `gave_up` and `hold` as they happen. It ends when the listener is too slow, when its
    session ends, or when the daemon stops.
    """

    async def handle(request: web.Request) -> web.StreamResponse:
        with guards.streaming(request):
            response = web.StreamResponse(
                headers={hdrs.CONTENT_TYPE: "text/event-stream", "X-Accel-Buffering": "no"}
            )
            with operations.stream.listening() as listener, suppress(ConnectionError):
                await response.prepare(request)
                try:
                    await _write(response, f"retry: {RETRY_MS}\n\n".encode())
                    while guards.may_stay(request):
                        ends_s = clock.monotonic() + STATUS_EVERY_S
                        await _write(response, as_event("status", await operations.status()))
                        if not await _write_until(listener, response, clock, ends_s):
                            break
                except TimeoutError:
                    connections.abort(request)  # a clean end would wait for the listener
            return response

    return handle


async def _write_until(
    listener: Listener, response: web.StreamResponse, clock: Clock, ends_s: float
) -> bool:
    """Write events until `ends_s`. False: there will be no more."""
    while (left_s := ends_s - clock.monotonic()) > 0:
        try:
            async with asyncio.timeout(left_s):
                event = await listener.next()
        except TimeoutError:
            return True
        if event is None:
            return False
        await _write(response, as_event(event.kind, event.data))
    return True


async def _write(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(WRITE_S):
        await response.write(data)


def as_event(kind: str, data: object) -> bytes:
    """JSON contains no line ends, so one `data:` line is enough."""
    text = json.dumps(msgspec.to_builtins(data), separators=(",", ":"), allow_nan=False)
    return f"event: {kind}\ndata: {text}\n\n".encode()
