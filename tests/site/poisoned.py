"""A crawl in which a page, robots.txt or sitemap kills the process when it is read, as a C library
that crashes or memory that ends does."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

from crawler import Crawler
from crawler.documents.sitemap import SitemapParser
from policies import robots

config, db, seeds, how = json.loads(sys.argv[1])


def die():
    os.kill(os.getpid(), getattr(signal, how)) if how.startswith("SIG") else os._exit(3)


def deadly(page):
    if page.url.endswith("/poison"):
        die()


def deadly_when(poisonous, module, name):
    read = getattr(module, name)

    def deadly(*args, **kwargs):
        if any(poisonous in arg for arg in args if isinstance(arg, bytes)):
            die()
        return read(*args, **kwargs)

    setattr(module, name, deadly)


if how != "never":
    deadly_when(b"poison", robots, "parse")
    deadly_when(b"poison", SitemapParser, "feed")


async def main():
    async with Crawler(seeds, config=config, db=db, sinks=[deadly]) as crawl:
        async for _ in crawl:
            pass


asyncio.run(main())
