"""A worker that commits pages to a PostgreSQL database, for test_shared_store_speed.

`python -m tests.benchmarks.store_worker URL FIRST PAGES SIZE`: the hosts from number FIRST, commits
of SIZE pages. It waits for a line before it begins, and prints pages, seconds and CPU seconds.
"""

from __future__ import annotations

import asyncio
import sys
import time

from storage.location import ServerLocation, parse_location
from storage.postgres import server_store
from tests.benchmarks.test_store_speed import crawl


async def main(url: str, first: int, pages: int, size: int) -> None:
    location = parse_location(url)
    assert isinstance(location, ServerLocation)
    store = server_store(location, wall=time.time, monotonic=time.monotonic)
    sys.stdin.readline()
    began_s, cpu_s = time.monotonic(), time.process_time()
    done, _, new = await crawl(store, pages, first=first, size=size)
    print(done, time.monotonic() - began_s, time.process_time() - cpu_s, new)  # noqa: T201
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
