"""Headers that the config has for a host go to the schemes and ports that they are meant for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from crawler.clock import RealClock
from crawler.embedding.session import PoliteSession
from crawler.fetching import header_scope as meant_module
from crawler.fetching.fetcher import AiohttpFetcher
from crawler.fetching.header_scope import HeaderScope
from crawler.fetching.request import Request, service_of
from crawler.testing import FakeFetcher, JumpClock, html, redirect
from tests.crawler.conftest import fetcher_config
from tests.tables import each

if TYPE_CHECKING:
    from tests.conftest import World
    from tests.crawler.conftest import Serve

CONFIG: dict[str, Any] = {
    "fetch": {"headers": {"X-All": "all"}},
    "site": {"raw.test": {"headers": {"X-Secret": "secret"}}},
}


@each(
    ("url", "service"),
    [
        ("http://a.test/", "http:"),
        ("https://a.test/x:1/y", "https:"),
        ("http://a.test:8080/", "http:8080"),
        ("http://[::1]/", "http:"),
        ("https://[::1]:8443/?a=b:c", "https:8443"),
    ],
)
def test_service_of(url: str, service: str) -> None:
    assert service_of(url) == service


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("own", [{}, {"X-Own": "own"}])
async def test_a_bare_request_has_no_headers_of_its_host(
    serve: Serve, bare: bool, own: dict[str, str]
) -> None:
    config = fetcher_config(**CONFIG)
    server = await serve(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", keep=True)
    async with AiohttpFetcher(config, RealClock()) as fetcher:
        for _ in range(2):
            await fetcher.fetch(Request(url=server.url(), headers=own, bare=bare))
    for head in server.requests:
        assert (b"X-Secret: secret" in head) == (not bare)
        assert (b"X-All: all" in head) == bare  # a site's are in the place of those
        assert (b"X-Own: own" in head) == bool(own)
        assert b"User-Agent: examplebot/1.0" in head


class Bares:
    """A fetcher that notes which requests were bare."""

    def __init__(self, inner: FakeFetcher) -> None:
        self.inner = inner
        self.log = inner.log
        self.bare: dict[str, bool] = {}

    async def address_of(self, host: str) -> Any:
        return await self.inner.address_of(host)

    async def fetch(self, request: Request) -> Any:
        self.bare[request.url] = request.bare
        return await self.inner.fetch(structs.replace(request, bare=False))


@pytest.mark.parametrize(
    ("seed", "to", "bare"),
    [
        ("http://a.test", "https://a.test", False),
        ("http://a.test", "http://a.test:8080", True),
        ("https://a.test", "http://a.test", True),
        ("https://a.test", "https://a.test:8443", True),
        ("http://a.test:8080", "https://a.test", True),
        ("http://a.test:8080", "http://a.test", True),
    ],
)
@pytest.mark.parametrize("by", ["link", "redirect"])
async def test_a_crawl_takes_them_to_no_other_port_or_scheme(
    world: World, seed: str, to: str, bare: bool, by: str
) -> None:
    """Neither along a link or a redirect, nor to that origin's robots.txt."""
    first = html("A", f"{to}/x") if by == "link" else redirect(f"{to}/x")
    answers = {f"{seed}/": first, f"{to}/x": html("X", f"{to}/y"), f"{to}/y": html("Y")}
    fetcher = Bares(FakeFetcher(world.clock, answers))
    await world.crawl({}, f"{seed}/", fetcher=fetcher)
    assert fetcher.bare[f"{seed}/"] is False
    assert fetcher.bare[f"{seed}/robots.txt"] is False
    for path in ("robots.txt", "x", "y"):
        assert fetcher.bare[f"{to}/{path}"] is bare


def test_each_domain_has_the_ports_that_it_was_named_with() -> None:
    meant = HeaderScope()
    meant.add("https://www.a.test/")
    assert meant.covers("https://unnamed.test/")
    assert not meant.covers("https://a.test:8443/")
    meant.add("http://b.test:8080/")
    meant.add("https://www.a.test/x")
    for url in ("https://a.test/", "https://api.a.test/", "http://b.test:8080/x"):
        assert meant.covers(url)
    for url in ("http://a.test:8080/", "https://b.test/", "http://www.a.test/"):
        assert not meant.covers(url)
    assert meant.covers("http://unnamed.test:8080/")


def test_what_is_meant_is_bounded() -> None:
    meant = HeaderScope()
    meant.add("http://h.test:8080/")
    for n in range(meant_module.DOMAINS_MAX + 100):
        meant.add(f"https://h{n}.test/")
    assert len(meant._of) <= meant_module.DOMAINS_MAX
    assert meant.covers("https://h1.test/")


async def test_a_crawl_takes_them_to_no_port_of_another_seed(world: World) -> None:
    answers = {
        "https://a.test/": redirect("http://a.test:8080/x"),
        "http://a.test:8080/x": html("X"),
        "http://b.test:8080/": html("B"),
    }
    fetcher = Bares(FakeFetcher(world.clock, answers))
    await world.crawl({}, "https://a.test/", "http://b.test:8080/", fetcher=fetcher)
    assert fetcher.bare["https://a.test/"] is False
    assert fetcher.bare["http://b.test:8080/"] is False
    assert fetcher.bare["http://a.test:8080/robots.txt"] is True
    assert fetcher.bare["http://a.test:8080/x"] is True


async def test_a_session_takes_them_to_no_other_port_either() -> None:
    to = "http://a.test:8080"
    answers = {"http://a.test/": redirect(f"{to}/x"), f"{to}/x": html("X")}
    async with JumpClock() as clock:
        fetcher = Bares(FakeFetcher(clock, answers))
        agent = "test/1.0 (+https://example.com/bot)"
        async with PoliteSession(user_agent=agent, clock=clock, fetcher=fetcher) as session:
            await session.get("http://a.test/")
            elsewhere = [f"{to}/robots.txt", f"{to}/x"]
            assert [fetcher.bare[url] for url in elsewhere] == [True, True]
            assert fetcher.bare["http://a.test/"] is False
            await session.get(f"{to}/x")  # the caller means it
            assert fetcher.bare[f"{to}/x"] is False
