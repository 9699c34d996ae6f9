"""No page is lost if a server closes idle connections instead of answering on them."""

from __future__ import annotations

import asyncio

import pytest

from crawler.app import crawl
from crawler.config import from_dict

PAGES = 12


@pytest.mark.parametrize("attempts_max", [1, 3])
async def test_each_page_of_a_server_that_drops_kept_connections_is_visited(tmp_path, attempts_max):
    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            path = request.split()[1]
            body = b"ok"
            if path == b"/":
                body = b"".join(b"<a href=/%d>x</a>" % n for n in range(PAGES))
            status = b"404 Not Found" if path == b"/robots.txt" else b"200 OK"
            fields = b"Content-Type: text/html\r\nContent-Length: %d" % len(body)
            writer.write(b"HTTP/1.1 " + status + b"\r\n" + fields + b"\r\n\r\n" + body)
            await reader.readuntil(b"\r\n\r\n")  # as if it went on
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(answer_once, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        config = from_dict(
            {
                "crawl": {"patience": 5},
                "politeness": {"delay": 0, "latency_factor": 0},
                "fetch": {"max_attempts": attempts_max},
                "network": {"allow": ["127.0.0.0/8"]},
                "storage": {"url": f"sqlite:{tmp_path}/crawl.db"},
            }
        )
        summary = await crawl(config, seeds=[f"http://127.0.0.1:{port}/"])
    assert (summary.visited, summary.failed) == (PAGES + 1, 0)
