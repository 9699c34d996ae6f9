"""A web of many hosts as a process of its own, so fast that it is not what is measured.

    python site_process.py HOSTS PAGES LATENCY_S LOG_FILE [CPU]

Prints its port, serves until its standard input ends, then writes the log as JSON: a list of
[host, start_s, end_s, path], the end stamped before the last write.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

PAGE_BYTES = 7_000
LINKS = 20
FOREIGN = 4  # of them to other hosts
WORDS = ("ka", "to", "ri", "mo", "ne", "su", "la", "pe", "di", "gra", "ston", "ver", "ing", "tal")


def bodies(hosts: int, pages: int, port: int) -> list[bytes]:
    """The pages, equal on every host; each links to the next one."""
    made = []
    for n in range(pages):
        links = [f"/page/{(n + step * step + 1) % pages}" for step in range(LINKS - FOREIGN)]
        links += [
            f"http://h{(n * 7 + step * 13) % hosts}.test:{port}/page/{(n + step) % pages}"
            for step in range(FOREIGN)
        ]
        parts = [
            f'<!DOCTYPE html><html><head><meta charset="utf-8"><title>Page {n}</title></head><body>'
        ]
        size = len(parts[0])
        room = (PAGE_BYTES - size) // LINKS
        for m, link in enumerate(links):
            anchor = f'<a href="{link}">link {m}</a>'
            words = " ".join(WORDS[(n + m + k) % len(WORDS)] for k in range(room // 4))
            parts.append(f"<p>{words[: room - len(anchor) - 10]} {anchor}</p>\n")
        parts.append("</body></html>\n")
        made.append("".join(parts).encode())
    return made


class Site(asyncio.Protocol):
    def __init__(self, answers: dict[bytes, bytes], latency_s: float, log: list[object]) -> None:
        self.answers = answers
        self.latency_s = latency_s
        self.log = log
        self.loop = asyncio.get_running_loop()
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        start_s = time.monotonic()
        self.buffer += data
        if not self.buffer.endswith(b"\r\n\r\n"):
            return
        request, self.buffer = self.buffer, b""
        path = request[4 : request.index(b" ", 4)]
        at = request.index(b"\r\nHost: ") + 8
        host = request[at : request.index(b":", at)]
        if self.latency_s and path != b"/robots.txt":
            self.loop.call_later(self.latency_s, self.answer, host, path, start_s)
        else:
            self.answer(host, path, start_s)

    def answer(self, host: bytes, path: bytes, start_s: float) -> None:
        answer = self.answers.get(path) or self.answers[b"404"]
        self.log.append((host.decode(), start_s, time.monotonic(), path.decode()))
        self.transport.write(answer)


async def main(hosts: int, pages: int, latency_s: float, log_file: str) -> None:
    loop = asyncio.get_running_loop()
    log: list[object] = []
    answers: dict[bytes, bytes] = {}
    server = await loop.create_server(
        lambda: Site(answers, latency_s, log), "127.0.0.1", 0, backlog=1024
    )
    port = server.sockets[0].getsockname()[1]

    def put(path: str, body: bytes, status: str = "200 OK", kind: str = "text/html") -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        answers[path.encode()] = head.encode() + body

    for n, body in enumerate(bodies(hosts, pages, port)):
        put(f"/page/{n}", body)
    put("404", b"", "404 Not Found")
    put("/robots.txt", b"User-agent: *\nDisallow: /private/\n", kind="text/plain")
    print(port, flush=True)  # noqa: T201
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()
    Path(log_file).write_text(json.dumps(log))  # noqa: ASYNC240 - nothing else runs any more


if __name__ == "__main__":
    if len(sys.argv) > 5:
        os.sched_setaffinity(0, {int(sys.argv[5])})
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]))
