"""A living crawl made answerable: what its daemon and a plain crawl's socket have in common."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable

from crawler.app import Life, open_reader
from crawler.daemon import local
from crawler.daemon.answers import Answers
from crawler.daemon.asking import RobotsAsker
from crawler.daemon.http import HttpSettings, build
from crawler.daemon.stream import Stream


@contextlib.asynccontextmanager
async def answering(life: Life, stream: Stream) -> AsyncIterator[Answers]:
    """Answers of a crawl; `stream` is to be among its observers."""
    reader = open_reader(life.config.storage.path)
    try:
        yield Answers(
            life.control,
            reader,
            clock=life.clock,
            stream=stream,
            fetch_robots=RobotsAsker(life.engine, life.control, reader, life.clock),
        )
    finally:
        stream.close()
        await reader.close()


@contextlib.asynccontextmanager
async def local_socket(
    life: Life, stream: Stream, warn: Callable[[str], None]
) -> AsyncIterator[None]:
    """The socket beside the database of a plain crawl."""
    async with answering(life, stream) as answers:
        app = build(answers, HttpSettings(local=True), clock=life.clock)
        async with local.serving(app, life.config.storage.path, warn):
            yield
