"""What answers for a living crawl, on its daemon's address and on the socket beside its database.

Heavy: a plain crawl loads it when somebody asks (`crawler.daemon.beside`).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from aiohttp import hdrs, web

from crawler.app import Life, open_reader
from crawler.daemon.answering.answers import Answers
from crawler.daemon.answering.asking import RobotsAsker
from crawler.daemon.serving.http import HttpSettings, build
from crawler.daemon.watching.exposition import CONTENT_TYPE
from crawler.daemon.watching.watch import Watchers
from crawler.daemon.web import add_pages


@contextlib.asynccontextmanager
async def answering(life: Life, watchers: Watchers) -> AsyncIterator[Answers]:
    """Answers of a crawl."""
    reader = open_reader(life.config.storage.path)
    try:
        yield Answers(
            life.control,
            reader,
            clock=life.clock,
            stream=watchers.stream,
            fetch_robots=RobotsAsker(life.engine, life.control, reader, life.clock),
        )
    finally:
        await reader.close()


def application(answers: Answers, settings: HttpSettings, watchers: Watchers) -> web.Application:
    """Everything that is served: the API, the metrics, the pages."""
    app = build(answers, settings, clock=watchers.clock)

    async def metrics(_request: web.Request) -> web.StreamResponse:
        body = watchers.watch.rendered(await answers.status())
        return web.Response(body=body, headers={hdrs.CONTENT_TYPE: CONTENT_TYPE})

    app.router.add_get("/metrics", metrics)
    add_pages(app, answers, watchers.watch, watchers.clock)
    return app
