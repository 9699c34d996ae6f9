"""The canonical form, seeds, and the pieces of a URL."""

from __future__ import annotations

import ipaddress
import string
import sys

import pytest
import yarl
from hypothesis import example, given, settings
from hypothesis import strategies as st
from publicsuffixlist import PublicSuffixList

from policies import url as urls
from policies.url import (
    SeedError,
    canonical,
    canonical_all,
    host_of,
    origin_of,
    parse_seed,
    path_of,
    registrable_domain,
    robots_url,
    slot_of,
    unparsed_shown,
    without_userinfo,
)
from tests.tables import each

_SUFFIXES = PublicSuffixList()
BASE = "http://a.test/dir/page.html?x=1"


@each(
    ("href", "expected"),
    [
        ("http://A.Test/", "http://a.test/"),
        ("HTTP://a.test", "http://a.test/"),
        ("http://a.test?q", "http://a.test/?q"),
        ("http://a.test/#top", "http://a.test/"),
        ("http://user:pass@a.test/x", "http://a.test/x"),
        ("http://user:p@ss@a.test:8080/x@y", "http://a.test:8080/x@y"),
        ("http://a.test:80/", "http://a.test/"),
        ("https://a.test:443/", "https://a.test/"),
        ("http://a.test:443/", "http://a.test:443/"),
        ("http://a.test:08080/", "http://a.test:8080/"),
        ("http://a.test/?", "http://a.test/"),
        ("http://a.test/?#x", "http://a.test/"),
        ("http://a.test/??", "http://a.test/??"),
        ("http://a.test/%7Euser/%41%2f%3a", "http://a.test/~user/A%2F%3A"),
        ("http://a.test/?q=%7e%2b", "http://a.test/?q=~%2B"),
        ("http://a.test/ü?ü", "http://a.test/%C3%BC?%C3%BC"),
        ("http://a.test/a b", "http://a.test/a%20b"),
        ("http://a.test/a/../b/./c", "http://a.test/b/c"),
        ("http://a.test/%2e%2E/b", "http://a.test/b"),
        ("http://a.test/a/%2e", "http://a.test/a/"),
        ("http://a.test//a//b", "http://a.test//a//b"),
        ("http://a.test\\a\\b", "http://a.test/a/b"),
        ("  http://a.test/\ta\nb  ", "http://a.test/ab"),
        ("http://bücher.test/", "http://xn--bcher-kva.test/"),
        ("http://[::0:1]:80/", "http://[::1]/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        # left alone: order of queries, www, index.html, trailing slash, sessions, broken escapes
        ("http://www.a.test/index.html?b=2&a=1", "http://www.a.test/index.html?b=2&a=1"),
        (
            "http://a.test/dir/?PHPSESSID=1;jsessionid=2",
            "http://a.test/dir/?PHPSESSID=1;jsessionid=2",
        ),
        ("http://a.test/100%", "http://a.test/100%"),
        ("http://a.test/%zz%7e", "http://a.test/%zz~"),
        ("http://a.test./", "http://a.test./"),
    ],
)
def test_canonical_form(href: str, expected: str) -> None:
    assert canonical(href) == expected
    assert canonical(expected) == expected


@each(
    ("href", "expected"),
    [
        ("other.html", "http://a.test/dir/other.html"),
        ("/other.html", "http://a.test/other.html"),
        ("../x", "http://a.test/x"),
        ("../../../x", "http://a.test/x"),
        ("./", "http://a.test/dir/"),
        ("?y=2", "http://a.test/dir/page.html?y=2"),
        ("?", "http://a.test/dir/page.html"),
        ("", "http://a.test/dir/page.html?x=1"),
        ("#top", "http://a.test/dir/page.html?x=1"),
        ("//b.test/x", "http://b.test/x"),
        ("///b.test/x", "http://b.test/x"),
        ("\\\\b.test\\x", "http://b.test/x"),
        ("http:x", "http://a.test/dir/x"),
        ("https:b.test", "https://b.test/"),
        ("a:b", None),
        ("./a:b", "http://a.test/dir/a:b"),
        (".hidden/x", "http://a.test/dir/.hidden/x"),
        ("a/..b", "http://a.test/dir/a/..b"),
    ],
)
def test_relative_hrefs_resolve_as_in_a_browser(href: str, expected: str | None) -> None:
    assert canonical(href, BASE) == expected


@each(
    "href",
    [
        "", "x", "/x", "//", "http://", "http://?", "ftp://a.test/", "mailto:a@b.test",
        "javascript:void(0)", "data:text/html,x", "file:///etc/passwd", "http://a b/", "http://a.test:99999/",
        "http://[::1/", "http://1.2.3.4.5/", "http://a\udc80.test/", "http://a.test/\udc80", "http://xn--a-.test\x00/",
    ],
)  # fmt: skip
def test_what_is_not_an_http_url_is_none(href: str) -> None:
    assert canonical(href) is None


def test_base_of_another_scheme_resolves_nothing_relative() -> None:
    assert canonical("x", "data:text/html,") is None
    assert canonical("/x", "not a url") is None
    assert canonical("http://b.test/", "data:text/html,") == "http://b.test/"


def test_an_escape_is_not_decoded_where_it_would_complete_another() -> None:
    """Else `%2%35` would become `%25`, another URL, and the form would not be stable."""
    assert canonical("http://a.test/%2%35") == "http://a.test/%2%35"
    assert canonical("http://a.test/%%411") == "http://a.test/%%411"
    assert canonical("http://a.test/%25%35") == "http://a.test/%255"


# Pieces that make the interesting hrefs likely; joined in any order.
_WORDS = r"""
    http:// https:// HTTP:// http: // / \ a b.test A.TEST a.test xn-- -- 0x1 1.2.3.4 1
    . .. ./ ../ %2e %2E %41 %7e %C3%BC %c3 % %2 %% : :80 :443 :8080 :0 :00 :99999 @ user:pw@
    ? # ?q=1 & = ; ' " < ` { } ^ | [ ] [::1] ü ß * $ ! _ ~ - + , ( ) page.html index
"""
_PIECES = st.sampled_from([*_WORDS.split(), " ", "\t", "\n", "\x00", "\x7f", "\ud800"])
_HREFS = st.lists(_PIECES, max_size=9).map("".join) | st.text(max_size=40)
_ABSOLUTE = _HREFS.map(lambda rest: "http://a.test" + rest)


@given(href=_HREFS | _ABSOLUTE, base=st.none() | st.just(BASE) | _ABSOLUTE | _HREFS)
@settings(max_examples=300, deadline=None)
@example(href="a%2%35", base=BASE)
def test_fast_path_agrees_with_the_parser(href: str, base: str | None) -> None:
    assert canonical(href, base) == urls._canonical_slow(href, base)


_PLAIN_WORDS = r"""
    / // ../ ./ .. . a.b x y.html ? ?a=1 & # #f : :8080 :80 :443 %2F %2f %41 %zz 127.0.0.1 1.2.3 ü
    0127.0.0.1 1.2.3.256 1.2.3.4.5 255.255.255.255 0.0.0.0 a.test b-c.test x--y.test 1a http: ' ( |
    :65535 :65536 :10000 :655350 https: HTTP: // mailto: @ \ [::1] + ~
"""
_PLAIN = st.lists(st.sampled_from(_PLAIN_WORDS.split()), max_size=7).map("".join)


@given(
    hrefs=st.lists(_PLAIN | _HREFS | _ABSOLUTE, max_size=6),
    base=st.sampled_from(
        [BASE, "http://a.test/", "https://a.test:8080/b/c/d/e?f/g", "http://127.0.0.1/x//y/"]
    )
    | _ABSOLUTE,
)
@settings(max_examples=300, deadline=None)
@example(hrefs=["#\ud800", "x#\ud800", "http://a.test#\ud800", "\ud800#x"], base=BASE)
@example(hrefs=["x #f", " #f", "\n#f"], base=BASE)
def test_hrefs_together_are_what_each_is_alone(hrefs: list[str], base: str) -> None:
    url = canonical(base)
    if url is not None:
        assert canonical_all(hrefs, url) == [urls._canonical_slow(href, base) for href in hrefs]


@pytest.mark.skipif(sys.version_info < (3, 11, 5), reason="possessive repetitions miss some")
@pytest.mark.parametrize(
    "href",
    [
        "/x/y.html?a=1#f", "/", "//b.test/x", "http://127.0.0.1:8080/x", "https://b.test/?q", "x",
        "x.html?a=b/../c", "/x/../y/./z", "/x/..", "x//../y/.", "/.well-known/x", "./x", "../x",
        "../../x/y#z", "../", "../../../../x", "/a%20b", "http://127.0.0.1:10000/x",
        "http://b.test:65535/", "//b.test:59999/x", "http://b.test:64999/", "http://b.test:65499/",
    ],
)  # fmt: skip
def test_plain_hrefs_need_no_parser(href: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = urls._canonical_slow(href, BASE)
    monkeypatch.setattr(urls, "_canonical_slow", None)
    assert canonical_all([href], BASE) == [url]


@given(href=_HREFS | _ABSOLUTE, base=st.none() | st.just(BASE))
@settings(max_examples=200, deadline=None)
def test_canonical_form_is_stable_and_ascii(href: str, base: str | None) -> None:
    url = canonical(href, base)
    if url is not None:
        assert url.isascii()
        assert set(url) <= set(string.printable) - set(string.whitespace)
        assert canonical(url) == url == canonical(url, "http://b.test/x")
        assert origin_of(url) + path_of(url) == url
        assert origin_of(url).count("/") == 2
        assert path_of(url).startswith("/")
        assert "#" not in url
        assert host_of(url) in origin_of(url)
        assert slot_of(host_of(url), by_domain=False)
        assert slot_of(host_of(url), by_domain=True)


@given(href=_ABSOLUTE)
@settings(max_examples=100, deadline=None)
def test_canonical_form_goes_onto_the_wire_unchanged(href: str) -> None:
    """What robots.txt is asked about must be what is requested (law 3)."""
    url = canonical(href)
    if url is not None:
        assert yarl.URL(url, encoded=True).raw_path_qs == path_of(url)


@each(
    ("url", "origin", "host", "path"),
    [
        ("http://a.test/", "http://a.test", "a.test", "/"),
        ("https://a.test:8443/x?y=/z", "https://a.test:8443", "a.test", "/x?y=/z"),
        ("http://[2001:db8::1]:8080/x", "http://[2001:db8::1]:8080", "2001:db8::1", "/x"),
        ("http://127.0.0.1/x", "http://127.0.0.1", "127.0.0.1", "/x"),
    ],
)
def test_pieces(url: str, origin: str, host: str, path: str) -> None:
    assert (origin_of(url), host_of(url), path_of(url)) == (origin, host, path)
    assert robots_url(origin) == origin + "/robots.txt"


@each(
    ("host", "domain"),
    [
        ("www.example.com", "example.com"), ("www.example.co.uk", "example.co.uk"),
        ("a.github.io", "a.github.io"), ("b.a.test", "a.test"), ("localhost", "localhost"),
        ("co.uk", "co.uk"), ("127.0.0.1", "127.0.0.1"), ("2001:db8::1", "2001:db8::1"),
        ("www.example.com.", "example.com"), ("www.xn--fiqs8s", "www.xn--fiqs8s"), (".", "."),
    ],
)  # fmt: skip
def test_registrable_domain(host: str, domain: str) -> None:
    assert registrable_domain(host) == domain
    assert slot_of(host, by_domain=True) == domain


@given(
    st.one_of(
        st.ip_addresses().map(str),
        st.from_regex(r"[a-z0-9.:%-]{0,24}", fullmatch=True),
        st.sampled_from(["1.2.3", "0x7f.1", "1.2.3.4.", "a.1", "::1", "fe80::1%eth0", "[::1]"]),
    )
)
def test_only_addresses_are_their_own_domain(host: str) -> None:
    """Which need not be parsed in most cases."""
    name = host.rstrip(".")
    try:
        ipaddress.ip_address(name)
    except ValueError:
        assert registrable_domain(host) == (_SUFFIXES.privatesuffix(name) or name or host)
    else:
        assert registrable_domain(host) == name


def test_a_trailing_dot_does_not_give_a_host_a_second_clock() -> None:
    assert slot_of("a.test.", by_domain=False) == slot_of("a.test", by_domain=False) == "a.test"


def test_seed_becomes_canonical() -> None:
    assert parse_seed(" HTTP://A.test#x\n") == "http://a.test/"


@each(
    ("seed", "suggestion"),
    [
        ("example.com", "https://example.com"),
        ("example.com:8080/x", "https://example.com:8080/x"),
        ("localhost:8000", "https://localhost:8000"),
        ("//example.com/x", "https://example.com/x"),
        ("http:example.com", "http://example.com"),
        ("https:/example.com/", "https://example.com/"),
        ("https:///example.com/", "https://example.com/"),
        ("bücher.example", "https://bücher.example"),
    ],
)
def test_nothing_is_guessed_but_the_url_meant_is_suggested(seed: str, suggestion: str) -> None:
    with pytest.raises(SeedError) as caught:
        parse_seed(seed)
    assert repr(seed) in str(caught.value)
    assert f"did you mean {suggestion} ?" in str(caught.value)


@each(
    "seed", ["", "   ", "/path", "ftp://a.test/", "mailto:a@b.test", "http://a b/", "http://", "?"]
)
def test_a_hopeless_seed_gets_no_suggestion(seed: str) -> None:
    with pytest.raises(SeedError) as caught:
        parse_seed(seed)
    assert "did you mean" not in str(caught.value)


@given(st.text(max_size=60))
def test_parse_seed_raises_nothing_else(text: str) -> None:
    try:
        url = parse_seed(text)
    except SeedError:
        return
    assert canonical(url) == url


def test_the_sentence_about_a_huge_seed_is_short() -> None:
    with pytest.raises(SeedError) as caught:
        parse_seed("x" * 100_000)
    assert len(str(caught.value)) < 600


@each(
    ("text", "shown"),
    [
        ("http://u:pw@a test/", "'http://…@a test/'"), ("http://u:a@p w@[a/", "'http://…@[a/'"),
        ("http://u:p/w@a test/", "'http://…@a test/'"), ("http:/u:pw@a test/", "'http:/…@a test/'"),
        ("ftp://u:pw%40a.test/", "'ftp://…@a.test/'"), ("u:pw@a.test//b", "'…@a.test//b'"),
        ("see http://u:pw@a.test", "'…@a.test'"), ("medium.com/@user", "'medium.com/@user'"),
        ("a test/", "'a test/'"),
    ],
)  # fmt: skip
def test_what_is_no_url_is_shown_without_a_password(text: str, shown: str) -> None:
    assert unparsed_shown(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://u:a@p w@a.test/x@y", "http://…@a.test/x@y"),
        ("Sitemap: http://u:pw@a.test/ and //u@b.test", "Sitemap: http://…@a.test/ and //…@b.test"),
        ("bot/1 (+https://a.test; me@a.test)", "bot/1 (+https://a.test; me@a.test)"),
    ],
)
def test_userinfo_is_left_out_of_any_text(text: str, shown: str) -> None:
    assert without_userinfo(text) == shown
