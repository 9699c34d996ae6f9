"""The floor: aiohttp fetching the same pages, one request per host at a time, and nothing else.

    python raw_client.py HOSTS PAGES PORT

No robots.txt, no links read, no database. Prints {"pages", "elapsed_s"}.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import aiohttp


async def main(hosts: int, pages: int, port: int) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:

        async def one(host: int) -> None:
            for n in range(pages):
                async with session.get(
                    f"http://127.0.0.1:{port}/page/{n}", headers={"Host": f"h{host}.test:{port}"}
                ) as response:
                    await response.read()

        began_s = time.perf_counter()
        await asyncio.gather(*(one(host) for host in range(hosts)))
        elapsed_s = time.perf_counter() - began_s
    print(json.dumps({"pages": hosts * pages, "elapsed_s": elapsed_s}))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:4])))
