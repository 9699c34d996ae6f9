"""A fetcher is exchanged while it works: requests under way end where they began."""

from __future__ import annotations

import asyncio
import collections
import gc
import os
import socket
import ssl
from typing import Any, Self

import pytest
from aiohttp.abc import ResolveResult

from crawler.clock import RealClock
from crawler.config import Config, ConfigError, from_dict
from crawler.fetching.cookies import Cookies
from crawler.fetching.fetcher import AiohttpFetcher
from crawler.fetching.reloadable import ReloadableFetcher
from crawler.fetching.request import Answer, Failure, Request
from crawler.testing import LocalWeb, ReceivedRequest, Reply, html
from policies.retries import FailureCode
from tests.crawler.fetching.test_fetcher_names import FakeDns, open_fetcher


class SlowDns(FakeDns):
    """Answers when it may."""

    def __init__(self, zone: dict[str, list[str] | Exception]) -> None:
        super().__init__(zone)
        self.may = asyncio.Event()
        self.closed = False

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        await self.may.wait()
        return await super().resolve(host, port, family)

    async def close(self) -> None:
        self.closed = True


class Line:
    """A fetcher that answers with the user agent it was made for, when it is told to."""

    def __init__(self, config: Config, cookies: Cookies | None) -> None:
        self.name = config.user_agent_sent
        self.cookies = cookies or Cookies(RealClock())
        self.may = asyncio.Event()
        self.under_way = 0
        self.open = False

    @property
    def busy(self) -> bool:
        return bool(self.under_way)

    async def __aenter__(self) -> Self:
        self.open = True
        return self

    async def __aexit__(self, *args: object) -> None:
        self.open = False

    def take_over(self, before: object) -> None: ...

    async def address_of(self, host: str) -> str | Failure:
        return self.name

    async def fetch(self, request: Request) -> Answer | Failure:
        self.under_way += 1
        await self.may.wait()
        self.under_way -= 1
        return Failure(
            url=request.url, code=FailureCode.PROTOCOL, sentence=self.name, connected=True,
            permanent=False, started_s=0.0, ended_s=0.0,
        )  # fmt: skip


def agent(name: str, **sections: object) -> Config:
    return from_dict({"crawl": {"user_agent": f"{name}bot/1.0 (+https://a.test/)"}, **sections})


class Lines(ReloadableFetcher):
    """A fetcher whose fetchers are Lines."""

    def __init__(self, config: Config, kind: type[Line] = Line) -> None:
        self.kind = kind
        self.made: list[Line] = []
        super().__init__(config, RealClock())

    def create(self, config: Config, cookies: Cookies | None) -> Any:
        self.made.append(self.kind(config, cookies))
        return self.made[-1]


class OverDns(ReloadableFetcher):
    """One that keeps an address for each name, and asks `dns` for it."""

    def __init__(self, config: Config, dns: FakeDns) -> None:
        self.dns = dns
        super().__init__(config, RealClock())

    def create(self, config: Config, cookies: Cookies | None) -> AiohttpFetcher:
        return open_fetcher(self.dns, pin=True)


async def reload(fetcher: ReloadableFetcher, config: Config) -> None:
    async with fetcher.replacing(config, fetcher.prepare(config)):
        pass


async def test_what_is_judged_by_is_exchanged_in_the_same_moment() -> None:
    """Law 2: no request is made as somebody whom robots.txt was not read for."""
    judged_for = "one"
    seen: list[tuple[str, str]] = []

    class Slow(Line):
        async def __aexit__(self, *args: object) -> None:
            for _ in range(3):
                await asyncio.sleep(0)

    async def look() -> None:
        for _ in range(9):
            await asyncio.sleep(0)
            seen.append((judged_for, str(await network.address_of("a.test"))))

    async with Lines(agent("one"), Slow) as network:
        looking = asyncio.ensure_future(look())
        two = agent("two")
        async with network.replacing(two, network.prepare(two)):
            judged_for = "two"
        await looking
    assert all(name.startswith(judged) for judged, name in seen)
    assert seen[-1][0] == "two"


async def test_a_request_ends_under_the_config_it_was_begun_under() -> None:
    async with Lines(agent("one")) as network:
        made = network.made
        first = asyncio.ensure_future(network.fetch(Request(url="http://a.test/")))
        await asyncio.sleep(0)
        two = agent("two")
        prepared = network.prepare(two)
        assert await network.address_of("a.test") == made[0].name  # until it is exchanged
        async with network.replacing(two, prepared):
            pass
        assert await network.address_of("a.test") == made[1].name
        second = asyncio.ensure_future(network.fetch(Request(url="http://a.test/")))
        assert made[0].open
        for one in made:
            one.may.set()
        results = [await first, await second]
        assert [getattr(one, "sentence", "") for one in results] == [made[0].name, made[1].name]
        await reload(network, agent("three"))
        assert [one.open for one in made] == [False, False, True]
        assert made[2].cookies is made[0].cookies
    assert not made[2].open


async def test_what_does_not_concern_it_leaves_it_as_it_is() -> None:
    async with Lines(agent("one")) as network:
        made = network.made
        await reload(network, agent("one", politeness={"delay": 7}))
        assert len(made) == 1
        await reload(network, agent("one", fetch={"headers": {"X-Y": "z"}}))
        assert len(made) == 2


async def test_secrets_are_read_again_and_missing_ones_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str | None] = []

    def page(one: object) -> Reply:
        headers = getattr(one, "headers", {})
        asked.append(headers.get("authorization"))
        return html("Page")

    async with LocalWeb({"a.test": {"/": page}}) as web:
        config = from_dict(
            {
                **web.config(),
                "fetch": {"credentials": {web.url("a.test")[:-1]: "env:A_TEST_SECRET"}},
            }
        )
        monkeypatch.setenv("A_TEST_SECRET", "Bearer one")
        async with ReloadableFetcher(config, RealClock()) as network:
            await network.fetch(Request(url=web.url("a.test")))
            monkeypatch.setenv("A_TEST_SECRET", "Bearer two")
            await reload(network, config)
            await network.fetch(Request(url=web.url("a.test")))
            monkeypatch.delenv("A_TEST_SECRET")
            with pytest.raises(ConfigError):
                network.prepare(config)
            await network.fetch(Request(url=web.url("a.test")))
    assert asked == ["Bearer one", "Bearer two", "Bearer two"]


async def test_law_1_names_keep_the_address_whose_clock_counts() -> None:
    """With `per = "ip"`: a name of several, which DNS gives in another order each time."""
    dns = FakeDns({"a.test": ["127.0.0.1", "127.0.0.2"]})
    async with OverDns(agent("one"), dns) as network:
        assert await network.address_of("a.test") == "127.0.0.1"
        dns.zone["a.test"] = ["127.0.0.2", "127.0.0.1"]
        await reload(network, agent("two"))
        assert await network.address_of("a.test") == "127.0.0.1"
        dns.zone["a.test"] = ["127.0.0.2"]  # it has left the DNS
        await reload(network, agent("three"))
        assert await network.address_of("a.test") == "127.0.0.2"


async def test_a_lookup_under_way_ends_where_it_was_begun() -> None:
    dns = SlowDns({"a.test": ["127.0.0.1"]})
    async with OverDns(agent("one"), dns) as network:
        looking = asyncio.ensure_future(network.address_of("a.test"))
        await asyncio.sleep(0)
        await reload(network, agent("two"))
        assert not dns.closed
        dns.may.set()
        assert await looking == "127.0.0.1"


async def test_what_was_exchanged_is_let_go() -> None:
    """Fetchers, their connections and what TLS trusts: however often a config is read again."""
    trusted = ssl.get_default_verify_paths().cafile

    def held() -> dict[str, int]:
        gc.collect()
        names = (
            "AiohttpFetcher", "Connector", "ClientSession", "PooledConnection", "Resolver",
            "SSLContext",
        )  # fmt: skip
        kinds = collections.Counter(type(one).__name__ for one in gc.get_objects())
        return {name: kinds[name] for name in names}

    def config(turn: int) -> Config:
        base = web.config()
        section: dict[str, object] = {"timeout": 10 + turn, "cookies": True}
        if trusted is not None:
            section["ca_file"] = trusted
        return from_dict({**base, "fetch": section})

    before = held()
    async with (
        LocalWeb({"a.test": {"/": html("Page")}}) as web,
        ReloadableFetcher(config(0), RealClock()) as network,
    ):
        files = 0
        for turn in range(1, 16):
            answer = await network.fetch(Request(url=web.url("a.test")))
            assert isinstance(answer, Answer)
            await reload(network, config(turn))
            if turn == 2:
                files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        await asyncio.sleep(0)
        assert all(count <= before[name] + 2 for name, count in held().items()), held()
        assert len(os.listdir("/proc/self/fd")) <= files  # noqa: PTH208


async def test_idle_connections_of_an_exchanged_fetcher_are_closed_at_once() -> None:
    """However long a request of it takes: else every reload adds a connection for each host."""
    may, asked = asyncio.Event(), asyncio.Event()

    async def slow(_: ReceivedRequest) -> Reply:
        asked.set()
        await may.wait()
        return html("Slow")

    async def open_ones(web: LocalWeb, count: int) -> bool:
        for _ in range(200):
            if len(web._open) == count:
                return True
            await asyncio.sleep(0.01)
        return False

    sites = {"a.test": {"/": html("Page")}, "b.test": {"/": slow}}
    async with LocalWeb(sites) as web:
        config = {**web.config(), "fetch": {"timeout": 10}}
        async with ReloadableFetcher(from_dict(config), RealClock()) as network:
            assert isinstance(await network.fetch(Request(url=web.url("a.test"))), Answer)
            slow_one = asyncio.create_task(network.fetch(Request(url=web.url("b.test"))))
            await asked.wait()
            assert await open_ones(web, 2)
            config["fetch"] = {"timeout": 11}
            await reload(network, from_dict(config))
            assert await open_ones(web, 1)
            assert isinstance(await network.fetch(Request(url=web.url("a.test"))), Answer)
            may.set()
            answer = await slow_one
            assert isinstance(answer, Answer)
            assert b"Slow" in answer.body
            assert await open_ones(web, 1), "the new one's"
