"""The same pages by bare aiohttp, by our fetcher alone, by PoliteSession and through Politeness.

    python session_client.py HOSTS PAGES PORT ROUNDS

No delay; one request at a time per host. Prints {"way": best CPU µs per request, …}; the first
round warms up, and fetches robots.txt.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp

from crawler import Politeness, PoliteSession
from crawler.clock import RealClock
from crawler.config import from_dict
from crawler.fetching.fetcher import AiohttpFetcher, Request

Get = Callable[[str], Awaitable[object]]
LOOPBACK = "127.0.0.0/8"
RESOLVE = {"*.test": "127.0.0.1"}
CONFIG = {
    "politeness": {"delay": 0, "latency_factor": 0},
    "network": {"allow": [LOOPBACK], "resolve": RESOLVE},
}


def by(session: aiohttp.ClientSession) -> Get:
    async def get(url: str) -> object:
        async with session.get(url) as response:
            return await response.read()

    return get


@contextlib.asynccontextmanager
async def bare() -> AsyncIterator[Get]:
    polite = Politeness(config=CONFIG)
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(connector=polite.connector(), cookie_jar=jar) as session:
        yield by(session)


@contextlib.asynccontextmanager
async def fetcher() -> AsyncIterator[Get]:
    async with AiohttpFetcher(from_dict(CONFIG), RealClock()) as opened:
        yield lambda url: opened.fetch(Request(url=url))


@contextlib.asynccontextmanager
async def session() -> AsyncIterator[Get]:
    async with PoliteSession(config=CONFIG) as opened:
        yield opened.get


@contextlib.asynccontextmanager
async def middleware() -> AsyncIterator[Get]:
    jar = aiohttp.DummyCookieJar()
    async with (
        Politeness(config=CONFIG) as polite,
        aiohttp.ClientSession(
            middlewares=(polite,), connector=polite.connector(), cookie_jar=jar
        ) as opened,
    ):
        yield by(opened)


async def main(hosts: int, pages: int, port: int, rounds: int) -> None:
    best: dict[str, float] = {}
    async with bare() as a, fetcher() as f, session() as s, middleware() as m:
        ways: dict[str, Get] = {"aiohttp": a, "fetcher": f, "session": s, "middleware": m}
        for n in range(rounds + 1):
            for way, get in ways.items():

                async def one(host: int, get: Get = get) -> None:
                    for page in range(pages):
                        await get(f"http://h{host}.test:{port}/page/{page}")

                began_s = time.process_time()
                await asyncio.gather(*(one(host) for host in range(hosts)))
                cost = 1e6 * (time.process_time() - began_s) / (hosts * pages)
                if n:
                    best[way] = min(cost, best.get(way, cost))
    print(json.dumps(best))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:5])))
