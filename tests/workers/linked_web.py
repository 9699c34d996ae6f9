"""A web of hosts that link to each other, in a process of its own, whose log judges its crawlers.

    python linked_web.py '{"a.test": 10, "b.test": 20}' SEED

The hosts have so many pages. Prints its port. Each line of standard input is answered by one of
JSON; it ends with the input:

    count    how many different pages have been requested
    log      all requests: [host, path, user agent, start_s, end_s, status]
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from crawler.testing import LocalWeb, LoggedRequest, Reply, RequestLog, html, text

SLOW_HOST = "slow.test"  # has a Crawl-delay
CRAWL_DELAY_S = 1.0
FOREIGN = 3  # links of a page to other hosts
REPLIES_S = (0.0, 0.0, 0.05)  # some take long, so that there are requests in flight
POLL_S = 0.05
UNTIL_S_MAX = 60.0
ROBOTS = "/robots.txt"

Counts = Mapping[str, int]  # pages by host
Url = Callable[[str, str], str]


def path(n: int) -> str:
    return f"/{n}" if n else "/"


def hosts_of(hosts: int, pages: int) -> dict[str, int]:
    return {f"h{n}.test": pages for n in range(hosts)}


def everything(counts: Counts) -> set[tuple[str, str]]:
    """Each page as its host and path."""
    return {(host, path(n)) for host, count in counts.items() for n in range(count)}


def linked_sites(counts: Counts, seed: int, url: Url) -> dict[str, dict[str, Reply]]:
    """Trees of pages with links across hosts. All are reachable from the root of any host."""
    rng = random.Random(seed)
    names = list(counts)
    sites = {}
    for number, (host, count) in enumerate(counts.items()):
        site = {ROBOTS: text(robots_txt(host))}
        for n in range(count):
            links = [path(m) for m in (2 * n + 1, 2 * n + 2, rng.randrange(count)) if m < count]
            others = [names[(number + 1) % len(names)], *rng.choices(names, k=FOREIGN)]
            links += [url(other, path(rng.randrange(counts[other]))) for other in others]
            links.append(url(others[0], "/"))
            body = html(f"{host} {n}", *links, "/private/").body
            site[path(n)] = Reply(body=body, delay_s=rng.choice(REPLIES_S))
        sites[host] = site
    return sites


def robots_txt(host: str) -> str:
    rule = f"Crawl-delay: {CRAWL_DELAY_S}\n" if host == SLOW_HOST else ""
    return f"User-agent: *\n{rule}Disallow: /private/\n"


class LinkedWeb:
    """The web as the tests use it: the methods of `LocalWeb` that name it, and its log."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self._lock = asyncio.Lock()
        self.port = port

    def url(self, host: str, path: str = "/") -> str:
        return f"http://{host}:{self.port}{path}"

    async def count(self) -> int:
        found = await self._ask("count")
        assert isinstance(found, int)
        return found

    async def until(self, pages: float) -> None:
        """Wait until so many different pages have been requested."""
        async with asyncio.timeout(UNTIL_S_MAX):
            while await self.count() < pages:  # noqa: ASYNC110 - it is in another process
                await asyncio.sleep(POLL_S)

    async def until_each(self, names: Sequence[str], requests: int) -> None:
        """Wait until user agents that begin with each of the names have sent so many requests."""
        async with asyncio.timeout(UNTIL_S_MAX):
            while True:
                agents = [entry.headers["user-agent"] for entry in await self.log()]
                if all(sum(a.startswith(f"{n}/") for a in agents) >= requests for n in names):
                    return
                await asyncio.sleep(POLL_S)

    async def log(self) -> RequestLog:
        entries = await self._ask("log")
        assert isinstance(entries, list)
        return RequestLog(
            LoggedRequest(
                host=host, path=path, headers={"user-agent": agent}, start_s=start_s, end_s=end_s,
                status=status,
            )
            for host, path, agent, start_s, end_s, status in entries
        )  # fmt: skip

    async def _ask(self, question: str) -> object:
        assert self._process.stdin
        assert self._process.stdout
        async with self._lock:
            self._process.stdin.write(f"{question}\n".encode())
            answer: object = json.loads(await self._process.stdout.readline())
        return answer


@contextlib.asynccontextmanager
async def linked_web(counts: Counts, seed: int = 0) -> AsyncIterator[LinkedWeb]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, json.dumps(counts), str(seed)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 26,
    )
    assert process.stdin
    assert process.stdout
    try:
        yield LinkedWeb(process, int(await process.stdout.readline()))
        process.stdin.close()
        await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def main(counts: Counts, seed: int) -> None:
    loop = asyncio.get_running_loop()
    async with LocalWeb() as web:
        web.sites.update(linked_sites(counts, seed, web.url))
        print(web.port, flush=True)  # noqa: T201
        while line := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
            print(json.dumps(answer(line, web.log)), flush=True)  # noqa: T201


def answer(question: str, log: RequestLog) -> object:
    if question == "count":
        return len({(entry.host, entry.path) for entry in log if entry.path != ROBOTS})
    return [
        [e.host, e.path, e.headers.get("user-agent", ""), e.start_s, e.end_s, e.status] for e in log
    ]


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1]), int(sys.argv[2])))
