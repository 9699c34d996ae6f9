"""The web page of the daemon: rendered on the server, without a build step or external files."""

from __future__ import annotations

from aiohttp import web

from crawler.daemon.api.operations import Operations
from crawler.daemon.http.application import GUARDS
from crawler.daemon.monitoring.monitor import Monitor
from crawler.daemon.problem import Problem
from crawler.daemon.web.blocked_page import BlockedUrls
from crawler.daemon.web.command_forms import CommandForms
from crawler.daemon.web.general_pages import GeneralPages
from crawler.daemon.web.history_page import HistoryPage
from crawler.daemon.web.host_pages import HostPages
from crawler.daemon.web.list_downloads import ListDownloads
from crawler.daemon.web.log_page import LogPages
from crawler.daemon.web.overview_page import OverviewPage
from crawler.daemon.web.rendering import STATIC, PageContext, Renderer
from crawler.daemon.web.seeds_page import SeedsPage
from crawler.daemon.web.tester_page import TesterPage
from crawler.daemon.web.url_list_pages import UrlListPages


def add_pages(
    app: web.Application, operations: Operations, monitor: Monitor, renderer: Renderer
) -> None:
    """Add the routes of the pages and their files, and a catch-all for missing pages."""
    logout = app[GUARDS].sessions is not None
    context = PageContext(operations, monitor, renderer, logout)
    overview, general = OverviewPage(context), GeneralPages(context)
    hosts, tester, blocked = HostPages(context), TesterPage(context), BlockedUrls(context)
    history = HistoryPage(context)
    urls, seeds = UrlListPages(context), SeedsPage(context)
    commands, downloads = CommandForms(context), ListDownloads(context)
    log = LogPages(context)

    async def missing(_request: web.Request) -> web.StreamResponse:
        raise Problem(404, "There is no such page.")

    app.add_routes(
        [
            web.get("/", overview.overview),
            web.get("/hosts", hosts.hosts),
            web.get("/hosts.{kind:csv|jsonl}", downloads.hosts),
            web.get("/urls.{kind:csv|jsonl}", downloads.urls),
            web.get("/seeds.{kind:csv|jsonl}", downloads.seeds),
            web.get("/urls", urls.urls),
            web.get("/urls/skipped", urls.skipped),
            web.get("/host", hosts.host),
            web.get("/history", history.history),
            web.get("/history.csv", history.as_csv),
            web.get("/find", general.find),
            web.get("/blocked", blocked.blocked),
            web.get("/blocked.{kind:csv|jsonl}", downloads.blocked),
            web.get("/url", general.url),
            web.get("/tester", tester.form),
            web.post("/tester", tester.test),
            web.get("/seeds", seeds.seeds),
            web.post("/seeds", seeds.add_seeds),
            web.get("/log", log.log),
            web.get("/log.{kind:csv|jsonl}", downloads.log),
            web.get("/config", general.config),
            web.get("/config/reload", general.reload),
            web.post("/config/reload", general.reload),
            *commands.routes(),
            web.get(STATIC + "{name}", renderer.static_file),
            web.get("/favicon.ico", renderer.favicon),
            web.get("/{tail:(?!api/|api$).*}", missing),
        ]
    )
