"""The login of the console: a token for a session cookie."""

from __future__ import annotations

from urllib.parse import quote

from aiohttp import hdrs, web

from crawler.console.rendering import Renderer
from crawler.daemon.http.application import GUARDS
from crawler.daemon.http.bodies import form_fields
from crawler.daemon.http.guards import cookie_name
from crawler.daemon.problem import Problem

FORM_BYTES_MAX = 10_000  # of the form, which needs no token


class Login:
    """The pages that need no login: its form, and those for problems
    (`crawler.daemon.http.application.ErrorPages`)."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    def of(self, request: web.Request, problem: Problem) -> web.Response:
        if problem.status == 401 and request.method == hdrs.METH_GET:
            return web.Response(status=303, headers={hdrs.LOCATION: _way_to_login(request)})
        page = self._renderer.problem(problem)
        return web.Response(text=page, status=problem.status, content_type="text/html")

    async def form(self, request: web.Request) -> web.StreamResponse:
        page = self._renderer.login("", _next(request.query.get("next", "/")))
        return web.Response(text=page, content_type="text/html")

    async def log_in(self, request: web.Request) -> web.StreamResponse:
        """Exchange the token for a session cookie, which the browser drops when it is closed."""
        if request.content_length is None:
            raise Problem(
                411, "the form must be sent with a Content-Length header", field="Content-Length"
            )
        if request.content_length > FORM_BYTES_MAX:
            raise Problem(413, f"the form is longer than {FORM_BYTES_MAX:,} bytes", field="body")
        form = await form_fields(request)
        token, onward = form.get("token", ""), _next(form.get("next", "/"))
        guards = request.app[GUARDS]
        try:
            found = guards.account_of(token.strip(), request)
        except Problem as problem:
            if "text/html" not in request.headers.get(hdrs.ACCEPT, ""):
                raise
            page = self._renderer.login(problem.detail, onward)
            return web.Response(text=page, status=problem.status, content_type="text/html")
        assert guards.sessions is not None
        guards.count(request, found, guards.client_of(request))
        _close_session(request)
        response = web.Response(status=303, headers={hdrs.LOCATION: onward})
        response.set_cookie(
            cookie_name(request),
            guards.sessions.open(found),
            path=_cookie_path(request),
            httponly=True,
            samesite="Strict",
            secure=request.secure or request.headers.get(hdrs.ORIGIN, "").startswith("https:"),
        )
        return response

    async def log_out(self, request: web.Request) -> web.StreamResponse:
        _close_session(request)
        response = web.Response(status=303, headers={hdrs.LOCATION: "/login"})
        response.del_cookie(
            cookie_name(request), path=_cookie_path(request), httponly=True, samesite="Strict"
        )
        return response


def _way_to_login(request: web.Request) -> str:
    here = request.path_qs
    return "/login" if here == "/" else f"/login?next={quote(here, safe='')}"


def _next(given: str) -> str:
    """Where to redirect after the login: a path of this server, and nothing that a browser would
    take for the address of another site."""
    if not given.startswith("/") or given.startswith("//") or "\\" in given:
        return "/"
    return given if given.isprintable() and given.isascii() else "/"


def _cookie_path(request: web.Request) -> str:
    return request.app[GUARDS].settings.base_path or "/"


def _close_session(request: web.Request) -> None:
    sessions = request.app[GUARDS].sessions
    name = request.cookies.get(cookie_name(request))
    if sessions is not None and name is not None:
        sessions.close(name)
