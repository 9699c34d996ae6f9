"""The daemon's web page: rendered by the server, without a build step and without foreign hosts.

`add_pages(app, answers, watch, clock)` adds all of it to an application, after its other routes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from crawler.clock import Clock
from crawler.daemon.answers import Answers
from crawler.daemon.problem import Problem
from crawler.daemon.watch import Watch
from crawler.daemon.web.assets import PREFIX, Assets
from crawler.daemon.web.forms import Forms
from crawler.daemon.web.pages import Pages
from crawler.daemon.web.render import NAV, Renderer

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class LoginPage:
    """The form that asks for the token, for the route that checks it. It needs no `Answers`: who
    has not logged in is told nothing of the crawl."""

    def __init__(self, clock: Clock) -> None:
        self._renderer = Renderer(Assets())
        self._clock = clock

    def response(
        self,
        *,
        problem: str = "",
        back: str = "",
        status: int = 200,
        action: str = "/login",
    ) -> web.Response:
        """The form posts `token` to `action`, and `next` where `back`, a path of ours, is given."""
        values = {
            "status": None,
            "now_s": self._clock.wall(),
            "page": "login",
            "said": None,
            "live": False,
            "problem": problem,
            "back": back,
            "action": action,
        }
        return self._renderer.response("login.html", values, status=status)


def add_pages(app: web.Application, answers: Answers, watch: Watch, clock: Clock) -> None:
    """Routes of the pages, their files and, last of all, of every path there is not."""
    assets = Assets()
    renderer = Renderer(assets)
    pages = Pages(answers, watch, clock, renderer)
    forms = Forms(answers, pages, renderer)

    async def told(problem: Problem, request: web.Request) -> web.Response:
        """A problem as a page. A crawl that cannot even give its status is no reason for none."""
        values: dict[str, object] = {
            "status": None,
            "now_s": clock.wall(),
            "page": "",
            "nav": NAV,
            "said": None,
            "live": False,
            "code": problem.status,
            "title": problem.title,
            "detail": problem.detail,
            "back": "/hosts" if request.path.startswith("/host") else None,
        }
        return renderer.response("problem.html", values, status=problem.status)

    def page(handler: Handler) -> Handler:
        async def handled(request: web.Request) -> web.StreamResponse:
            try:
                return await handler(request)
            except Problem as problem:
                return await told(problem, request)

        return handled

    async def nowhere(request: web.Request) -> web.StreamResponse:
        raise Problem(404, f"There is nothing at {request.path[:200]}.", title="Not found")

    app.add_routes(
        [
            web.get("/", page(pages.overview)),
            web.get("/hosts", page(pages.hosts)),
            web.get("/host", page(pages.host)),
            web.post("/host/pause", page(forms.host_pause)),
            web.post("/host/resume", page(forms.host_resume)),
            web.post("/host/slow", page(forms.host_slow)),
            web.get("/blocked", page(pages.blocked)),
            web.get("/url", page(pages.url)),
            web.get("/tester", page(forms.tester)),
            web.post("/tester", page(forms.test)),
            web.get("/seeds", page(forms.seeds)),
            web.post("/seeds", page(forms.add_seeds)),
            web.get("/config", page(pages.config)),
            web.get("/config/reload", page(forms.reload)),
            web.post("/config/reload", page(forms.reload)),
            web.post("/crawl/pause", page(forms.pause)),
            web.post("/crawl/resume", page(forms.resume)),
            web.get(PREFIX + "{name}", assets.serve),
            web.get("/favicon.ico", assets.favicon),
            web.get("/{tail:(?!api/|api$).*}", page(nowhere)),
        ]
    )
