"""Cookies: what is kept of them, and where it goes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.fetching import cookies
from crawler.fetching.cookies import COOKIES_MAX, Cookies
from tests.tables import each

NOW_S = 1_800_000_000.0


class WallClock:
    """A clock whose wall time is set by the test."""

    def __init__(self) -> None:
        self.now_s = NOW_S

    def wall(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> WallClock:
    return WallClock()


@pytest.fixture
def jars(clock: WallClock) -> Cookies:
    return Cookies(clock)


def test_a_cookie_comes_back_to_its_host_alone(jars: Cookies) -> None:
    jars.learn("http://www.example.org/", ["a=b"])
    assert jars.header("http://www.example.org/x") == "a=b"
    assert jars.header("http://www.example.org/x") == "a=b"
    assert jars.header("http://www.example.org:8080/x") is None
    assert jars.header("http://example.org/") is None
    assert jars.header("http://shop.example.org/") is None
    assert jars.header("http://a.www.example.org/") is None
    assert jars.header("http://example.com/") is None


def test_a_domain_widens_it_within_the_site(jars: Cookies) -> None:
    jars.learn("http://www.example.org/", ["a=b; Domain=.Example.org"])
    assert jars.header("http://shop.example.org/") == "a=b"
    assert jars.header("http://example.org/") == "a=b"
    assert jars.header("http://notexample.org/") is None


@pytest.mark.parametrize(
    ("url", "domain"),
    [
        ("http://www.example.org/", "org"), ("http://www.example.co.uk/", "co.uk"),
        ("http://www.example.org/", "example.com"), ("http://www.example.org/", "shop.example.org"),
        ("http://www.example.org/", "xample.org"), ("http://a.github.io/", "github.io"),
        ("http://127.0.0.1/", "0.0.1"), ("http://127.0.0.1/", "1"),
    ],
)  # fmt: skip
def test_a_domain_beyond_the_site_is_refused(jars: Cookies, url: str, domain: str) -> None:
    jars.learn(url, [f"a=b; Domain={domain}"])
    assert jars.header(url) is None
    assert jars.header(f"http://{domain}/") is None
    assert jars.header("http://b.github.io/") is None


def test_an_address_has_cookies_of_its_own(jars: Cookies) -> None:
    jars.learn("http://127.0.0.1:8000/", ["a=b; Domain=127.0.0.1"])
    jars.learn("http://[::1]/", ["c=d"])
    assert jars.header("http://127.0.0.1:8000/x") == "a=b"
    assert jars.header("http://127.0.0.1/") is None
    assert jars.header("http://[::1]/") == "c=d"
    assert jars.header("http://127.0.0.2/") is None


@pytest.mark.parametrize(
    ("set_by", "attribute", "asked", "sent"),
    [
        ("/a/b", "", "/a/", True), ("/a/b", "", "/a/c/d", True), ("/a/b", "", "/", False),
        ("/a/b", "", "/ab", False), ("/a/b", "; Path=/", "/x", True),
        ("/", "; Path=/a", "/a", True), ("/", "; Path=/a", "/a/b?c", True),
        ("/", "; Path=/a", "/ab", False), ("/", "; Path=relative", "/x", True),
        ("/?x=/y/z", "", "/q", True),
    ],
)  # fmt: skip
def test_path(jars: Cookies, set_by: str, attribute: str, asked: str, sent: bool) -> None:
    jars.learn(f"http://a.test{set_by}", [f"a=b{attribute}"])
    assert jars.header(f"http://a.test{asked}") == ("a=b" if sent else None)


def test_the_longest_path_comes_first(jars: Cookies) -> None:
    jars.learn("http://a.test/x/y/z", ["a=1; Path=/", "b=2; Path=/x/y", "c=3; Path=/x", "d=4"])
    assert jars.header("http://a.test/x/y/z") == "b=2; d=4; c=3; a=1"


def test_secure_cookies_need_encryption_both_ways(jars: Cookies) -> None:
    jars.learn("http://a.test/", ["a=1; Secure"])
    jars.learn("https://a.test/", ["b=2; Secure", "c=3"])
    assert jars.header("https://a.test/") == "b=2; c=3"
    assert jars.header("http://a.test/") is None


def test_prefixes_are_held_to(jars: Cookies) -> None:
    jars.learn(
        "https://a.test/",
        [
            "__Secure-a=1", "__Host-b=2; Secure", "__Host-c=3; Secure; Path=/; Domain=a.test",
            "__Secure-d=4; Secure", "__Host-e=5; Secure; Path=/",
        ],
    )  # fmt: skip
    assert jars.header("https://a.test/") == "__Secure-d=4; __Host-e=5"


def test_time_ends_them(jars: Cookies, clock: WallClock) -> None:
    jars.learn(
        "http://a.test/",
        [
            "a=1; Max-Age=60",
            "b=2; Expires=Fri, 15 Jan 2027 08:01:00 GMT",
            "c=3; expires=Fri, 15-Jan-2027 08:01:00 GMT",
            "d=4; Expires=Fri, 15 Jan 2027 08:01:00 GMT; Max-Age=600",
            "e=5; Expires=nonsense",
            "f=6; Max-Age=nonsense",
        ],
    )
    assert jars.header("http://a.test/") == "a=1; b=2; c=3; d=4; e=5; f=6"
    clock.now_s += 61
    assert jars.header("http://a.test/") == "d=4; e=5; f=6"


@pytest.mark.parametrize(
    "gone", ["Max-Age=0", "Max-Age=-5", "Expires=Thu, 01 Jan 1970 00:00:00 GMT"]
)
def test_a_site_takes_its_cookies_back(jars: Cookies, gone: str) -> None:
    jars.learn("http://a.test/", ["a=1", "b=2"])
    jars.learn("http://a.test/", [f"a=; {gone}"])
    assert jars.header("http://a.test/") == "b=2"


def test_a_cookie_is_replaced_by_its_name(jars: Cookies) -> None:
    jars.learn("http://a.test/", ["a=1", "b=2", "a=3"])
    assert jars.header("http://a.test/") == "a=3; b=2"


@pytest.mark.parametrize(
    "value",
    ["", ";", "=", "novalue", "=x", " ; a=b", "a=\x00", "ü=x", "a=\udcff", "a=" + "x" * 5000],
)
def test_what_is_no_cookie_is_left_out(jars: Cookies, value: str) -> None:
    jars.learn("http://a.test/", [value])
    assert jars.header("http://a.test/") is None


def test_everything_is_bounded(jars: Cookies, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(5):
        jars.learn("http://a.test/", [f"n{n}-{i}=x" for i in range(1000)])
    sent = jars.header("http://a.test/")
    assert sent is not None
    assert sent.count("=") == COOKIES_MAX
    assert sent.startswith("n4-0=x")  # the oldest went
    jars.learn("http://a.test/", [f"long{i}={'x' * 4000}" for i in range(50)])
    sent = jars.header("http://a.test/")
    assert sent is not None
    assert len(sent) <= 8000
    monkeypatch.setattr(cookies, "JARS_MAX", 3)
    for n in range(6):
        jars.learn(f"http://site{n}.example/", ["a=b"])
    assert [n for n in range(6) if jars.header(f"http://site{n}.example/")] == [3, 4, 5]


_PIECES = st.sampled_from(
    ["a", "=", ";", " ", "Domain", "Path", "Max-Age", "Expires", "Secure", "/", ".test", "-", "1",
     "99999999999999999999", "Fri, 31 Feb 9999 99:99:99 GMT", "\x00", "\udcff", "__Host-", '"']
)  # fmt: skip


@given(st.lists(st.lists(_PIECES, max_size=12).map("".join) | st.text(), max_size=5))
@settings(deadline=None)
def test_nothing_raises_and_nothing_but_text_is_sent(values: list[str]) -> None:
    jars = Cookies(WallClock())
    jars.learn("https://www.a.test/x/y", values)
    for url in ("https://www.a.test/x/z", "http://a.test/"):
        sent = jars.header(url)
        assert sent is None or (sent.isascii() and sent.isprintable())
    assert jars.header("https://b.example/") is None


ORIGINS = [
    "http://a.test", "https://a.test", "http://a.test:8080", "https://a.test:8443",
    "http://a.test:443", "http://www.a.test", "https://www.a.test", "https://b.test",
    "http://[::1]:8080", "http://[::1]",
]  # fmt: skip


@each("to", ORIGINS)
@each("from_", ORIGINS)
def test_a_cookie_stays_with_its_scheme_and_port(from_: str, to: str) -> None:
    """But for http to https on their own ports; a host-only one, with its host."""
    jars = Cookies(WallClock())
    jars.learn(f"{from_}/", ["a=b"])
    upgraded = from_.startswith("http:") and to == f"https{from_[4:]}" and from_.count(":") == 1
    assert jars.header(f"{to}/") == ("a=b" if to == from_ or upgraded else None)


def test_services_do_not_overwrite_each_other_s_cookies() -> None:
    jars = Cookies(WallClock())
    jars.learn("https://a.test/", ["a=right"])
    jars.learn("http://a.test:8080/", ["a=wrong"])
    assert jars.header("https://a.test/") == "a=right"
    assert jars.header("http://a.test:8080/") == "a=wrong"
