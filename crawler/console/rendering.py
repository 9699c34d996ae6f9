"""Rendering: templates to pages, escaped by default, with the frame around them and their files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final
from urllib.parse import urlencode

from aiohttp import web
from jinja2 import PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from crawler.clock import Clock
from crawler.console import filters
from crawler.daemon.api.operations import Operations
from crawler.daemon.http.bodies import form_fields
from crawler.daemon.http.guards import ACCOUNT
from crawler.daemon.monitoring.monitor import Monitor
from crawler.daemon.problem import Problem
from crawler.explain.html_pages import html_environment
from crawler.version import __version__

NAV: Final = (
    ("overview", "/", "Overview"),
    ("hosts", "/hosts", "Hosts"),
    ("urls", "/urls", "URLs"),
    ("blocked", "/blocked", "Blocked"),
    ("tester", "/tester", "Robots tester"),
    ("seeds", "/seeds", "Seeds"),
    ("history", "/history", "History"),
    ("log", "/log", "Log"),
    ("config", "/config", "Config"),
)
NOTICES: Final[Mapping[str, str]] = {
    "paused": "The crawl is paused. No new requests are started; those in flight will finish.",
    "resumed": "The crawl is running again.",
    "host-paused": "{host} is paused. No new requests are sent to it until it is resumed.",
    "host-resumed": "{host} is crawled at its own pace again.",
    "hosts-paused": "Paused: {host}. No new requests are sent until they are resumed.",
    "hosts-resumed": "Resumed: {host}, each at its own pace.",
    "hosts-slowed": "Slowed: {host}. They have the delay you set.",
    "host-retried": "The failed URLs of {host} are queued again.",
    "urls-retried": "{number} queued again.",
    "urls-dropped": "{number} dropped.",
    "host-slowed": "{host} now has the delay you set.",
}
STATIC: Final = "/static/"
TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_CACHE: Final = "public, max-age=31536000, immutable"
_COMMENT = re.compile(rb"/\*.*?\*/", re.DOTALL)


# A link to a page of this server. Quotation marks in values are escaped, so none contains this.
_OWN_LINK = re.compile(r'(?<=[ \n])((?:href|src|action|formaction)=")/(?!/)')


class Renderer:
    """Renders templates; a name that a template uses and does not receive is an error. Serves the
    files of the pages under names that contain a hash of their content, so they never expire.

    base_path: a prefix for all links. It is added to what templates and handlers have made, so that
    none of them can forget it."""

    def __init__(self, clock: Clock, base_path: str = "") -> None:
        self.clock = clock
        self._base_path = base_path
        self._urls: dict[str, str] = {}
        self._files: dict[str, tuple[bytes, str]] = {}
        for file in resources.files("crawler.console").joinpath("static").iterdir():
            stem, _, kind = file.name.rpartition(".")
            if kind not in TYPES:
                continue
            body = file.read_bytes()
            if kind == "css":
                body = _COMMENT.sub(b"", body)
            versioned = f"{stem}.{hashlib.sha256(body).hexdigest()[:10]}.{kind}"
            self._urls[file.name] = STATIC + versioned
            self._files[versioned] = (body, TYPES[kind])
        self._env = html_environment(
            loader=PackageLoader("crawler.console"),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._env.globals.update(
            asset=self._urls.__getitem__, version=__version__, base_path=base_path
        )
        self._env.filters.update(filters.FILTERS, when=_when)

    def text(self, template: str, values: Mapping[str, object]) -> str:
        made = self._env.get_template(template).render(values)
        return _OWN_LINK.sub(rf"\g<1>{self._base_path}/", made) if self._base_path else made

    async def static_file(self, request: web.Request) -> web.Response:
        found = self._files.get(request.match_info["name"])
        if found is None:
            raise Problem(404, "there is no such file")
        body, kind = found
        return web.Response(body=body, headers={"Content-Type": kind, "Cache-Control": _CACHE})

    async def favicon(self, _: web.Request) -> web.Response:
        """Return the icon for browsers that request the conventional name."""
        raise web.HTTPMovedPermanently(self._urls["favicon.svg"])

    # ------------------------------------------------------------ pages without a login

    def login(self, wrong: str, onward: str) -> str:
        """The login form, which reveals nothing about the crawl."""
        return self._bare("login.html", problem=wrong, back=onward, action="/login")

    def problem(self, problem: Problem) -> str:
        return self._bare(
            "problem.html",
            nav=NAV if problem.status != 401 else (),
            code=problem.status,
            title=problem.title,
            detail=problem.detail,
            back="/hosts" if problem.field == "host" else None,
        )

    def _bare(self, template: str, **values: object) -> str:
        frame = {
            "status": None,
            "page": "",
            "notice": None,
            "live": False,
            "logout": False,
            "can_steer": False,
        }
        return self.text(template, {**frame, "now_s": self.clock.wall(), **values})


@pass_context
def _when(context: Context, value: object, now_s: float | None = None) -> Markup:
    return filters.when(value, context["now_s"] if now_s is None else now_s)


@dataclass(frozen=True, slots=True)
class PageContext:
    """The objects pages are made from. `logout`: offer to end the session."""

    operations: Operations
    monitor: Monitor
    renderer: Renderer
    logout: bool


class PageHandlers:
    """Base of the request handlers of pages."""

    def __init__(self, context: PageContext) -> None:
        self.operations = context.operations
        self.monitor = context.monitor
        self.renderer = context.renderer
        self._logout = context.logout

    async def page(
        self,
        request: web.Request,
        place: str,
        values: Mapping[str, object],
        *,
        template: str = "",
        status: int = 200,
    ) -> web.Response:
        """A page within the frame that all pages share. `place`: of the page in the navigation,
        and the name of its template unless that is given."""
        notice = NOTICES.get(request.query.get("said", ""))
        if notice is not None:
            host = filters.plain(request.query.get("host", "the host"))[:300]
            number = filters.plain(request.query.get("number", ""))[:60]
            notice = notice.format(host=host, number=number)
        now = await self.operations.status()
        frame = {
            "status": now,
            "all_workers": now.of_all_workers(),
            "now_s": self.renderer.clock.wall(),
            "page": place,
            "nav": NAV,
            "notice": notice,
            "live": True,
            "logout": self._logout,
            "can_steer": request[ACCOUNT].can_steer,
            "problem": None,
        }
        text = self.renderer.text(f"{template or place}.html", {**frame, **values})
        return web.Response(status=status, text=text, content_type="text/html")


async def form_of(request: web.Request) -> dict[str, str]:
    """The text fields of a posted form. Raises Problem."""
    return dict(await form_fields(request))


def number_in(form: Mapping[str, str], name: str) -> float:
    """A number of a form. Raises Problem."""
    text = form.get(name, "")
    try:
        return float(text)
    except ValueError:
        raise Problem(422, f"“{text[:60]}” is not a number.", field=name) from None


def link(path: str, query: Mapping[str, str]) -> str:
    """A link without parameters that are empty or have their default value."""
    default = {"state": "all", "sort": "-queued"}
    given = {key: value for key, value in query.items() if value and value != default.get(key)}
    return f"{path}?{urlencode(given)}" if given else path
