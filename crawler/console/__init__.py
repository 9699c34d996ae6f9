"""The web pages for a running crawl: rendered on the server, without a build step or external
files. They use the daemon's operations, and nothing else of a crawl knows them."""

from __future__ import annotations

from aiohttp import web

from crawler.console.command_forms import CommandForms
from crawler.console.general_pages import GeneralPages, SeedsPage, TesterPage
from crawler.console.history_page import HistoryPage
from crawler.console.host_pages import HostPages
from crawler.console.list_downloads import ListDownloads
from crawler.console.list_pages import BlockedUrls, LogPages, UrlListPages
from crawler.console.login import Login
from crawler.console.overview_page import OverviewPage
from crawler.console.rendering import STATIC, PageContext, Renderer
from crawler.daemon import service
from crawler.daemon.api.operations import Operations
from crawler.daemon.http.application import ERROR_PAGES, GUARDS
from crawler.daemon.http.guards import HttpSettings
from crawler.daemon.monitoring.monitor import Monitor
from crawler.daemon.problem import Problem


def application(
    operations: Operations, settings: HttpSettings, monitor: Monitor
) -> web.Application:
    """The application of the API and the metrics, with the pages."""
    app = service.application(operations, settings, monitor)
    add_console(app, operations, monitor)
    return app


def add_console(app: web.Application, operations: Operations, monitor: Monitor) -> None:
    """Add the pages, their files, the login, and error pages to the application of the API."""
    settings = app[GUARDS].settings
    renderer = Renderer(monitor.clock, settings.base_path)
    login = Login(renderer)
    app[ERROR_PAGES] = login
    if settings.all_accounts:
        app.router.add_get("/login", login.form)
        app.router.add_post("/login", login.log_in)
        app.router.add_post("/logout", login.log_out)
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
