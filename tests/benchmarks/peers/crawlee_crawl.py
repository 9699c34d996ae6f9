"""Crawlee for Python in its fastest form: `crawlee_crawl.py SEEDS`.

Its HttpCrawler with links found by Lexbor, and repeated ones dropped before they are handed to its
queue, which is in memory. Sessions and retries are off, and the limits on memory and CPU are
loosened, so that it is not throttled.
"""

from __future__ import annotations

import logging
import sys
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urldefrag, urljoin

import uvloop
from crawlee import ConcurrencySettings
from crawlee.configuration import Configuration
from crawlee.crawlers import HttpCrawler, HttpCrawlingContext
from crawlee.http_clients import ImpitHttpClient
from crawlee.storage_clients import MemoryStorageClient
from selectolax.lexbor import LexborHTMLParser

SEEDS: Final = Path(sys.argv[1]).read_text().split()


async def main() -> None:
    crawler = HttpCrawler(
        configuration=Configuration(
            max_event_loop_delay=timedelta(seconds=5),
            max_used_cpu_ratio=1.0,
            max_used_memory_ratio=0.9,
            memory_mbytes=16000,
            persist_state_interval=timedelta(minutes=10),
        ),
        concurrency_settings=ConcurrencySettings(
            min_concurrency=64, desired_concurrency=64, max_concurrency=64
        ),
        configure_logging=False,
        http_client=ImpitHttpClient(),
        max_request_retries=0,
        respect_robots_txt_file=True,
        storage_client=MemoryStorageClient(),
        use_session_pool=False,
    )
    seen = set(SEEDS)
    found = 0

    @crawler.router.default_handler
    async def handle(context: HttpCrawlingContext) -> None:
        nonlocal found
        found += 1
        tree = LexborHTMLParser(await context.http_response.read())
        base = tree.css_first("base[href]")
        page = context.request.loaded_url or context.request.url
        if base:
            page = urljoin(page, base.attributes["href"])
        hrefs = (node.attributes["href"] or "" for node in tree.css("a[href]"))
        links = {urldefrag(urljoin(page, href))[0] for href in hrefs} - seen
        seen.update(links)
        await context.add_requests([url for url in links if url.startswith("http")], strategy="all")

    await crawler.run(SEEDS)
    print("pages", found)  # noqa: T201


logging.basicConfig(level=logging.ERROR)
uvloop.run(main())
