"""The daemon's HTTP, put together as an aiohttp application: routes, guards, errors, headers."""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import quote

from aiohttp import hdrs, web

from crawler.clock import Clock
from crawler.daemon import problem as problems
from crawler.daemon.answering.answers import Answers
from crawler.daemon.problem import Problem
from crawler.daemon.serving import openapi
from crawler.daemon.serving.events import events
from crawler.daemon.serving.guards import HEADERS, Guards, HttpSettings, cookie_name
from crawler.daemon.serving.routes import ROUTES, Route

__all__ = [
    "ANSWERS",
    "GUARDS",
    "LOGIN_PAGE",
    "PROBLEM_PAGE",
    "PUBLIC",
    "HttpSettings",
    "build",
]

BODY_BYTES_MAX = 4_000_000  # a request's: ten thousand seeds, or a robots.txt of 500 KiB in JSON
BODY_S = 30.0
FORM_BYTES_MAX = 10_000  # of the login form, which anybody may send
JSON_TYPE: Final = "application/json"
FORM_TYPE: Final = "application/x-www-form-urlencoded"

ANSWERS = web.AppKey("answers", Answers)
GUARDS = web.AppKey("guards", Guards)

# What the pages put in, if they are there: (what went wrong or "", where to go on) -> HTML, and
# HTML for a problem. Without them both are plain.
LOGIN_PAGE: web.AppKey[Callable[[str, str], str]] = web.AppKey("login_page")
PROBLEM_PAGE: web.AppKey[Callable[[Problem], str]] = web.AppKey("problem_page")

# Needs no token: whether it is alive, the way in, and what the login form looks like.
PUBLIC: Final = frozenset({"/healthz", "/login"})
PUBLIC_UNDER: Final = "/static/"

_log = logging.getLogger("courtly.http")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def build(answers: Answers, settings: HttpSettings, *, clock: Clock) -> web.Application:
    """The application: JSON under /api, /healthz, /login and /logout.

    Pages add theirs with `app.router`, and get the same guards: a POST that a form sends needs no
    token in the form, because Origin, Sec-Fetch-Site and a SameSite cookie are checked before.
    What a handler raises as `Problem` is told: as HTML to who accepts that outside of /api.
    """
    app = web.Application(middlewares=[_tell, _guard], client_max_size=BODY_BYTES_MAX)
    app[ANSWERS] = answers
    app[GUARDS] = Guards(settings, clock)
    app[LOGIN_PAGE] = _plain_login
    app[PROBLEM_PAGE] = _plain_problem
    app.on_response_prepare.append(_add_headers)
    app.router.add_get("/healthz", _healthz)
    app.router.add_get("/api/openapi.json", _openapi)
    app.router.add_get("/openapi.json", _openapi)  # where tools look first
    app.router.add_get("/api/events", events(answers, app[GUARDS], clock), allow_head=False)
    for route in ROUTES:
        if route.method == hdrs.METH_GET:
            app.router.add_get(route.path, _handler(route))
        else:
            app.router.add_post(route.path, _handler(route))
    if settings.token:
        app.router.add_get("/login", _login_form)
        app.router.add_post("/login", _login)
        app.router.add_post("/logout", _logout)
    return app


def _handler(route: Route) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        raw = await _json_body(request) if route.body is not None else b""
        return as_json(await route.serve(request.app[ANSWERS], request.query.items(), raw))

    return handle


async def _json_body(request: web.Request) -> bytes:
    """The body, if it is said to be JSON: what a form of another site can send is not. A program
    may leave that unsaid; a browser, which says where it comes from, may not."""
    async with _in_time():
        raw = await request.read()
    said = (hdrs.CONTENT_TYPE, hdrs.ORIGIN, "Sec-Fetch-Site")
    unsaid = not any(name in request.headers for name in said)
    if raw and request.content_type != JSON_TYPE and not unsaid:
        raise Problem(415, f"the body must be {JSON_TYPE}", field="Content-Type")
    return raw


@contextlib.asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    """For a body to come whole: whoever sends it a byte at a time keeps no memory for ever."""
    try:
        async with asyncio.timeout(BODY_S):
            yield
    except TimeoutError:
        sentence = f"the body did not come within {BODY_S:.0f} s"
        raise Problem(408, sentence, field="body") from None


def as_json(value: object, *, status: int = 200, content_type: str = JSON_TYPE) -> web.Response:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    body = text.encode("utf-8", "replace")  # a lone surrogate from the web is no UTF-8
    return web.Response(body=body, status=status, content_type=content_type, charset="utf-8")


async def _healthz(_request: web.Request) -> web.StreamResponse:
    return as_json({"status": "ok"})


async def _openapi(_request: web.Request) -> web.StreamResponse:
    return as_json(openapi.description())


# ------------------------------------------------------------ what goes wrong


@web.middleware
async def _tell(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Problems as their bodies; what nobody expected is logged, and no more is told than that it
    happened."""
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
            raise
        response = _problem_response(request, Problem(error.status, error.reason))
        if allow := error.headers.get(hdrs.ALLOW):
            response.headers[hdrs.ALLOW] = allow
        return response
    except ConnectionError:  # who asked is gone
        raise
    except Exception:  # noqa: BLE001 - one request that fails must not end the crawl
        _log.exception("a request failed: %s %s", request.method, request.path)
        return _problem_response(
            request, Problem(500, "the daemon failed to answer; its log says why")
        )


def _problem_response(request: web.Request, problem: Problem) -> web.Response:
    headers: dict[str, str] = {}
    if problem.retry_after_s is not None:
        headers[hdrs.RETRY_AFTER] = str(max(1, round(problem.retry_after_s + 0.5)))
    wants_page = "text/html" in request.headers.get(hdrs.ACCEPT, "")
    if wants_page and not request.path.startswith("/api/"):
        if problem.status == 401 and request.method == hdrs.METH_GET:
            return web.Response(status=303, headers={hdrs.LOCATION: _login_for(request)})
        page = request.app[PROBLEM_PAGE](problem)
        return web.Response(
            text=page, status=problem.status, content_type="text/html", headers=headers
        )
    response = as_json(problem.body(), status=problem.status, content_type=problems.CONTENT_TYPE)
    if problem.status == 401:
        headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
    response.headers.update(headers)
    return response


def _plain_problem(problem: Problem) -> str:
    return _page(problem.title, f"<p>{html.escape(problem.detail)}</p>")


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    public = request.path in PUBLIC or request.path.startswith(PUBLIC_UNDER)
    request.app[GUARDS].check(request, public=public)
    return await handler(request)


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = HEADERS["Server"]


# ------------------------------------------------------------ the way in


def _login_for(request: web.Request) -> str:
    here = request.path_qs
    return "/login" if here == "/" else f"/login?next={quote(here, safe='')}"


def _next(given: str) -> str:
    """Where to go on after the login: a path of ours, and nothing that a browser would read as the
    address of another site."""
    if not given.startswith("/") or given.startswith("//") or "\\" in given:
        return "/"
    return given if given.isprintable() and given.isascii() else "/"


async def _login_form(request: web.Request) -> web.StreamResponse:
    page = request.app[LOGIN_PAGE]("", _next(request.query.get("next", "/")))
    return web.Response(text=page, content_type="text/html")


async def _login(request: web.Request) -> web.StreamResponse:
    """Takes the token once and gives a session's name in its place; the browser forgets that at its
    end, too."""
    if request.content_type != FORM_TYPE:
        raise Problem(415, f"the form must be {FORM_TYPE}", field="Content-Type")
    if request.content_length is None:
        raise Problem(411, "the form's length is needed", field="Content-Length")
    if request.content_length > FORM_BYTES_MAX:
        raise Problem(413, f"the form is longer than {FORM_BYTES_MAX:,} bytes", field="body")
    async with _in_time():
        form: Mapping[str, object] = await request.post()
    token, onward = form.get("token"), form.get("next", "/")
    onward = _next(onward if isinstance(onward, str) else "/")
    guards = request.app[GUARDS]
    try:
        guards.check_token(token.strip() if isinstance(token, str) else "", request)
    except Problem as problem:
        if "text/html" not in request.headers.get(hdrs.ACCEPT, ""):
            raise
        page = request.app[LOGIN_PAGE](problem.detail, onward)
        return web.Response(text=page, status=problem.status, content_type="text/html")
    assert guards.sessions is not None
    _close_session(request)
    response = web.Response(status=303, headers={hdrs.LOCATION: onward})
    response.set_cookie(
        cookie_name(request),
        guards.sessions.open(),
        path="/",
        httponly=True,
        samesite="Strict",
        secure=request.headers.get(hdrs.ORIGIN, "").startswith("https:"),
    )
    return response


async def _logout(request: web.Request) -> web.StreamResponse:
    _close_session(request)
    response = web.Response(status=303, headers={hdrs.LOCATION: "/login"})
    response.del_cookie(cookie_name(request), path="/", httponly=True, samesite="Strict")
    return response


def _close_session(request: web.Request) -> None:
    sessions = request.app[GUARDS].sessions
    name = request.cookies.get(cookie_name(request))
    if sessions is not None and name is not None:
        sessions.close(name)


def _plain_login(wrong: str, onward: str) -> str:
    said = f'<p role="alert">{html.escape(wrong)}</p>' if wrong else ""
    return _page(
        "Log in",
        f'{said}<form method="post" action="/login">'
        f'<input type="hidden" name="next" value="{html.escape(onward)}">'
        '<label>Token <input type="password" name="token" autocomplete="current-password" required>'
        "</label> <button>Log in</button></form>",
    )


def _page(title: str, body: str) -> str:
    shown = html.escape(title)
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{shown}</title></head>'
        f"<body><h1>{shown}</h1>{body}</body></html>"
    )
