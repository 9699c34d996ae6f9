"""Scrapy in its fastest form: `scrapy_crawl.py SEEDS [JOBDIR]`.

Links are found with Lexbor instead of its link extractor, and repeated ones dropped before a
Request is made of them; pages are downloaded with its aiohttp handler instead of Twisted's;
cookies, retries and statistics are off. With a folder for its jobs, the queue and the fingerprints
of known requests are kept there, as its documentation describes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import scrapy
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response
from selectolax.lexbor import LexborHTMLParser

seen: set[str] = set()


class Pages(scrapy.Spider):
    name = "pages"
    start_urls = Path(sys.argv[1]).read_text().split()
    found = 0

    def parse(self, response: Response) -> Iterator[scrapy.Request]:
        Pages.found += 1
        tree = LexborHTMLParser(response.body)
        base = tree.css_first("base[href]")
        page = urljoin(response.url, base.attributes["href"]) if base else response.url
        for node in tree.css("a[href]"):
            url = urldefrag(urljoin(page, node.attributes["href"] or ""))[0]
            if url.startswith("http") and url not in seen:
                seen.add(url)
                yield scrapy.Request(url)


process = AsyncCrawlerProcess(
    {
        "ASYNCIO_EVENT_LOOP": "uvloop.Loop",
        "CONCURRENT_REQUESTS": 64,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
        "COOKIES_ENABLED": False,
        "DOWNLOAD_DELAY": 0,
        "DOWNLOAD_HANDLERS": {
            "http": "scrapy.core.downloader.handlers._aiohttp.AiohttpDownloadHandler"
        },
        "JOBDIR": sys.argv[2] if len(sys.argv) > 2 else None,
        "LOGSTATS_INTERVAL": 0,
        "LOG_LEVEL": "WARNING",
        "MEMUSAGE_ENABLED": False,
        "RETRY_ENABLED": False,
        "ROBOTSTXT_OBEY": True,
        "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
        "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
        "SPIDER_MIDDLEWARES": {"scrapy.spidermiddlewares.depth.DepthMiddleware": None},
        "TELNETCONSOLE_ENABLED": False,
        "TWISTED_REACTOR_ENABLED": False,
        "USER_AGENT": "bench",
    }
)
process.crawl(Pages)
process.start()
print("pages", Pages.found)  # noqa: T201
