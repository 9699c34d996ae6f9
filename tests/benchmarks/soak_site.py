"""A web of 284,000 pages as a process of its own, which watches how its hosts are treated.

    python soak_site.py [CPU [HOSTS PAGES]]

HOSTS, and PAGES of each, instead of 284 and 1,000. Prints its port. Page n of a host links to pages
2n+1 and 2n+2, to some before it, and home to other hosts. Each line of standard input is answered
by one of JSON; it ends with the input:

    look          {"hosts", "requests", "least_rest_s", "together"} since the last `look`
    host NAME     {"requests", "least_rest_s"} of one host, since the last time it was asked for

`least_rest_s` is from when an answer was made to the first byte read of the next request: never
less than what the crawler rested. `together` counts those begun before the last was answered.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
import time
import zlib

PADDING = b"<p>" + b"so much to read here, and none of it matters " * 60 + b"</p>"
HOSTS, PAGES = 284, 1_000  # what a crawler stores of them does not grow for ever
if len(sys.argv) > 3:
    HOSTS, PAGES = int(sys.argv[2]), int(sys.argv[3])
MOOD_S = 2.0  # between changes of a moody host's robots.txt


class Manners:
    """How one host is treated."""

    __slots__ = ("busy", "ended_s", "own_requests", "own_rest_s", "requests", "rest_s", "together")

    def __init__(self) -> None:
        self.busy = 0
        self.ended_s = -math.inf
        self.requests = self.own_requests = self.together = 0
        self.rest_s = self.own_rest_s = math.inf


class Site(asyncio.Protocol):
    def __init__(self, hosts: dict[bytes, Manners], port: list[int]) -> None:
        self.hosts = hosts
        self.port = port
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        now_s = time.monotonic()
        self.buffer += data
        if not self.buffer.endswith(b"\r\n\r\n"):
            return
        request, self.buffer = self.buffer, b""
        path = request[4 : request.index(b" ", 4)]
        at = request.index(b"\r\nHost: ") + 8
        host = request[at : request.index(b":", at)]
        manners = self.hosts.setdefault(host, Manners())
        manners.requests += 1
        manners.own_requests += 1
        manners.together += manners.busy
        manners.busy += 1
        rest_s = now_s - manners.ended_s
        manners.rest_s = min(manners.rest_s, rest_s)
        manners.own_rest_s = min(manners.own_rest_s, rest_s)
        moody = is_moody(host)
        answer = self.mood(host, path, request) if moody else None
        if answer is None:
            body, kind = self.page(host, path)
            more = 'Set-Cookie: seen=1; Path=/\r\nETag: "same"\r\n' if moody else ""
            head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{more}"
            answer = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        manners.ended_s = time.monotonic()
        manners.busy -= 1
        if not answer:
            self.transport.abort()
            return
        self.transport.write(answer)

    def mood(self, host: bytes, path: bytes, request: bytes) -> bytes | None:
        """The response of an erratic host; empty: the connection is cut; None: a normal
        response."""
        n = zlib.crc32(host + path)
        if path == b"/robots.txt":
            turn = int(time.monotonic() / MOOD_S + n) % 6
            if turn == 0:
                return b""
            status, body = (503, b"") if turn < 3 else (404, b"") if turn == 3 else (200, None)
            if body is None:
                rules = "".join(f"Disallow: /{n + turn}/{rule}*x$\n" for rule in range(300))
                body = f"User-agent: *\n{rules}Sitemap: http://nowhere.test/{n}.xml\n".encode()
            return _plain(status, body)
        match n % 16:
            case 0:
                return _plain(503, b"")
            case 1:
                return _plain(404, b"gone" * 500)
            case 2:
                return b"HTTP/1.1 302 Found\r\nLocation: /p/1\r\nContent-Length: 0\r\n\r\n"
            case 3:
                return b""
            case 4:  # less than announced
                return b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\nConnection: close\r\n\r\nshort"
        if b"\r\nIf-None-Match:" in request:
            return b'HTTP/1.1 304 Not Modified\r\nETag: "same"\r\n\r\n'
        return None

    def page(self, host: bytes, path: bytes) -> tuple[bytes, str]:
        if path == b"/robots.txt":
            return b"User-agent: *\nDisallow: /private/\n", "text/plain"
        try:
            n = int(path.rpartition(b"/")[2] or b"0")
        except ValueError:
            n = 0
        links = [(2 * n + 1) % PAGES, (2 * n + 2) % PAGES, n // 2, n // 3, max(0, n - 1)]
        text = "".join(f'<p><a href="/p/{link}">page {link}</a></p>' for link in links)
        other = (n * 7 + len(host)) % HOSTS
        text += f'<a href="/private/{n % 50}">no</a><a href="http://h{other}.test:{self.port[0]}/">h</a>'
        title = f"<!DOCTYPE html><title>Page {n}</title>".encode()
        return title + text.encode() + PADDING, "text/html; charset=utf-8"


def is_moody(host: bytes) -> bool:
    """Whether the host answers erratically. Hosts are named h0.test, h1.test and so on."""
    return host[1:-5].isdigit() and int(host[1:-5]) % 4 == 3


def _plain(status: int, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


def look(hosts: dict[bytes, Manners]) -> dict[str, float | int]:
    said = {
        "hosts": len(hosts),
        "requests": sum(one.requests for one in hosts.values()),
        "least_rest_s": min((one.rest_s for one in hosts.values()), default=math.inf),
        "together": sum(one.together for one in hosts.values()),
    }
    for one in hosts.values():
        one.requests = one.together = 0
        one.rest_s = math.inf
    return said


def look_at(one: Manners) -> dict[str, float | int]:
    said = {"requests": one.own_requests, "least_rest_s": one.own_rest_s}
    one.own_requests, one.own_rest_s = 0, math.inf
    return said


async def main() -> None:
    hosts: dict[bytes, Manners] = {}
    port: list[int] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Site(hosts, port), "127.0.0.1", 0, backlog=1024)
    port.append(server.sockets[0].getsockname()[1])
    print(port[0], flush=True)  # noqa: T201
    while line := (await loop.run_in_executor(None, sys.stdin.readline)).split():
        said = look(hosts) if line[0] == "look" else look_at(hosts[line[1].encode()])
        print(json.dumps(said), flush=True)  # noqa: T201
    server.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.sched_setaffinity(0, {int(sys.argv[1])})
    asyncio.run(main())
