"""Fragments of links, and what of a page they can point to."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.documents import fragments as module
from crawler.documents.fragments import fragment_of
from crawler.documents.page import ParsedPage, parse_page
from policies.scope import Skip
from tests.tables import each

URL = "http://a.test/dir/page"
HTML = CIMultiDictProxy(CIMultiDict([("Content-Type", "text/html; charset=utf-8")]))


def page(html: str, **how: int) -> ParsedPage:
    return parse_page(URL, HTML, html.encode(), tokens=("bot",), fragments=True, **how)


@each(
    ("href", "expected"),
    [
        ("x#a", ("a", None)), ("#a", ("a", None)), ("x#", None), ("x", None), ("#top", None),
        ("#TOP", None), ("#t%6fp", None), ("#ü", ("%C3%BC", "ü")), ("#%C3%BC", ("%C3%BC", "ü")),
        ("#a b", ("a%20b", "a b")), ("#a\tb\n ", ("ab", None)), ("#a#b", ("a#b", None)),
        ("#:~:text=x", None), ("#a:~:text=x", ("a", None)), ("#%", ("%", None)),
        ("#%zz", ("%zz", None)), ("#%ff", ("%ff", "\ufffd")), ("#/route", ("/route", None)),
    ],
)  # fmt: skip
def test_a_fragment(href: str, expected: tuple[str, str | None] | None) -> None:
    assert fragment_of(href) == expected


@given(st.text(max_size=50))
def test_any_fragment_is_ascii_and_decodes_to_what_was_written(text: str) -> None:
    found = fragment_of(f"#{text}")
    if found is None:
        return
    encoded, decoded = found
    assert encoded.isascii()
    assert encoded.isprintable()
    assert unquote(encoded, errors="replace") == (encoded if decoded is None else decoded)
    assert fragment_of(f"#{encoded}") == found


def test_what_a_fragment_points_to() -> None:
    found = page(
        '<h1 id=One>x</h1><a name="two">y</a><p name=no id="">z</p><p id="a b"><p id=One>'
        "<svg><g id=drawn></g></svg><template><p id=hidden></p></template><!-- <p id=no> -->"
        "<script>'<p id=no2>'</script><noscript><p id=plain></p></noscript>"
        '<a name="&uuml;" id="both">u</a>'
    ).fragments
    assert list(found.elements) == ["One", "two", "a b", "drawn", "plain", "both", "ü"]
    assert found.all_elements


def test_without_a_tree() -> None:
    deep = "<div>" * 20_000
    made = page(f"{deep}<p id=x><a name=y href=#x>z</a>")
    assert set(made.fragments.elements) == {"x", "y"}
    assert [(one.url, one.fragment) for one in made.fragments.pointers] == [(URL, "x")]


def test_a_base_counts_for_fragments_too() -> None:
    made = page("<base href=/other><a href=#x>x</a><a href='?q#y'>y</a><a href='#x'>again</a>")
    assert [(one.url, one.fragment) for one in made.fragments.pointers] == [
        ("http://a.test/other", "x"), ("http://a.test/other?q", "y"),
    ]  # fmt: skip


def test_what_is_not_read_is_not_missing() -> None:
    made = page("<p id=x>" + " " * 200 + "<p id=y>", markup_bytes_max=100)
    assert list(made.fragments.elements) == ["x"]
    assert not made.fragments.all_elements
    assert made.skipped == {Skip.MAX_MARKUP: 1}


@pytest.mark.parametrize(
    ("name", "html"),
    [
        ("ELEMENTS_MAX", "<p id=a><p id=b><p id=c>"),
        ("POINTERS_MAX", "<a href=#a>x</a><a href=#b>x</a><a href=#c>x</a>"),
        ("NAME_CHARS_MAX", "<p id=long>"),
        ("NAME_CHARS_MAX", "<a href=#long>x</a>"),
    ],
)
def test_bounds_are_told(name: str, html: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, name, 2)
    made = page(html)
    assert made.skipped == {Skip.MANY_FRAGMENTS: 1}
    assert len(made.fragments.elements) <= 2
    assert len(made.fragments.pointers) <= 2


def test_nothing_is_read_unless_asked_for() -> None:
    made = parse_page(URL, HTML, b"<p id=x><a href=#x>y</a>", tokens=("bot",))
    assert made.fragments is module.NONE
