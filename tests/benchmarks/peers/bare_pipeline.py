"""The bare pipeline: `bare_pipeline.py SEEDS DATABASE`.

The least that a crawl in Python can be written with: aiohttp, uvloop, Lexbor, ada-url and SQLite.
robots.txt is obeyed, and a host gets one request at a time, 64 in all. There is no pace, no retry
and no resuming: it is a baseline, not a design.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urljoin

import ada_url
import aiohttp
import aiosqlite
import uvloop
import yarl
from selectolax.lexbor import LexborHTMLParser

IN_FLIGHT: Final = 64
BATCH: Final = 1000
SCHEMA: Final = "CREATE TABLE urls (id INTEGER PRIMARY KEY, url TEXT NOT NULL, state INTEGER)"

# Those that are canonical as they are, except for their origin.
SEGMENTS: Final = (
    r"""/(?:[\w\-~!$&'()*+,;=:@][\w.\-~!$&'()*+,;=:@]*/?)*(?:\?[\w.\-~!$&()*+,;=:@/?]*)?\Z"""
)
PATH: Final = re.compile(SEGMENTS, re.ASCII).match
FULL: Final = re.compile(r"https?://[a-z0-9.\-]+(?::[1-9][0-9]*)?" + SEGMENTS, re.ASCII).match

Allows = Callable[[str], bool]


def resolved(base: str, hrefs: list[str]) -> list[str]:
    """Return the canonical URLs of the hrefs of a page."""
    found = []
    origin = base[: base.index("/", 8)]
    for href in {href.partition("#")[0] for href in hrefs}:
        if PATH(href):
            found.append(origin + href)
        elif FULL(href):
            found.append(href)
        else:
            try:
                url = ada_url.join_url(base, href)
            except ValueError:
                continue
            if url.startswith("http"):
                found.append(url)
    return found


def links_of(url: str, body: bytes) -> list[str]:
    tree = LexborHTMLParser(body)
    base = tree.css_first("base[href]")
    hrefs = [href for node in tree.css("a[href]") if (href := node.attributes["href"])]
    return resolved(urljoin(url, base.attributes["href"] or "") if base else url, hrefs)


def robots_rules(text: str, agent: str = "bench") -> Allows:
    """Return whether a path is allowed: the longest rule that matches, with `*` and `$`."""
    groups: dict[str, list[list[tuple[int, bool, str]]]] = {}
    current: list[tuple[int, bool, str]] = []
    in_agents = False
    for line in text.splitlines():
        key, colon, value = (part.strip() for part in line.partition("#")[0].partition(":"))
        if not colon:
            continue
        if key.lower() == "user-agent":
            if not in_agents:
                current = []
            groups.setdefault(value.lower(), []).append(current)
        elif key.lower() in ("allow", "disallow") and value:
            current.append((len(value), key.lower() == "allow", value))
        in_agents = key.lower() == "user-agent"
    rules = [rule for group in groups.get(agent) or groups.get("*") or [] for rule in group]
    rules.sort(key=lambda rule: (-rule[0], not rule[1]))
    matches = [
        (re.compile(re.escape(value).replace(r"\*", ".*").replace(r"\$", "$")).match, allow)
        for _, allow, value in rules
    ]
    return lambda path: next((allow for match, allow in matches if match(path)), True)


class Host:
    __slots__ = ("allows", "busy", "in_line", "origin", "todo")

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.todo: deque[tuple[int, str]] = deque()
        self.allows: Allows | None = None  # until robots.txt was fetched
        self.busy = self.in_line = False


class Crawl:
    def __init__(self, client: aiohttp.ClientSession) -> None:
        self.client = client
        self.hosts: dict[str, Host] = {}
        self.ready: deque[Host] = deque()
        self.wake = asyncio.Semaphore(0)
        self.seen: set[int] = set()
        self.new: list[tuple[int, str]] = []
        self.done: list[tuple[int, int]] = []
        self.open = self.pages = 0
        self.finished = asyncio.Event()

    def add(self, urls: list[str]) -> None:
        for url in urls:
            id_ = hash(url)
            if id_ in self.seen:
                continue
            self.seen.add(id_)
            origin = url[: url.index("/", 8)]
            host = self.hosts.get(origin) or self.hosts.setdefault(origin, Host(origin))
            host.todo.append((id_, url))
            self.new.append((id_, url))
            self.open += 1
            self.offer(host)

    def offer(self, host: Host) -> None:
        if host.todo and not host.busy and not host.in_line:
            host.in_line = True
            self.ready.append(host)
            self.wake.release()

    async def work(self) -> None:
        while True:
            await self.wake.acquire()
            if not self.ready:
                return  # all is done
            host = self.ready.popleft()
            host.in_line, host.busy = False, True
            if host.allows is None:
                status, _, _, body = await self.get(host.origin + "/robots.txt")
                host.allows = robots_rules(body.decode("utf-8", "replace") if status == 200 else "")
            while host.todo:
                id_, url = host.todo.popleft()
                allowed = host.allows(url[len(host.origin) :])
                self.done.append((1 if allowed else 2, id_))
                if allowed:
                    await self.visit(url)
                self.open -= 1
                if allowed:
                    break
            host.busy = False
            self.offer(host)
            if not self.open:
                self.finished.set()
                for _ in range(IN_FLIGHT):
                    self.wake.release()

    async def get(self, url: str) -> tuple[int, str, str, bytes]:
        target = yarl.URL(url, encoded=True)
        async with self.client.get(target, allow_redirects=False) as response:
            headers = response.headers
            body = await response.read()
            return (
                response.status,
                headers.get("Location", ""),
                headers.get("Content-Type", ""),
                body,
            )

    async def visit(self, url: str) -> None:
        status, location, kind, body = await self.get(url)
        if 300 <= status < 400 and location:
            self.add(resolved(url, [location]))
        elif status == 200 and kind.startswith("text/html"):
            self.pages += 1
            self.add(links_of(url, body))

    async def write(self, database: aiosqlite.Connection) -> None:
        while not self.finished.is_set():
            try:
                await asyncio.wait_for(self.finished.wait(), 0.2)
            except TimeoutError:
                if len(self.new) + len(self.done) < BATCH:
                    continue
            new, done, self.new, self.done = self.new, self.done, [], []
            await database.execute("BEGIN IMMEDIATE")
            await database.executemany("INSERT OR IGNORE INTO urls VALUES (?, ?, 0)", new)
            await database.executemany("UPDATE urls SET state = ? WHERE id = ?", done)
            await database.execute("COMMIT")


async def main(seeds: str, file: str) -> None:
    client = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=60),
        headers={"User-Agent": "bench"},
    )
    async with client, aiosqlite.connect(file, isolation_level=None) as database:
        for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", SCHEMA):
            await database.execute(statement)
        crawl = Crawl(client)
        crawl.add(Path(seeds).read_text().split())  # noqa: ASYNC240 - nothing else runs yet
        await asyncio.gather(crawl.write(database), *(crawl.work() for _ in range(IN_FLIGHT)))
    print("pages", crawl.pages)  # noqa: T201


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
