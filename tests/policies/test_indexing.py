"""Meta robots, X-Robots-Tag and rel."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.indexing import Directives, from_header, from_meta, rel_nofollow

TOKENS = ("examplebot",)
FREE = Directives()
NOINDEX = Directives(index=False)
NOFOLLOW = Directives(follow=False)
NOARCHIVE = Directives(archive=False)
NONE = Directives(index=False, follow=False)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((), FREE),
        (("",), FREE),
        (("all",), FREE),
        (("index, follow",), FREE),
        (("noindex",), NOINDEX),
        (("NoIndex",), NOINDEX),
        (("noindex, nofollow",), NONE),
        (("noindex nofollow",), NONE),
        (("noindex;nofollow",), NONE),
        (("none",), NONE),
        (("noarchive",), NOARCHIVE),
        (("nocache",), NOARCHIVE),
        (("noindex", "nofollow"), NONE),
        (("noindex, index",), NOINDEX),
        (("examplebot: noindex",), NOINDEX),
        (("ExampleBot : noindex, nofollow",), NONE),
        (("examplebot/1.0: noindex",), NOINDEX),
        (("otherbot: noindex",), FREE),
        (("otherbot: noindex, nofollow",), FREE),
        (("noarchive, otherbot: noindex, examplebot: nofollow",),
         Directives(follow=False, archive=False)),
        (("otherbot: noindex", "nofollow"), NOFOLLOW),
        (("360spider: noindex",), FREE),
        (("*: noindex",), NOINDEX),
        (("robots: noindex",), NOINDEX),
        (("unavailable_after: 25 Jun 2010 15:00:00 PST",), FREE),
        (("unavailable_after: 25 Jun 2010 15:00:00 PST, noindex",), NOINDEX),
        (("unavailable_after: Saturday, 25-Jun-10 15:00:00 UTC, nofollow",), NOFOLLOW),
        (("unavailable_after: Sat, 25 Jun 2010 15:00:00 GMT, nofollow",), NOFOLLOW),
        (("otherbot: unavailable_after: 25 Jun 2010 15:00:00 PST, noindex",), FREE),
        (("examplebot: unavailable_after: 25 Jun 2010 15:00:00 PST, noindex",), NOINDEX),
        (("max-snippet: 20, max-image-preview:large, noindex",), NOINDEX),
        (("max-image-preview: none",), FREE),
        (("noindex: 1",), NOINDEX),
        (("noindexing",), FREE),
    ],
)  # fmt: skip
def test_x_robots_tag(values: tuple[str, ...], expected: Directives) -> None:
    assert from_header(values, TOKENS) == expected


@pytest.mark.parametrize(
    ("metas", "expected"),
    [
        ((), FREE),
        ((("robots", "noindex"),), NOINDEX),
        (((" ROBOTS ", "NOINDEX,NOFOLLOW"),), NONE),
        ((("robots", "none"),), NONE),
        ((("robots", "noindex nofollow"),), NONE),
        ((("robots", "index, follow, noarchive"),), NOARCHIVE),
        ((("ExampleBot", "nofollow"), ("robots", "noindex")), NONE),
        ((("otherbot", "noindex"),), FREE),
        ((("description", "noindex"),), FREE),
        ((("robots", "max-image-preview: none, nofollow"),), NOFOLLOW),
        ((("robots", ""),), FREE),
    ],
)
def test_meta_robots(metas: tuple[tuple[str, str], ...], expected: Directives) -> None:
    assert from_meta(metas, TOKENS) == expected


def test_each_of_several_tokens_is_ours() -> None:
    assert from_header(["newsbot: noindex"], ("newsbot", "examplebot")) == NOINDEX
    assert from_meta([("newsbot", "noindex")], ("newsbot", "examplebot")) == NOINDEX


def test_merge_is_the_strictest() -> None:
    assert NOINDEX.merge(NOFOLLOW) == NOFOLLOW.merge(NOINDEX) == NONE
    assert FREE.merge(NOARCHIVE) == NOARCHIVE


@pytest.mark.parametrize(
    ("rel", "nofollow"),
    [
        (None, False),
        ("", False),
        ("nofollow", True),
        ("external NoFollow\tnoopener", True),
        ("ugc sponsored", False),
        ("nofollowing", False),
    ],
)
def test_rel(rel: str | None, nofollow: bool) -> None:
    assert rel_nofollow(rel) is nofollow


@given(st.lists(st.text(max_size=40) | st.text("noindex:, examplebot", max_size=40), max_size=4))
def test_no_text_raises(values: list[str]) -> None:
    assert isinstance(from_header(values, TOKENS), Directives)
    assert isinstance(from_meta([("robots", value) for value in values], TOKENS), Directives)
