"""Redirects that aiohttp follows, hop by hop through a middleware: what may go along to another
origin."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from aiohttp import ClientRequest
from aiohttp.payload import Payload

from crawler.errors import InvalidRequest
from crawler.fetching.client_session import is_public

_SAFE: Final = frozenset({"GET", "HEAD"})


class RedirectChains:
    """Knows which requests of aiohttp's client follow a redirect, and drops what must not follow.

    All hops of one call share its timer. The last call of each task is remembered.
    """

    def __init__(self) -> None:
        self._last: ContextVar[tuple[object, str, bool] | None] = ContextVar("hop", default=None)

    def pass_on(self, request: ClientRequest) -> None:
        """Before a hop is sent: if it, or one before it, left the origin of the one before, drop
        all headers but harmless ones, and the cookies that its own jar does not have for it. Raises
        InvalidRequest if it would take a body or an unsafe method to another origin."""
        call, origin = request._timer, str(request.url.origin())  # noqa: SLF001
        last = self._last.get()
        left = False
        if last is not None and last[0] is call:
            left = last[2] or last[1] != origin
        self._last.set((call, origin, left))
        if not left:
            return
        if request.method not in _SAFE or isinstance(request.body, Payload) or request.body:
            raise InvalidRequest(
                "allow_redirects",
                f"a redirect leads to another origin, {origin}: neither a {request.method} request "
                "nor a body is sent on to it",
            )
        for name in {name for name in request.headers if not is_public(name)}:
            del request.headers[name]
        if cookies := request.session.cookie_jar.filter_cookies(request.url):
            request.headers["Cookie"] = cookies.output(attrs=[], header="", sep=";").strip()
