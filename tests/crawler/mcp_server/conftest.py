"""Tools on a session without a network, on a clock that jumps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from mcp import Client
from mcp.server.lowlevel import Server
from mcp.types import TextContent

from crawler import PoliteSession
from crawler.mcp_server.server import make_server
from crawler.mcp_server.tools import Tools
from crawler.testing import FakeFetcher, JumpClock, Reply, hang_up, html, redirect, text
from policies.retries import FailureCode

HELLO: dict[str, object] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
AGENT = "examplebot/1.0 (+https://example.com/bot)"
HOME = "https://a.test/"
PARAGRAPHS = "".join(
    f"<p>Paragraph {n} is about otters, which live in rivers and eat fish. "
    f'<a href="/otter/{n}">More about otter {n}</a></p>'
    for n in range(60)
)
ARTICLE = (
    '<html><head><title>Otters\u202e</title><meta name="tdm-reservation" content="1"></head><body>'
    '<nav><a href="/menu">Menu of the site</a></nav>'
    f"<article><h1>Otters</h1>{PARAGRAPHS}</article><footer>Imprint</footer></body></html>"
)
SHORT = (
    "<html><body><nav><a href=/>Home</a></nav><main><h1>Limits</h1><p>These are the limits.</p>"
    "<table><tr><th>Limit</th><th>Value</th></tr><tr><td>Size</td><td>10 MB</td></tr></table>"
    "<pre><code>widget --max-size 10MB\n  --rate 5</code></pre>"
    '<p>See <a href="/errors#7">error 7</a>.</p></main></body></html>'
)
PAGES: dict[str, Reply | FailureCode] = {
    "https://a.test/robots.txt": text(
        "User-agent: *\nDisallow: /private/\nCrawl-delay: 2\n\nUser-agent: other\nDisallow: /\n"
        "Sitemap: https://a.test/s.xml\nContent-Signal: ai-train=no\n"
    ),
    "https://a.test/": html("Home", "/article"),
    "https://a.test/article": Reply(body=ARTICLE),
    "https://a.test/short": Reply(body=SHORT),
    "https://a.test/old": redirect("/article"),
    "https://a.test/hidden": redirect("/private/y"),
    "https://a.test/data": Reply(body='{"a": 1}', content_type="application/json"),
    "https://a.test/file": Reply(body=b"%PDF-1.7\0", content_type="application/pdf"),
    "https://a.test/script": Reply(body="<html><body><script>show()</script></body></html>"),
    "https://slow.test/robots.txt": text("User-agent: *\nCrawl-delay: 3600\n"),
    "https://slow.test/": html("Slow"),
    "https://down.test/robots.txt": Reply(status=503),
    "https://dead.test/robots.txt": FailureCode.CONNECT,
    "https://inside.test/robots.txt": FailureCode.ADDRESS,
    "https://loop.test/": redirect("/"),
    "https://cut.test/": hang_up(),
}


@dataclass(frozen=True)
class Said:
    text: str
    failed: bool


class Agent:
    """Calls tools as a client does, in this process."""

    def __init__(self, server: Server[Any], clock: JumpClock, fetcher: FakeFetcher) -> None:
        self.server = server
        self.clock = clock
        self.fetcher = fetcher

    async def call(self, name: str, **arguments: object) -> Said:
        async with Client(self.server) as client:  # here: it must end in the task that began it
            result = await client.call_tool(name, arguments)
        (content,) = result.content
        assert isinstance(content, TextContent)
        return Said(content.text, bool(result.is_error))

    def requests(self) -> list[str]:
        return [f"{one.host}{one.path}" for one in self.fetcher.log]


@pytest.fixture
async def agent() -> AsyncIterator[Agent]:
    async with JumpClock() as clock:
        fetcher = FakeFetcher(clock, PAGES)
        async with PoliteSession(
            user_agent=AGENT,
            config={
                "fetch": {"max_attempts": 1},
                "site": {"down.test": {"dialect": "rfc9309"}},
            },
            clock=clock,
            fetcher=fetcher,
        ) as session:
            server = make_server(Tools(session, clock, config=session.config), clock)
            yield Agent(server, clock, fetcher)
