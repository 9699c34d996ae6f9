"""The server of a running crawl: API and metrics, for TCP and for the local socket.

Slow to import: a plain crawl loads it on demand (`crawler.crawl_socket`).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from aiohttp import hdrs, web

from crawler.app import OpenCrawl
from crawler.daemon.api.caller_requests import CallerRequests
from crawler.daemon.api.history_view import HistoryView
from crawler.daemon.api.operations import Operations
from crawler.daemon.api.robots_check import RobotsThroughCrawl
from crawler.daemon.api.url_lists import LogView
from crawler.daemon.http.application import build
from crawler.daemon.http.guards import HttpSettings
from crawler.daemon.monitoring.exposition import CONTENT_TYPE
from crawler.daemon.monitoring.monitor import Monitor
from crawler.daemon.monitoring.shared_store import SharedStore
from crawler.front_door.tls import Certificate


@contextlib.asynccontextmanager
async def operations_of(
    opened: OpenCrawl, monitor: Monitor, certificate: Certificate | None = None
) -> AsyncIterator[Operations]:
    """The operations of a crawl. certificate: renewed by reloads."""
    reader = opened.control.reader
    shared = None
    if opened.store.shared:
        session = opened.scheduler.crawl.session
        shared = SharedStore(opened.store, reader, session, opened.clock)
    callers = CallerRequests(opened.scheduler, opened.clock)
    try:
        yield Operations(
            opened.control,
            clock=opened.clock,
            stream=monitor.stream,
            robots_fetcher=RobotsThroughCrawl(
                scheduler=opened.scheduler, reader=reader, clock=opened.clock
            ),
            callers=callers,
            health=monitor.health,
            history=HistoryView(reader, monitor.history, opened.clock, shared=opened.store.shared),
            log=LogView(monitor.recent_log, monitor.log_name),
            shared=shared,
            certificate=certificate,
        )
    finally:
        await callers.close()
        if shared is not None:
            await shared.close()


def application(
    operations: Operations, settings: HttpSettings, monitor: Monitor
) -> web.Application:
    """The application of the API and the metrics. `crawler.console` adds its pages to it."""
    app = build(operations, settings, clock=monitor.clock, access=monitor.access)

    async def metrics(_request: web.Request) -> web.StreamResponse:
        measures = None if operations.shared is None else await operations.shared.measures()
        body = monitor.exposition(await operations.status(), measures)
        return web.Response(body=body, headers={hdrs.CONTENT_TYPE: CONTENT_TYPE})

    app.router.add_get("/metrics", metrics)
    return app
