"""The daemon's web page: rendered by the server, without a build step and without foreign hosts.

`add_pages(app, answers, watch, clock)` adds all of it to what `crawler.daemon.serving.http.build`
gives, which guards every request, tells problems by the pages set here and adds the headers.
`watch.observers` are to be among the crawl's, and `watch.sample_for_ever` runs in a task of the
daemon's.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from crawler.clock import Clock
from crawler.daemon.answering.answers import Answers
from crawler.daemon.problem import Problem
from crawler.daemon.serving.http import GUARDS, LOGIN_PAGE, PROBLEM_PAGE
from crawler.daemon.watching.watch import Watch
from crawler.daemon.web.assets import PREFIX, Assets
from crawler.daemon.web.forms import Forms
from crawler.daemon.web.frame import Frame
from crawler.daemon.web.hosts import HostPages
from crawler.daemon.web.pages import Pages
from crawler.daemon.web.render import NAV, Renderer


def add_pages(app: web.Application, answers: Answers, watch: Watch, clock: Clock) -> None:
    """Routes of the pages, their files and, last of all, of every path there is not."""
    assets = Assets()
    renderer = Renderer(assets)
    sessions = app[GUARDS].sessions is not None
    frame = Frame(answers, clock, logout=sessions)
    pages = Pages(answers, watch, clock, renderer, frame)
    hosts = HostPages(answers, watch, clock, renderer, frame)
    forms = Forms(answers, frame, renderer)

    def alone(**more: object) -> Mapping[str, object]:
        """Values of a page that is shown whatever may be wrong, and to whomever."""
        return {
            "status": None,
            "now_s": clock.wall(),
            "page": "",
            "said": None,
            "live": False,
            "logout": False,
            **more,
        }

    def login(wrong: str, onward: str) -> str:
        """Says nothing of the crawl to who has not logged in."""
        return renderer.text("login.html", alone(problem=wrong, back=onward, action="/login"))

    def told(problem: Problem) -> str:
        values = alone(
            nav=NAV if problem.status != 401 else (),
            code=problem.status,
            title=problem.title,
            detail=problem.detail,
            back="/hosts" if problem.field == "host" else None,
        )
        return renderer.text("problem.html", values)

    async def nowhere(request: web.Request) -> web.StreamResponse:
        raise Problem(404, f"There is nothing at {request.path[:200]}.")

    app[LOGIN_PAGE] = login
    app[PROBLEM_PAGE] = told
    app.add_routes(
        [
            web.get("/", pages.overview),
            web.get("/hosts", hosts.hosts),
            web.get("/host", hosts.host),
            web.post("/host/pause", forms.host_pause),
            web.post("/host/resume", forms.host_resume),
            web.post("/host/slow", forms.host_slow),
            web.post("/host/retry", forms.host_retry),
            web.get("/find", pages.find),
            web.get("/blocked", pages.blocked),
            web.get("/url", pages.url),
            web.get("/tester", forms.tester),
            web.post("/tester", forms.test),
            web.get("/seeds", forms.seeds),
            web.post("/seeds", forms.add_seeds),
            web.get("/config", pages.config),
            web.get("/config/reload", forms.reload),
            web.post("/config/reload", forms.reload),
            web.post("/crawl/pause", forms.pause),
            web.post("/crawl/resume", forms.resume),
            web.get(PREFIX + "{name}", assets.serve),
            web.get("/favicon.ico", assets.favicon),
            web.get("/{tail:(?!api/|api$).*}", nowhere),
        ]
    )
