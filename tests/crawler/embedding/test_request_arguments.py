"""The arguments of requests: what is not valid is refused before anything waits."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import re
from collections.abc import Iterator
from typing import Any, Self, get_type_hints

import aiohttp
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from yarl import URL

from crawler.config import ConfigError, from_dict
from crawler.embedding.middleware import Politeness
from crawler.embedding.request_arguments import (
    PermitArguments,
    RequestArguments,
    RequestOptions,
    read_arguments,
)
from crawler.embedding.session import PoliteSession
from crawler.errors import FetchFailed, InvalidRequest, InvalidURL, RobotsDisallowed
from crawler.testing import FakeFetcher, JumpClock, LocalWeb, html, text

UA = "examplebot/1.0 (+https://example.com/bot)"
A = "http://a.test"
CONNECTION_HEADERS = (
    "Host",
    "hOsT",
    "Content-Length",
    "Transfer-Encoding",
    "Connection",
    "TE",
    "Trailer",
    "Upgrade",
    "Keep-Alive",
    "Expect",
    "HTTP2-Settings",
    "Proxy-Authorization",
    "Proxy-Connection",
)


def read(url: Any = f"{A}/a", **options: Any) -> RequestArguments:
    return read_arguments(url, **options)


# ---------------------------------------------------------------- one declaration


def keywords_of(call: Any) -> dict[str, inspect.Parameter]:
    found = inspect.signature(call, eval_str=True).parameters
    return {name: one for name, one in found.items() if one.kind is one.KEYWORD_ONLY}


def test_the_keywords_of_a_request_are_the_fields_of_its_arguments() -> None:
    keywords = keywords_of(PoliteSession.fetch)
    folded = {"params", "data"}  # into the URL, and the body
    fields = {one.name: one.default for one in msgspec.structs.fields(RequestArguments)}
    assert keywords.keys() - folded | {"url", "text"} == fields.keys()
    for name, keyword in keywords.items():
        if name not in folded | {"headers"}:
            assert keyword.default == fields[name], name
    typed = get_type_hints(RequestOptions)
    assert typed == {
        name: keyword.annotation for name, keyword in keywords.items() if name != "method"
    }


def test_the_arguments_of_a_permit_are_those_of_every_request() -> None:
    given = [name for name in inspect.signature(PoliteSession.permit).parameters if name != "self"]
    assert given == ["url", "method", "max_wait_s"]
    assert set(PermitArguments.__struct_fields__) == set(given)
    assert issubclass(RequestArguments, PermitArguments)


def test_an_unknown_keyword_is_refused() -> None:
    with pytest.raises(TypeError, match="metod"):
        read(metod="GET")


def test_checked_arguments_cross_to_another_process_as_they_are() -> None:
    """In JSON, as `via` sends them; checked there again."""
    for options in (
        {"params": {"q": "a"}, "headers": {"X": "1"}, "follow": False, "max_wait_s": 0},
        {"method": "post", "json": {"a": 1}, "timeout_s": 5},
        {"method": "put", "data": "ä", "retry": False},
        {"method": "post", "body": b"\0\xff"},
        {"method": "post", "data": {"a": "b"}, "headers": {"content-type": "text/x"}},
    ):
        sent = read(**options)
        got = msgspec.json.decode(msgspec.json.encode(sent), type=RequestArguments)
        assert got.checked() == sent
    asked = PermitArguments(url=f"{A}/a#b", method="post", max_wait_s=1).checked()
    again = msgspec.json.decode(msgspec.json.encode(asked), type=PermitArguments)
    assert again.checked() == asked == PermitArguments(url=f"{A}/a", method="POST", max_wait_s=1.0)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("argument", "value", "sentence"),
    [
        ("method", "GE T", "must be a word such as GET, not 'GE T'"),
        ("method", "", "must be a word such as GET, not ''"),
        ("method", "GET\r\nX: y", "must be a word"),
        ("method", "GÉT", "must be a word"),
        ("method", b"GET", "must be a word"),
        ("method", None, "must be a word such as GET, not None"),
        ("method", "connect", "CONNECT opens a tunnel"),
        ("headers", {"X": "a\r\nb"}, 'the value of "X" must be one line'),
        ("headers", {"X": "a\0"}, "must be one line without control characters"),
        ("headers", {"X": "\x7f"}, "must be one line without control characters"),
        ("headers", {"X": "\ud800"}, 'the value of "X" must be ASCII'),
        ("headers", {"X": 1}, 'the value of "X" must be a string, not a value of type int'),
        ("headers", {"X": b"a"}, "must be a string, not a value of type bytes"),
        ("headers", {"X": None}, 'the value of "X" must be a string, not None'),
        ("headers", {1: "a"}, "a header name must be a string, not a value of type int"),
        ("headers", {"": "a"}, "a header name cannot be empty"),
        ("headers", {"X Y": "a"}, "a header name cannot contain ' '"),
        ("headers", {"X:": "a"}, "a header name cannot contain ':'"),
        ("headers", {"X\n": "a"}, "a header name cannot contain"),
        ("headers", {"X-A": "1", "x-a": "2"}, '"x-a" is given twice'),
        ("headers", [("X", "a")], "must be a mapping of names to values, not a value of type list"),
        ("headers", "X: a", "must be a mapping"),
        ("headers", {"user-AGENT": "other"}, "robots.txt is obeyed for the user_agent"),
        *(("headers", {name: "a"}, f'"{name}" cannot be set') for name in CONNECTION_HEADERS),
        ("body", "text", "must be bytes, not a value of type str: use data= for text"),
        ("body", 5, "must be bytes"),
        ("json", {"a": {1, 2}}, "cannot be written as JSON"),
        ("json", float("nan"), "cannot be written as JSON"),
        ("json", "\ud800", "cannot be written as JSON"),
        ("data", 5, "must be a mapping, a list of pairs or a string, not a value of type int"),
        ("data", {"a": object()}, "the value of 'a' must be a string or a number"),
        ("data", {"a": True}, "the value of 'a' must be a string or a number"),
        ("data", {"a": None}, "the value of 'a' must be a string or a number, not None"),
        ("data", {1: "a"}, "the name 1 must be a string"),
        ("data", ["ab"], "must hold pairs of name and value"),
        ("data", "\ud800", "has a lone surrogate"),
        ("data", {"a": "\ud800"}, "has a lone surrogate"),
        ("params", {"a": {"b": 1}}, "the value of 'a' must be a string or a number"),
        ("params", {"a": float("inf")}, "the value of 'a' must be finite"),
        ("params", {"a": 10**5000}, "has a number with too many digits"),
        ("params", [("a", ["b"])], "must be a string or a number"),
        ("params", b"a=b", "must be a mapping"),
        ("params", "a=\n", "has control characters"),
        ("params", "\ud800", "has a lone surrogate"),
        ("timeout_s", 0, "must be positive and finite, not 0"),
        ("timeout_s", -1, "must be positive and finite"),
        ("timeout_s", float("inf"), "must be positive and finite, not inf"),
        ("timeout_s", float("nan"), "must be positive and finite, not nan"),
        ("timeout_s", 10**400, "must be positive and finite"),
        ("timeout_s", "5", "must be a number of seconds, not '5'"),
        ("timeout_s", True, "must be a number of seconds, not True"),
        ("follow", "no", "must be True or False, not 'no'"),
        ("retry", 3, "must be True or False, not 3"),
    ],
)
def test_an_argument_that_is_not_valid_is_named(
    argument: str, value: object, sentence: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(**{argument: value})
    assert caught.value.argument == argument
    assert str(caught.value).startswith(f"{argument}: ")
    assert sentence in str(caught.value)
    assert len(str(caught.value)) < 250
    for other in (copy.copy(caught.value), pickle.loads(pickle.dumps(caught.value))):
        assert (other.argument, str(other)) == (argument, str(caught.value))


def test_a_number_that_cannot_be_written_is_no_timeout() -> None:
    with pytest.raises(InvalidRequest, match="timeout_s: must be positive and finite"):
        read(timeout_s=10**5000)


def test_a_circular_value_is_no_json() -> None:
    circular: list[object] = []
    circular.append(circular)
    with pytest.raises(InvalidRequest, match="json: cannot be written as JSON"):
        read(json=circular)


@pytest.mark.parametrize("given", [None, 5, b"http://a.test/", ["http://a.test/"], object()])
def test_a_url_of_another_type_is_refused_with_a_sentence(given: object) -> None:
    with pytest.raises(InvalidURL, match=r"is not a URL: expected a string or a yarl\.URL"):
        read(given)


@pytest.mark.parametrize(
    "given", ["", "/a", "ftp://a.test/", "http://", "http://\ud800/", URL("a")]
)
def test_a_url_of_another_form_is_refused(given: object) -> None:
    with pytest.raises(InvalidURL, match="is not an absolute http or https URL"):
        read(given)


@pytest.mark.parametrize(
    "options",
    [{"body": b"x", "json": 1}, {"body": b"x", "data": "y"}, {"json": 1, "data": {"a": "b"}}],
)
def test_there_is_one_body_at_most(options: dict[str, object]) -> None:
    first, second = options
    with pytest.raises(InvalidRequest, match=f"{second}: cannot be combined with {first}="):
        read(**options)


@pytest.mark.parametrize("method", ["TRACE", "trace", "Track", "CONNECT", " TRACE", "TRACE\t"])
def test_methods_that_echo_or_tunnel_are_refused(method: str) -> None:
    with pytest.raises(InvalidRequest, match="method"):
        read(method=method)


def test_a_value_that_may_be_secret_is_not_in_the_message() -> None:
    for options in (
        {"headers": [("Authorization", "hunter2")]},
        {"headers": {"Authorization": "hunter2\n"}},
        {"headers": {"Authorization": ["hunter2"]}},
        {"body": "hunter2"},
        {"data": {"password": ["hunter2", None]}},
        {"params": {"key": {"hunter2": 1}}},
    ):
        with pytest.raises(InvalidRequest) as caught:
            read(**options)
        assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(read(headers={"Authorization": "hunter2"}, body=b"hunter2"))


# ---------------------------------------------------------------- what is accepted


def test_params_are_appended_to_the_query() -> None:
    for url, params, expected in [
        (f"{A}/a", {"q": "ä b&c=d#e"}, "?q=%C3%A4+b%26c%3Dd%23e"),
        (f"{A}/a?x=1#top", {"q": 2}, "?x=1&q=2"),
        (f"{A}/a", {"q": ["a", 1, 2.5]}, "?q=a&q=1&q=2.5"),
        (f"{A}/a", [("b", "1"), ("a", "2"), ("b", "3")], "?b=1&a=2&b=3"),
        (f"{A}/a", "?a=b c#d", "?a=b%20c%23d"),
        (f"{A}/a", {}, ""),
        (f"{A}/a", "", ""),
        (f"{A}/a", {"q": ()}, ""),
        (URL(f"{A}/a") % {"x": "1"}, {"q": ""}, "?x=1&q="),
    ]:
        assert read(url, params=params).url == f"{A}/a{expected}"


def test_a_body_has_the_type_of_its_argument_unless_the_caller_sets_another() -> None:
    def sent(**options: Any) -> tuple[bytes | None, str | None]:
        asked = read(method="post", **options)
        assert asked.method == "POST"
        return asked.body, asked.headers.get("Content-Type")

    form = "application/x-www-form-urlencoded"
    assert sent() == (None, None)
    assert sent(json={"a": ["ä", None]}) == ('{"a":["ä",null]}'.encode(), "application/json")
    assert sent(json=[]) == (b"[]", "application/json")
    assert sent(data={"a": "b c", "d": [1, 2]}) == (b"a=b+c&d=1&d=2", form)
    assert sent(data=[("a", "b")]) == (b"a=b", form)
    assert sent(data="ä") == ("ä".encode(), "text/plain; charset=utf-8")
    assert sent(data=b"\0") == (b"\0", None)
    assert sent(body=bytearray(b"x")) == (b"x", None)
    assert sent(body=memoryview(b"x")) == (b"x", None)
    assert sent(data={}) == (b"", form)
    own = read(json={}, headers={"content-type": "application/ld+json"})
    assert own.headers == {"content-type": "application/ld+json"}
    assert read(headers={"X": " a\t"}).headers == {"X": "a"}


# ---------------------------------------------------------------- in a session


async def test_nothing_is_sent_or_waited_for_if_an_argument_is_not_valid(clock: JumpClock) -> None:
    fetcher = FakeFetcher(clock, {f"{A}/a": html("A")})
    async with PoliteSession(user_agent=UA, clock=clock, fetcher=fetcher) as session:
        with pytest.raises(InvalidRequest, match="headers"):
            await session.get(f"{A}/a", headers={"X": "a\r\nb"})
        with pytest.raises(InvalidRequest, match="method"):
            await session.fetch(f"{A}/a", method="GE T")
        for call in (session.get, session.may_fetch, session.robots, session.next_turn):
            with pytest.raises(InvalidURL):
                await call(None)  # type: ignore[arg-type]
        assert clock.elapsed_s == 0
        assert not fetcher.log
        assert (await session.get(URL(f"{A}/a"))).status == 200
        assert await session.may_fetch(URL(f"{A}/a"))


async def test_the_timeout_of_a_request_does_not_include_the_wait(clock: JumpClock) -> None:
    fetcher = FakeFetcher(clock, {f"{A}/a": html("A")}, latency_s=35)
    config = {"politeness": {"delay": 60}}
    async with PoliteSession(user_agent=UA, config=config, clock=clock, fetcher=fetcher) as session:
        assert (await session.get(f"{A}/a", timeout_s=40)).status == 200
        assert clock.elapsed_s > 60
        with pytest.raises(FetchFailed, match="timeout"):
            await session.get(f"{A}/a", retry=False)  # fetch.timeout is 30 s
        began_s = clock.monotonic()
        with pytest.raises(FetchFailed, match="not complete after 2 s") as caught:
            await session.get(f"{A}/a", timeout_s=2)
        assert caught.value.failure.elapsed_s == pytest.approx(2)
        assert clock.monotonic() - began_s > 3 * 60, "it is retried as after other timeouts"


async def test_the_haste_of_one_caller_does_not_close_the_host_to_others() -> None:
    """Its timeout may pass before there is a connection, which would count as unreachable."""
    async with LocalWeb({"a.test": {"/": html("A")}}) as web:
        config = web.config(politeness={"delay": 0})
        async with PoliteSession(user_agent=UA, config=config) as session:
            assert (await session.get(web.url("a.test"))).status == 200
            for _ in range(5):
                with pytest.raises(FetchFailed, match="timeout"):
                    await session.get(web.url("a.test"), timeout_s=1e-9, retry=False)
            assert (await session.get(web.url("a.test"))).status == 200


async def test_no_header_leads_to_a_page_of_another_virtual_host() -> None:
    forbidden = text("User-agent: *\nDisallow: /p\n")
    sites = {"a.test": {"/p": html("A")}, "b.test": {"/robots.txt": forbidden, "/p": html("B")}}
    async with LocalWeb(sites) as web:
        config = web.config(politeness={"delay": 0})
        async with PoliteSession(user_agent=UA, config=config) as session:
            for name in ("Host", "host", "HOST"):
                with pytest.raises(InvalidRequest, match="cannot be set"):
                    await session.get(web.url("a.test", "/p"), headers={name: "b.test"})
            with pytest.raises(RobotsDisallowed):
                await session.get(web.url("b.test", "/p"))
        async with (
            Politeness(user_agent=UA, config=config) as polite,
            aiohttp.ClientSession(middlewares=(polite,), connector=polite.connector()) as client,
        ):
            url = web.url("a.test", "/p")
            for name in ("Host", "host", "hOST"):
                with pytest.raises(InvalidRequest, match=f"be that of the URL, a.test:{web.port}"):
                    await client.get(url, headers={name: "b.test"})
            with pytest.raises(InvalidRequest, match="X"):
                await client.get(url, headers={"X": "a\r\nb"})
            with pytest.raises(InvalidRequest, match="header name"):
                await client.get(url, headers={"X Y": "a"})
            with pytest.raises(InvalidRequest, match="Content-Length"):
                await client.post(url, headers={"Content-Length": "5"}, data=b"x")
            assert not [entry for entry in web.log if entry.path == "/p"]
            async with client.post(url, headers={"Host": f"a.test:{web.port}"}, data=b"") as done:
                assert done.status == 200
    assert "b.test" not in [entry.host for entry in web.log if entry.path == "/p"]


@pytest.mark.parametrize("name", [*CONNECTION_HEADERS, "User-Agent"])
def test_the_config_refuses_the_same_headers(name: str) -> None:
    for table in (
        {"fetch": {"headers": {name: "a"}}},
        {"site": {"a.test": {"headers": {name: "a"}}}},
    ):
        with pytest.raises(ConfigError, match="cannot be set here"):
            from_dict(table)


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\0", "ä", "\ud800"])
def test_no_header_of_the_config_is_malformed(value: str) -> None:
    for table in (
        {"fetch": {"headers": {"X": value}}},
        {"site": {"a.test": {"headers": {"X": value}}}},
        {"crawl": {"user_agent": f"bot {value}"}},
        {"crawl": {"from": f"a@b.test{value}"}},
    ):
        with pytest.raises(ConfigError):
            from_dict(table)


# ---------------------------------------------------------------- any string whatever

WELL_FORMED = re.compile(
    rb"[!#$%&'*+.^_`|~0-9A-Z-]+ /[!-~]* HTTP/1\.1\r\n"
    rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t -~]*\r\n)+\r\n"
)


class StrictServer:
    """Answers well-formed requests, and collects the bytes of all others."""

    def __init__(self) -> None:
        self.malformed: list[bytes] = []
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                fields = head.lower().split(b"\r\n")[1:]
                names = [field.partition(b":")[0] for field in fields if field]
                host = f"host: 127.0.0.1:{self.port}".encode()
                once = len(set(names)) == len(names) and host in fields
                if not WELL_FORMED.fullmatch(head) or not once:
                    self.malformed.append(head)
                lengths = [field[15:] for field in fields if field.startswith(b"content-length:")]
                await reader.readexactly(int(lengths[0]) if lengths else 0)
                no_body = head.startswith(b"HEAD ")
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + b"ok" * (not no_body)
                )
        except asyncio.IncompleteReadError as end:
            if end.partial:
                self.malformed.append(end.partial)
        finally:
            writer.close()


any_text = st.text(st.characters(codec=None, categories=None), max_size=20)  # surrogates included
near = st.text(st.sampled_from("GETax:-_ \t\r\n\0\x7f/?#%&=äÿ\ud800😀"), max_size=12)
strings = st.one_of(near, any_text)
scalars = st.one_of(strings, st.integers(), st.floats(), st.none(), st.booleans(), st.binary())
fields = st.one_of(
    strings,
    st.dictionaries(strings, st.one_of(scalars, st.lists(scalars, max_size=2)), max_size=3),
    st.lists(st.tuples(strings, scalars), max_size=3),
)


methods = st.sampled_from(["GET", "HEAD", "post", "A!B"]) | strings
names = st.sampled_from(["X", "Host", "x-y"])
headers = st.dictionaries(names, strings, min_size=1, max_size=2) | st.dictionaries(
    strings, scalars
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2), max_leaves=3)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@settings(
    max_examples=70, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    path=st.one_of(st.just(""), strings),
    options=st.one_of(  # one at a time, or nearly all of them would be refused
        st.fixed_dictionaries({"method": methods}),
        st.fixed_dictionaries({"params": fields}),
        st.fixed_dictionaries({"headers": headers, "data": st.none() | st.binary()}),
        st.fixed_dictionaries({"json": values, "method": st.just("POST")}),
        st.fixed_dictionaries({"data": fields, "method": st.just("POST")}),
        st.fixed_dictionaries({"body": st.binary() | strings, "method": st.just("PUT")}),
        st.fixed_dictionaries({"timeout_s": scalars, "retry": st.just(False)}),
    ),
)
def test_no_string_reaches_the_network_malformed_or_closes_the_host(
    runner: asyncio.Runner, path: str, options: dict[str, Any]
) -> None:
    async def run() -> None:
        config = {"network": {"allow": ["127.0.0.0/8"]}, "politeness": {"delay": 0}}
        async with StrictServer() as server, PoliteSession(config=config) as session:
            url = f"http://127.0.0.1:{server.port}/"
            try:
                response = await session.fetch(url + path, **options)
                assert response.status == 200
            except (InvalidRequest, InvalidURL):
                pass
            except FetchFailed as failed:
                assert options["timeout_s"] < 1
                assert failed.failure.code == "timeout"  # noqa: PT017
            assert (await session.get(url)).status == 200
            assert server.malformed == []

    runner.run(run())
