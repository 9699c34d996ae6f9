"""The socket beside the database of a plain crawl. It is there from the start; what answers on it
takes as long to load as the rest of a small crawl, so it is loaded when somebody asks."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from crawler.daemon.local import serving_when_asked
from crawler.daemon.watching.watch import Watchers
from crawler.threads import in_thread

if TYPE_CHECKING:
    from aiohttp import web

    from crawler.app import Life


@contextlib.asynccontextmanager
async def local_socket(
    life: Life, watchers: Watchers, warn: Callable[[str], None]
) -> AsyncIterator[None]:
    """Other commands are answered meanwhile."""

    @contextlib.asynccontextmanager
    async def application() -> AsyncIterator[web.Application]:
        # In a thread: it takes 0.1 s, for which the crawl would stand still.
        await in_thread(importlib.import_module, "crawler.daemon.service")
        from crawler.daemon import service
        from crawler.daemon.serving.guards import HttpSettings

        async with service.answering(life, watchers) as answers:
            yield service.application(answers, HttpSettings(local=True), watchers)

    async with (
        serving_when_asked(application, life.config.storage.path, warn),
        watchers.sampling(life.control),
    ):
        yield
