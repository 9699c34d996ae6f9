"""The local socket of a plain crawl. It exists from the start; the server behind it is slow to
load, and is loaded for the first client."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from crawler.daemon.monitoring.monitor import Monitor
from crawler.daemon.unix_socket import serving_on_demand
from crawler.threads import in_thread
from storage.location import FileLocation

if TYPE_CHECKING:
    from aiohttp import web

    from crawler.app import OpenCrawl


@contextlib.asynccontextmanager
async def local_socket(
    opened: OpenCrawl, monitor: Monitor, warn: Callable[[str], None]
) -> AsyncIterator[None]:
    """Serve other commands while this is open, if the crawl has its database in a file: otherwise
    they go to the server."""

    @contextlib.asynccontextmanager
    async def application() -> AsyncIterator[web.Application]:
        # In a thread: the imports would block the crawl.
        await in_thread(importlib.import_module, "crawler.console")
        from crawler import console
        from crawler.daemon.http.guards import HttpSettings
        from crawler.daemon.service import operations_of

        async with operations_of(opened, monitor) as operations:
            yield console.application(operations, HttpSettings(local=True), monitor)

    location = opened.config.storage.location
    async with (
        serving_on_demand(application, location.path, warn)
        if isinstance(location, FileLocation)
        else contextlib.nullcontext(),
        monitor.sampling(opened.control),
    ):
        yield
