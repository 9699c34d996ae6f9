"""Names, addresses and the guard: what is looked up, what is connected to, and what never is."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import aiodns
import pytest
from aiohttp import AsyncResolver
from aiohttp.abc import AbstractResolver, ResolveResult
from hypothesis import assume, example, given
from hypothesis import strategies as st

from crawler.clock import RealClock
from crawler.config import ConfigError, from_dict
from crawler.fetching.fetcher import AiohttpFetcher, Answer, Failure, Request
from crawler.fetching.guard import AddressRefusedError, address_rules
from crawler.fetching.resolver import (
    REMEMBERED_S,
    RENEWED_S,
    NameLookupError,
    Resolver,
)
from crawler.testing import JumpClock
from policies.address import AddressRules, is_loopback
from policies.retries import FailureCode
from policies.url import canonical, host_of
from tests.crawler.conftest import GivenDns, fetcher_config

LOOPBACK = AddressRules.parse(["127.0.0.0/8", "::1/128"])
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


class FakeDns(AbstractResolver):
    """Answers from a dict; an exception in it is raised. Counts what it is asked."""

    def __init__(self, zone: dict[str, list[str] | Exception]) -> None:
        self.zone = zone
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        found = self.zone[host]
        if isinstance(found, Exception):
            raise found
        return [
            ResolveResult(hostname=host, host=a, port=port, family=family, proto=0, flags=0)
            for a in found
        ]

    async def close(self) -> None:
        pass


def open_fetcher(
    dns: FakeDns,
    *,
    allow: Sequence[str] = ("127.0.0.0/8", "::1/128"),
    pin: bool = False,
    resolve: Mapping[str, str] | None = None,
    user_agent: str = "examplebot/1.0 (+https://example.com/bot)",
    **sections: Any,
) -> AiohttpFetcher:
    config = fetcher_config(
        crawl={"user_agent": user_agent},
        network={"allow": [*allow], "resolve": {**(resolve or {})}},
        **sections,
    )
    resolver = GivenDns(
        lambda: dns, RealClock(), table=resolve or {}, addresses=address_rules(config), pin=pin
    )
    return AiohttpFetcher(config, RealClock(), resolver=resolver)


def ares(code: int) -> OSError:
    """As aiohttp's AsyncResolver raises it."""
    error = OSError(None, "some words")
    error.__cause__ = aiodns.error.DNSError(code, "some words")
    return error


@pytest.mark.parametrize(
    ("error", "permanent", "words"),
    [
        (ares(aiodns.error.ARES_ENOTFOUND), True, "does not exist"),
        (ares(aiodns.error.ARES_ENODATA), False, "no address"),
        (ares(aiodns.error.ARES_ESERVFAIL), False, "lookup of"),
        (ares(aiodns.error.ARES_ETIMEOUT), False, "lookup of"),
        (ares(aiodns.error.ARES_ECONNREFUSED), False, "lookup of"),
        (socket.gaierror(socket.EAI_NONAME, "x"), True, "does not exist"),
        (socket.gaierror(socket.EAI_AGAIN, "x"), False, "lookup of"),
        (socket.gaierror(socket.EAI_FAIL, "x"), False, "lookup of"),
        (UnicodeError("label too long"), True, "not a valid DNS name"),
        (OSError(None, None), False, "lookup of"),
    ],
)
async def test_dns_failures_are_told_apart(error, permanent, words):
    """Only a name that does not exist is given up immediately."""
    async with open_fetcher(FakeDns({"a.example": error})) as fetcher:
        failure = await fetcher.fetch(Request(url="http://a.example/"))
        assert isinstance(failure, Failure)
        assert (failure.code, failure.permanent) == (FailureCode.DNS, permanent)
        assert words in failure.sentence
        assert "a.example" in failure.sentence
        assert not failure.connected
        again = await fetcher.address_of("a.example")
        assert isinstance(again, Failure)
        assert (again.url, again.error) == ("a.example", failure.error)


async def test_lookup_has_a_bound():
    class Mute(FakeDns):
        async def resolve(self, host, port=0, family=socket.AF_INET):
            await RealClock().sleep_until(RealClock().monotonic() + 60)
            raise AssertionError

    async with open_fetcher(Mute({}), fetch={"connect_timeout": "50ms"}) as fetcher:
        failure = await fetcher.fetch(Request(url="http://a.example/"))
    assert isinstance(failure, Failure)
    assert failure.error == "dns: the name was not resolved within 0.05 s"


@pytest.mark.parametrize("host", ["a.test", "b.a.test", "test", "A.TEST.", "one.example"])
async def test_static_names_ask_no_dns(serve, host):
    server = await serve(HELLO)
    dns = FakeDns({})
    resolve = {"*.test": "127.0.0.1", "one.example": "127.0.0.1"}
    async with open_fetcher(dns, resolve=resolve) as fetcher:
        answer = await fetcher.fetch(Request(url=server.url(host=host)))
        assert isinstance(answer, Answer), answer
    assert dns.asked == []


async def test_most_specific_static_name_wins():
    async with JumpClock() as clock:
        names = Resolver(
            {"*.test": "127.0.0.1", "*.b.test": "127.0.0.2", "c.b.test": "127.0.0.3"},
            LOOPBACK,
            clock,
        )
        found = [await names.address_of(h) for h in ("a.test", "a.b.test", "c.b.test", "xb.test")]
    assert found == ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.1"]


PATTERNS = st.lists(
    st.sampled_from(["*", "*.", "a", "b", "ab", ".", "test", "*a", "1", "-"]),
    min_size=1,
    max_size=5,
).map("".join)
HOSTS = st.lists(st.sampled_from(["a", "b", "ab", ".", "test", "1", "A"]), min_size=1, max_size=6)


@given(st.dictionaries(PATTERNS, st.integers(1, 200), max_size=4), HOSTS.map("".join))
@example({"*": 9}, "www.example.com")
@example({"*.test": 1, "t*": 2}, "test")
@example({"a*b.test": 1, "*": 2}, "aXb.test.")
async def test_config_and_resolver_read_patterns_alike(entries: dict[str, int], host: str) -> None:
    """What the contact check takes for loopback is what is connected to."""
    table: dict[str, str] = {}
    for pattern, last in entries.items():
        with contextlib.suppress(ConfigError):
            raw = {"network": {"resolve": {pattern: f"127.0.0.{last}"}}}
            table |= from_dict(raw).network.resolve
    config = from_dict({"network": {"resolve": table}})
    url = canonical(f"http://{host}/")
    assume(url is not None)
    assert url is not None
    name = host_of(url)
    async with JumpClock() as clock:
        names = GivenDns(lambda: FakeDns({}), clock, table=table)
        try:
            address = await names.address_of(name)
        except (KeyError, AddressRefusedError):
            address = None
    leads = name == "localhost" or (address is not None and is_loopback(address))
    assert config.leads_to_loopback(name) == leads
    assert config.leads_to_loopback(name, resolves=False) == is_loopback(name)


async def test_static_name_must_have_an_address():
    async with JumpClock() as clock:
        with pytest.raises(ValueError, match=r"elsewhere\.test"):
            Resolver({"a.test": "elsewhere.test"}, LOOPBACK, clock)


async def test_lookups_are_remembered_for_a_while():
    dns = FakeDns({"a.example": ["192.0.2.1"]})
    rules = AddressRules.parse(["192.0.2.0/24"])
    async with JumpClock() as clock:
        names = GivenDns(lambda: dns, clock, addresses=rules)
        for _ in range(3):
            await names.resolve("a.example", 80)
        assert dns.asked == ["a.example"]
        await clock.sleep_until(clock.monotonic() + REMEMBERED_S + 1)
        await names.resolve("a.example", 80)
        assert len(dns.asked) == 2
        names.forget("a.example")
        await names.resolve("a.example", 80)
        assert len(dns.asked) == 3


async def test_pinned_host_keeps_its_address_while_the_dns_has_it():
    dns = FakeDns({"a.example": ["192.0.2.1", "192.0.2.2"]})
    rules = AddressRules.parse(["192.0.2.0/24"])
    async with JumpClock() as clock:
        names = GivenDns(lambda: dns, clock, addresses=rules, pin=True)
        assert await names.address_of("a.example") == "192.0.2.1"
        dns.zone["a.example"] = ["192.0.2.2", "192.0.2.1"]  # round robin
        await clock.sleep_until(clock.monotonic() + REMEMBERED_S + 1)
        assert [r["host"] for r in await names.resolve("a.example", 80)] == ["192.0.2.1"]
        dns.zone["a.example"] = ["192.0.2.3"]  # moved
        await clock.sleep_until(clock.monotonic() + REMEMBERED_S + 1)
        assert await names.address_of("a.example") == "192.0.2.3"


async def test_pinned_host_is_connected_to_at_its_address(serve):
    server = await serve(HELLO, keep=True)
    dns = FakeDns({"a.example": ["127.0.0.1", "127.0.0.9"]})
    async with open_fetcher(dns, pin=True) as fetcher:
        address = await fetcher.address_of("a.example")
        answer = await fetcher.fetch(Request(url=server.url(host="a.example")))
        assert isinstance(answer, Answer), answer
        assert answer.address == address == "127.0.0.1"


async def test_of_a_mixed_lot_only_public_addresses_are_used():
    dns = FakeDns({"a.example": ["10.0.0.1", "192.0.2.7", "::1"]})
    rules = AddressRules.parse(["192.0.2.7"])
    async with JumpClock() as clock:
        names = GivenDns(lambda: dns, clock, addresses=rules)
        assert [r["host"] for r in await names.resolve("a.example", 80)] == ["192.0.2.7"]


async def test_few_addresses_of_each_family_are_tried():
    many = [f"192.0.2.{n}" for n in range(1, 200)] + [f"2001:db8::{n}" for n in range(1, 99)]
    rules = AddressRules.parse(["192.0.2.0/24", "2001:db8::/32"])
    async with JumpClock() as clock:
        names = GivenDns(lambda: FakeDns({"a.example": many}), clock, addresses=rules)
        found = [r["host"] for r in await names.resolve("a.example", 80)]
    assert found == ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"]


async def test_name_without_an_address():
    async with JumpClock() as clock:
        names = GivenDns(lambda: FakeDns({"a.example": []}), clock)
        with pytest.raises(NameLookupError, match="no address"):
            await names.address_of("a.example")


# ---- the guard

SPELLINGS = [
    "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1",
    "017700000001", "127.0.0.1.", "127.255.255.254", "0.0.0.0", "0", "localhost", "LOCALHOST",
    "localhost.", "a.localhost", "[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::127.0.0.1]",
    "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[64:ff9b:1::7f00:1]", "10.0.0.1", "10.1",
    "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.1", "169.254.169.254",
    "0xa9fea9fe", "2852039166", "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
    "255.255.255.255", "[fe80::1]", "[fe80::1%25eth0]", "[fc00::1]", "[fd12:3456::1]",
    "[fec0::1]", "[ff02::1]", "[2001:db8::1]", "[100::1]", "[::ffff:10.0.0.1]",
    "[::ffff:192.168.0.1]", "[::ffff:169.254.169.254]", "[2002:c0a8:1::]", "[64:ff9b::a00:1]",
    "rebound.example", "mapped.example", "nat64.example", "six.example", "metadata.example",
]  # fmt: skip

ZONE = {
    "rebound.example": ["127.0.0.1"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "nat64.example": ["64:ff9b::7f00:1"],
    "six.example": ["::1", "127.0.0.1"],
    "metadata.example": ["169.254.169.254"],
}


class Libc(FakeDns):
    """The zone, and like the system's resolver every numeric form that inet_aton takes."""

    async def resolve(self, host, port=0, family=socket.AF_INET):
        if host.rstrip(".").lower().endswith("localhost"):
            found = ["127.0.0.1", "::1"]
        elif host in ZONE:
            found = ZONE[host]
        else:
            try:
                found = [socket.inet_ntoa(socket.inet_aton(host.rstrip(".")))]
            except OSError:
                raise socket.gaierror(socket.EAI_NONAME, "x") from None
        self.zone = {host: found}
        return await super().resolve(host, port, family)


def test_guard_is_tried_enough():
    assert len(set(SPELLINGS)) >= 60


@pytest.mark.parametrize("host", SPELLINGS)
async def test_private_address_is_never_connected_to(serve, host):
    """Law 9: literals in any spelling, names, and names that answer with private addresses."""
    server = await serve(HELLO)
    async with open_fetcher(Libc({}), allow=()) as fetcher:
        failure = await fetcher.fetch(Request(url=server.url(host=host)))
        assert isinstance(failure, Failure), failure
        assert (failure.code, failure.permanent) == (FailureCode.ADDRESS, True), failure
        assert not failure.connected
    assert server.connections == 0


async def test_allowed_range_is_connected_to(serve):
    server = await serve(HELLO)
    async with open_fetcher(FakeDns({}), allow=["127.0.0.1"]) as fetcher:
        answer = await fetcher.fetch(Request(url=server.url(host="127.0.0.1")))
        assert isinstance(answer, Answer), answer
        failure = await fetcher.fetch(Request(url=server.url(host="127.0.0.2")))
        assert isinstance(failure, Failure)
        assert failure.code is FailureCode.ADDRESS


# ---- proxies


async def test_proxy_set_by_hand_is_connected_to_whatever_its_address(serve):
    proxy = await serve(HELLO)
    async with open_fetcher(FakeDns({}), allow=()) as fetcher:
        answer = await fetcher.fetch(
            Request(url="http://a.example/x", proxy=proxy.url(host="127.0.0.1"))
        )
        assert isinstance(answer, Answer), answer
    assert proxy.requests[0].startswith(b"GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\n")


async def test_private_literal_is_not_asked_of_a_proxy(serve):
    proxy = await serve(HELLO)
    async with open_fetcher(FakeDns({}), allow=()) as fetcher:
        failure = await fetcher.fetch(
            Request(url="http://169.254.169.254/", proxy=proxy.url(host="127.0.0.1"))
        )
        assert isinstance(failure, Failure)
        assert failure.code is FailureCode.ADDRESS
    assert proxy.connections == 0


async def test_without_a_contact_no_name_is_asked_of_a_proxy(serve):
    proxy = await serve(HELLO)
    resolve = {"*": "127.0.0.1"}
    async with open_fetcher(FakeDns({}), resolve=resolve, user_agent="x/1") as fetcher:
        by_proxy = proxy.url(host="127.0.0.1")
        failure = await fetcher.fetch(Request(url="http://a.example/", proxy=by_proxy))
        assert isinstance(failure, Failure)
        assert failure.code is FailureCode.ADDRESS
        assert "crawl.user_agent" in failure.error
        assert proxy.connections == 0
        answer = await fetcher.fetch(Request(url="http://127.0.0.1/x", proxy=by_proxy))
        assert isinstance(answer, Answer), answer


async def test_proxy_that_refuses_the_tunnel(serve):
    proxy = await serve(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
    async with open_fetcher(FakeDns({}), allow=()) as fetcher:
        failure = await fetcher.fetch(
            Request(url="https://a.example/", proxy=proxy.url(host="127.0.0.1"))
        )
        assert isinstance(failure, Failure)
        assert failure.error == "connect: the proxy refused to connect, with status 403"
    assert proxy.requests[0].startswith(b"CONNECT a.example:443 ")


async def test_proxy_that_is_not_there():
    async with open_fetcher(FakeDns({}), allow=()) as fetcher:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            proxy = f"http://127.0.0.1:{sock.getsockname()[1]}"
            failure = await fetcher.fetch(Request(url="http://a.example/", proxy=proxy))
        assert isinstance(failure, Failure)
        assert failure.error == "connect: the proxy refused the connection"


async def test_the_systems_own_dns_knows_this_machine():
    """The real resolver, on the one name that never leaves the machine."""
    async with AiohttpFetcher(
        fetcher_config(network={"allow": ["127.0.0.0/8", "::1/128"]}), RealClock()
    ) as fetcher:
        assert await fetcher.address_of("localhost") in {"127.0.0.1", "::1"}


@pytest.mark.parametrize(
    "url",
    ["http:///x", "http://a.test:99999/", "ftp://a.test/", "http://[::1/", "nonsense", "", "//a/"],
)
async def test_unusable_urls_are_permanent_failures(url):
    async with open_fetcher(FakeDns({})) as fetcher:
        failure = await fetcher.fetch(Request(url=url))
    assert isinstance(failure, Failure), failure
    assert failure.permanent, failure


class Zone(asyncio.DatagramProtocol):
    """A nameserver without one name at first; that says so in words that may be kept for hours."""

    def __init__(self, *, empty: bool) -> None:
        self.address: bytes | None = None
        self.empty = empty

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        end = data.index(b"\0", 12) + 5
        question, kind = data[12:end], data[end - 3]
        answer, authority, code = b"", b"", 0
        if self.address is None and not self.empty:
            code = 3
            soa = b"\0\0" + struct.pack(">5I", 1, 1, 1, 1, 3_600)
            authority = struct.pack(">HHHIH", 0xC00C, 6, 1, 3_600, len(soa)) + soa
        elif self.address is not None and kind == 1:
            answer = struct.pack(">HHHIH", 0xC00C, 1, 1, 60, 4) + self.address
        counts = struct.pack(">HHHHH", 0x8180 | code, 1, bool(answer), bool(authority), 0)
        self.transport.sendto(data[:2] + counts + question + answer + authority, addr)


@pytest.mark.parametrize("empty", [False, True])
async def test_a_denial_is_not_taken_from_a_cache(empty: bool) -> None:
    zone = Zone(empty=empty)
    clock = SteppedClock()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: zone, local_addr=("127.0.0.1", 0))
    server = "127.0.0.1:{}".format(transport.get_extra_info("sockname")[1])
    names = GivenDns(lambda: AsyncResolver(nameservers=[server]), clock)
    try:
        with pytest.raises(NameLookupError):
            await names.address_of("a.example")
        zone.address = socket.inet_aton("127.0.0.7")
        clock.now_s += RENEWED_S
        assert await names.address_of("a.example") == "127.0.0.7"
    finally:
        await names.close()
        transport.close()


class SteppedClock(RealClock):
    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


class Counted(FakeDns):
    """A system's resolver that answers when it is told to."""

    def __init__(self) -> None:
        super().__init__({})
        self.answers: dict[str, asyncio.Future[list[str]]] = {}
        self.closed = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        assert not self.closed
        self.answers[host] = asyncio.get_running_loop().create_future()
        self.zone[host] = await self.answers[host]
        return await super().resolve(host, port, family)

    async def close(self) -> None:
        self.closed += 1


async def test_a_resolver_whose_place_is_taken_is_closed_after_its_last_lookup() -> None:
    made: list[Counted] = []
    clock = SteppedClock()

    def make() -> Counted:
        made.append(Counted())
        return made[-1]

    async def ask(host: str) -> asyncio.Task[str]:
        task = asyncio.create_task(names.address_of(host))
        await asyncio.sleep(0)
        return task

    names = GivenDns(make, clock)
    slow, denied = await ask("slow.test"), await ask("denied.test")
    made[0].answers["denied.test"].set_exception(ares(aiodns.error.ARES_ENOTFOUND))
    with pytest.raises(NameLookupError):
        await denied
    await ask("soon.test")
    assert len(made) == 1
    clock.now_s += RENEWED_S
    later = await ask("later.test")
    assert len(made) == 2
    made[0].answers["soon.test"].set_result(["127.0.0.1"])
    await asyncio.sleep(0)
    assert not made[0].closed
    made[0].answers["slow.test"].set_result(["127.0.0.1"])
    made[1].answers["later.test"].set_result(["127.0.0.1"])
    assert await slow == await later == "127.0.0.1"
    clock.now_s += 2 * RENEWED_S
    last = await ask("last.test")
    made[1].answers["last.test"].set_result(["127.0.0.1"])
    await last
    assert [dns.closed for dns in made] == [1, 0]
    await names.close()
    assert [dns.closed for dns in made] == [1, 1]


async def test_each_resolver_of_the_system_has_a_cache_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[aiodns.DNSResolver] = []

    class Noted(aiodns.DNSResolver):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(aiodns, "DNSResolver", Noted)
    both = [Resolver({}, LOOPBACK, RealClock()).new_system_resolver() for _ in range(2)]
    assert len(made) == 2
    for one in both:
        await one.close()


async def test_no_resolver_can_be_made() -> None:
    def fail() -> AbstractResolver:
        raise aiodns.error.DNSError(15, "no resources")

    names = GivenDns(fail, RealClock())
    with pytest.raises(NameLookupError) as caught:
        await names.address_of("a.example")
    assert caught.value.error.local
    assert not caught.value.error.permanent
