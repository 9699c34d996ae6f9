"""What a site's table asks of requests to it: it goes on the wire, and nowhere else."""

from __future__ import annotations

import base64
import logging
import math
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.pretty import pretty_repr

from crawler.cli import main
from crawler.clock import RealClock
from crawler.config import ConfigError, from_dict
from crawler.fetching.cookies import Cookies
from crawler.fetching.fetcher import AiohttpFetcher, Answer, Failure, FetchLimits, Request
from crawler.fetching.site_settings import SiteSettingsTable
from tests.crawler.conftest import fetcher_config
from tests.tables import each

HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
SECRET = "correct horse"
BASIC = b"Authorization: Basic " + base64.b64encode(f"bot:{SECRET}".encode())


@asynccontextmanager
async def opened(base: Path | None = None, **sections: object) -> AsyncIterator[AiohttpFetcher]:
    async with AiohttpFetcher(fetcher_config(base=base, **sections), RealClock()) as fetcher:
        yield fetcher


async def ask(fetcher: AiohttpFetcher, url: str, **more: Any) -> Answer:
    result = await fetcher.fetch(Request(url=url, **more))
    assert isinstance(result, Answer), result
    return result


@pytest.fixture
def closed_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))  # bound, not listening: refuses
        yield sock.getsockname()[1]


# ---------------------------------------------------------------- headers and proxy


async def test_headers_of_a_site_go_to_it_alone(serve):
    server = await serve(HELLO, keep=True)
    site = {"a.test": {"headers": {"X-Key": "1"}}}
    async with opened(fetch={"headers": {"Accept-Language": "en"}}, site=site) as fetcher:
        await ask(fetcher, server.url(host="a.test"))
        await ask(fetcher, server.url(host="b.test"))
        await ask(fetcher, server.url(host="a.test"), headers={"x-key": "2"})
    first, second, third = server.requests
    assert b"X-Key: 1\r\n" in first
    assert b"Accept-Language" not in first  # a site's headers stand in the place of all
    assert b"X-Key" not in second
    assert b"Accept-Language: en\r\n" in second
    assert b"x-key: 2\r\n" in third
    assert b"X-Key: 1" not in third


async def test_a_site_has_a_proxy_of_its_own(serve):
    proxy = await serve(HELLO)
    server = await serve(HELLO)
    site = {"a.test": {"proxy": proxy.url(host="127.0.0.1")}}
    async with opened(site=site) as fetcher:
        await ask(fetcher, server.url(host="a.test", path="/x"))
        await ask(fetcher, server.url(host="b.test"))
    assert proxy.requests[0].startswith(f"GET http://a.test:{server.port}/x ".encode())
    assert len(server.requests) == 1


# ---------------------------------------------------------------- credentials


async def test_credentials_go_to_their_origin_alone(serve, monkeypatch):
    monkeypatch.setenv("COURTLY_TEST", f"bot:{SECRET}")
    server, other = await serve(HELLO, keep=True), await serve(HELLO, keep=True)
    origin = server.url(host="a.test", path="")
    fetch = {"credentials": {origin: "env:COURTLY_TEST"}, "connect_timeout": "200ms"}
    async with opened(fetch=fetch) as fetcher:
        await ask(fetcher, server.url(host="a.test", path="/robots.txt"))
        await ask(fetcher, server.url(host="b.test"))  # another host
        await ask(fetcher, server.url(host="www.a.test"))
        await ask(fetcher, other.url(host="a.test"))  # another port
        refused = await fetcher.fetch(Request(url=server.url(host="a.test", scheme="https")))
        assert isinstance(refused, Failure)
    assert BASIC + b"\r\n" in server.requests[0]
    for request in [*server.requests[1:], *other.requests]:
        assert b"authorization" not in request.lower()


async def test_a_redirect_takes_no_credentials_along(serve, monkeypatch):
    monkeypatch.setenv("COURTLY_TEST", f"bot:{SECRET}")
    other = await serve(HELLO)
    target = other.url(host="a.test")
    server = await serve(f"HTTP/1.1 302 Found\r\nLocation: {target}\r\n\r\n".encode())
    sources = {server.url(host="a.test", path=""): "env:COURTLY_TEST"}
    async with opened(site={"a.test": {"credentials": sources}}) as fetcher:
        answer = await ask(fetcher, server.url(host="a.test"))
        await ask(fetcher, answer.headers["Location"])
    assert BASIC in server.requests[0]
    assert b"authorization" not in other.requests[0].lower()


async def test_an_own_authorization_of_a_request_wins(serve, monkeypatch):
    monkeypatch.setenv("COURTLY_TEST", f"bot:{SECRET}")
    server = await serve(HELLO)
    sources = {server.url(path=""): "env:COURTLY_TEST"}
    async with opened(fetch={"credentials": sources}) as fetcher:
        await ask(fetcher, server.url(), headers={"authorization": "Bearer mine"})
    assert server.requests[0].lower().count(b"authorization:") == 1
    assert b"Bearer mine" in server.requests[0]


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("bot:a:b ", b"Basic " + base64.b64encode(b"bot:a:b ")),
        ("bot:ü\n", b"Basic " + base64.b64encode("bot:ü".encode())),
        ("bot:\r\n", b"Basic " + base64.b64encode(b"bot:")),
        ("Bearer abc.DEF-1_~+/==\n", b"Bearer abc.DEF-1_~+/=="),
        ("bearer  abc", b"Bearer abc"),
    ],
)
async def test_credentials_from_a_file(serve, tmp_path, text, sent):
    (tmp_path / "secret").write_bytes(text.encode())
    server = await serve(HELLO)
    sources = {server.url(): "file:secret"}  # relative to the config
    async with opened(tmp_path, fetch={"credentials": sources}) as fetcher:
        await ask(fetcher, server.url())
    assert b"\r\nAuthorization: " + sent + b"\r\n" in server.requests[0]


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", SECRET.encode(), f":{SECRET}".encode(), f"a:{SECRET}\nb".encode(),
     f"Bearer {SECRET}".encode(), b"a:\xff", b"a:" + b"x" * 20_000],
)  # fmt: skip
def test_a_file_that_holds_none_is_named_and_not_shown(tmp_path, content):
    (tmp_path / "secret").write_bytes(content)
    data = {"fetch": {"credentials": {"https://a.test": "file:secret"}}}
    with pytest.raises(ConfigError) as caught:
        SiteSettingsTable(from_dict(data, base=tmp_path))
    (problem,) = caught.value.problems
    assert problem.startswith("config: fetch.credentials: for https://a.test: ")
    assert str(tmp_path / "secret") in problem
    assert SECRET not in problem
    assert "horse" not in problem


def test_all_that_cannot_be_had_is_told_at_once(tmp_path, monkeypatch):
    monkeypatch.delenv("COURTLY_TEST", raising=False)
    data = {
        "fetch": {"credentials": {"https://a.test": "env:COURTLY_TEST"}},
        "site": {"*.b.test": {"credentials": {"https://www.b.test": "file:missing"}}},
    }
    with pytest.raises(ConfigError) as caught:
        SiteSettingsTable(from_dict(data, base=tmp_path))
    unset, missing = caught.value.problems
    assert unset == (
        "config: fetch.credentials: for https://a.test: "
        "the environment variable COURTLY_TEST is not set"
    )
    assert missing == (
        'config: site."*.b.test".credentials: for https://www.b.test: '
        f"{tmp_path / 'missing'} cannot be read: No such file or directory"
    )


@each(
    "source",
    [SECRET, f"bot:{SECRET}", f"Bearer {SECRET}", "", "env:", "env:a b", "file:",
     f"http://bot:{SECRET}@a.test/"],
)  # fmt: skip
def test_a_secret_in_the_config_is_refused_and_not_shown(source):
    with pytest.raises(ConfigError) as caught:
        from_dict({"fetch": {"credentials": {"https://a.test": source}}})
    (problem,) = caught.value.problems
    assert problem == (
        'config: fetch.credentials: for https://a.test: must be "env:NAME" or "file:PATH", '
        "not the secret itself"
    )


@each(
    "origin",
    ["a.test", "*.a.test", "https://a.test/path", "https://bot:x@a.test", "ftp://a.test", ""],
)
def test_credentials_are_for_an_origin(origin):
    with pytest.raises(ConfigError, match="credentials are for an origin"):
        from_dict({"fetch": {"credentials": {origin: "env:A"}}})


def test_credentials_of_a_site_are_for_its_origins():
    site = {
        "*.a.test": {
            "credentials": {"https://www.a.test:8443": "env:A", "https://A.test/": "env:A"}
        }
    }
    config = from_dict({"site": site})
    assert dict(config.site("www.a.test").fetch.credentials) == {
        "https://www.a.test:8443": "env:A",
        "https://a.test": "env:A",
    }
    assert not config.site("b.test").fetch.credentials
    with pytest.raises(ConfigError, match="is not an origin of this site"):
        from_dict({"site": {"*.a.test": {"credentials": {"https://b.test": "env:A"}}}})


def test_one_origin_twice_is_told():
    both = {"https://a.test": "env:A", "https://a.test:443/": "env:B"}
    with pytest.raises(ConfigError, match="given twice"):
        from_dict({"fetch": {"credentials": both}})


def test_credentials_in_the_open_are_warned_of():
    config = from_dict(
        {
            "fetch": {
                "credentials": {
                    "http://a.test": "env:A",
                    "https://a.test": "env:A",
                    "http://127.0.0.1:8000": "env:A",
                }
            }
        }
    )
    (warning,) = config.warnings
    assert warning.startswith("config: fetch.credentials: sent to http://a.test without encryption")


def test_authorization_and_everybody_s_cookies_are_no_headers():
    for fetch in ({"Authorization": "Basic x"}, {"cookie": "a=b"}):
        with pytest.raises(ConfigError):
            from_dict({"fetch": {"headers": fetch}})
        with pytest.raises(ConfigError):
            from_dict({"site": {"*": {"headers": fetch}}})
    site = {"a.test": {"headers": {"Cookie": "a=b"}}}
    assert from_dict({"site": site}).site("a.test").fetch.headers == {"Cookie": "a=b"}


async def test_nothing_shows_a_secret(serve, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("COURTLY_TEST", f"bot:{SECRET}")
    caplog.set_level(logging.DEBUG)
    encoded = base64.b64encode(f"bot:{SECRET}".encode()).decode()

    async def script(connection):
        await connection.request()

    server = await serve(script)  # hangs up: the failure must not show it either
    file = tmp_path / "crawl.toml"
    file.write_text(f'[fetch]\ncredentials = {{ "{server.url(path="")}" = "env:COURTLY_TEST" }}\n')
    sources = {server.url(path=""): "env:COURTLY_TEST"}
    config = from_dict({"fetch": {"credentials": sources}})
    terms = SiteSettingsTable(config).of("raw.test")
    async with opened(fetch={"credentials": sources}) as fetcher:
        failure = await fetcher.fetch(Request(url=server.url()))
    assert BASIC in server.requests[0]
    dressed = terms.apply(Request(url=server.url()), Cookies(RealClock()))
    checked = CliRunner().invoke(main, ["config", "check", str(file)])
    assert checked.exit_code == 0, checked.output
    shown = [
        repr(config),
        repr(terms),
        repr(dressed),
        pretty_repr(dressed),  # what rich shows of it
        repr(failure),
        repr(fetcher),
        checked.output,
        caplog.text,
    ]
    for text in shown:
        assert SECRET not in text
        assert encoded not in text


async def test_nothing_shows_a_proxy_s_password(closed_port):
    for bad in (f"ftp://bot:{SECRET}@p.test", f"http://bot:{SECRET}@p.test:0"):
        with pytest.raises(ConfigError) as caught:
            from_dict({"fetch": {"proxy": bad}})
        assert SECRET not in str(caught.value)
    for host in ("127.0.0.1", "127.1", "0x7f.1", "no-such-name.test", "256.1.1.1"):
        proxy = f"http://bot:{SECRET.replace(' ', '')}@{host}:{closed_port}"
        config = from_dict({"fetch": {"proxy": proxy}})
        async with opened(fetch={"proxy": proxy, "connect_timeout": 1}) as fetcher:
            for url in ("http://a.test/", "https://a.test/"):
                failure = await fetcher.fetch(Request(url=url))
                assert isinstance(failure, Failure)
                assert "horse" not in repr(failure) + repr(config)


# ---------------------------------------------------------------- cookies


SETS = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n"


async def test_cookies_are_off_unless_asked_for(serve):
    server = await serve(SETS, keep=True)
    async with opened(site={"a.test": {"cookies": True}}) as fetcher:
        for host in ("b.test", "b.test", "a.test", "a.test", "c.test"):
            await ask(fetcher, server.url(host=host))
    sent = [b"Cookie: a=b\r\n" in request for request in server.requests]
    assert sent == [False, False, False, True, False]


async def test_cookies_stay_with_their_site(serve):
    server = await serve(SETS, keep=True)
    async with opened(fetch={"cookies": True}) as fetcher:
        for host in ("a.test", "b.test", "a.test", "www.a.test"):
            await ask(fetcher, server.url(host=host))
    sent = [b"Cookie:" in request for request in server.requests]
    assert sent == [False, False, True, False]


async def test_a_cookie_header_of_a_site_stands_in_the_place_of_its_jar(serve):
    server = await serve(SETS, keep=True)
    site = {"a.test": {"cookies": True, "headers": {"Cookie": "own=1"}}}
    async with opened(site=site) as fetcher:
        for _ in range(2):
            await ask(fetcher, server.url(host="a.test"))
    for request in server.requests:
        assert request.count(b"Cookie:") == 1
        assert b"Cookie: own=1\r\n" in request


async def test_cookies_of_a_redirect_and_of_a_failure_are_kept(serve):
    server = await serve(
        b"HTTP/1.1 302 Found\r\nLocation: /x\r\nSet-Cookie: a=b\r\nContent-Length: 9\r\n\r\nhalf"
    )
    async with opened(fetch={"cookies": True}) as fetcher:
        assert isinstance(await fetcher.fetch(Request(url=server.url())), Failure)
        await fetcher.fetch(Request(url=server.url("/x")))
    assert b"Cookie: a=b\r\n" in server.requests[1]


# ---------------------------------------------------------------- times and sizes


async def test_times_and_sizes_of_a_site(serve):
    async def mute(connection):
        await connection.request()
        await connection.client_gone()

    silent = await serve(mute)
    long = await serve(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 3_000 + b"\r\nContent-Length: 0\r\n\r\n")

    async def endless(connection):
        await connection.request()
        await connection.send((b"HTTP/1.1 103 Hint\r\nX: " + b"y" * 1_500 + b"\r\n\r\n") * 2)

    hints = await serve(endless)
    site = {"*.a.test": {"first_byte_timeout": "100ms", "max_header": "2KB"}}
    async with opened(site=site) as fetcher:
        failure = await fetcher.fetch(Request(url=silent.url(host="a.test")))
        assert isinstance(failure, Failure)
        assert failure.error == "timeout: no response within 0.1 s"
        failure = await fetcher.fetch(Request(url=hints.url(host="a.test")))
        assert isinstance(failure, Failure)
        assert failure.error == "too-large: the response header is longer than 2,000 bytes"
        failure = await fetcher.fetch(Request(url=long.url(host="a.test")))
        assert isinstance(failure, Failure)
        assert failure.error == "too-large: the response header is longer than 2,000 bytes"
        await ask(fetcher, long.url(host="b.test"))


async def test_a_request_keeps_its_own_whole_time_and_body():
    config = from_dict({"fetch": {"connect_timeout": 3, "min_rate": 0, "timeout": 5}})
    terms = SiteSettingsTable(config).of("a.test")
    request = Request(url="http://a.test/", limits=FetchLimits(timeout_s=7, body_bytes_max=9))
    limits = terms.apply(request, Cookies(RealClock())).limits
    assert (limits.timeout_s, limits.body_bytes_max) == (7, 9)
    assert (limits.connect_s, limits.head_s, limits.rate_bytes_per_s_min) == (3, math.inf, 0)
    assert limits.soonest_s == 3


@each(
    ("key", "value", "sentence"),
    [
        ("connect_timeout", 0, "must be more than 0, not 0"),
        ("first_byte_timeout", "soon", "a duration is"),
        ("min_rate", -1, "must be at least 0, not -1"),
        ("max_header", 0, "must be at least 1, not 0"),
        ("cookies", "yes", "expected true or false, got a string"),
        ("ca_file", "a\nb", "must be one line"),
        ("credentials", "env:A", "expected a table, got a string"),
    ],
)
def test_a_bad_value_is_named(key, value, sentence):
    for data, shown in (
        ({"fetch": {key: value}}, f"fetch.{key}"),
        ({"site": {"a.test": {key: value}}}, f'site."a.test".{key}'),
    ):
        with pytest.raises(ConfigError) as caught:
            from_dict(data)
        (problem,) = caught.value.problems
        assert problem.startswith(f"config: {shown}: {sentence}")
