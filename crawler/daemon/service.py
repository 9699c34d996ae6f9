"""A living crawl made answerable: what its daemon and a plain crawl's socket have in common."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping

from aiohttp import hdrs, web

from crawler.app import Life, open_reader
from crawler.clock import Clock
from crawler.daemon import local
from crawler.daemon.answers import Answers
from crawler.daemon.asking import RobotsAsker
from crawler.daemon.http import HttpSettings, build
from crawler.daemon.stream import Stream
from crawler.daemon.watch import Watch
from crawler.daemon.web import add_pages
from crawler.observer import Observer


class Watchers:
    """All that watches a crawl for those who ask; `observers` are to be the crawl's, `noted` as
    in `Stream`."""

    def __init__(
        self, clock: Clock, *, noted: Callable[[Mapping[str, object]], None] | None = None
    ) -> None:
        self.clock = clock
        self.stream = Stream(clock, noted=noted)
        self.watch = Watch()

    @property
    def observers(self) -> tuple[Observer, ...]:
        return (self.stream, *self.watch.observers)


@contextlib.asynccontextmanager
async def answering(life: Life, watchers: Watchers) -> AsyncIterator[Answers]:
    """Answers of a crawl; samples for the plots are taken meanwhile."""
    reader = open_reader(life.config.storage.path)
    answers = Answers(
        life.control,
        reader,
        clock=life.clock,
        stream=watchers.stream,
        fetch_robots=RobotsAsker(life.engine, life.control, reader, life.clock),
    )
    async with asyncio.TaskGroup() as group:
        sampling = group.create_task(watchers.watch.sample_for_ever(answers.status, life.clock))
        try:
            yield answers
        finally:
            watchers.stream.close()
            sampling.cancel()
            await asyncio.wait([sampling])
            await reader.close()


def application(answers: Answers, settings: HttpSettings, watchers: Watchers) -> web.Application:
    """Everything that is served: the API, the metrics, the pages."""
    app = build(answers, settings, clock=watchers.clock)

    async def metrics(_request: web.Request) -> web.StreamResponse:
        from crawler.daemon.exposition import CONTENT_TYPE  # brings prometheus_client

        body = watchers.watch.rendered(await answers.status())
        return web.Response(body=body, headers={hdrs.CONTENT_TYPE: CONTENT_TYPE})

    app.router.add_get("/metrics", metrics)
    add_pages(app, answers, watchers.watch, watchers.clock)
    return app


@contextlib.asynccontextmanager
async def local_socket(
    life: Life, watchers: Watchers, warn: Callable[[str], None]
) -> AsyncIterator[None]:
    """The socket beside the database of a plain crawl."""
    async with answering(life, watchers) as answers:
        app = application(answers, HttpSettings(local=True), watchers)
        async with local.serving(app, life.config.storage.path, warn):
            yield
