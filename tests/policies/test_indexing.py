"""Meta robots, X-Robots-Tag and rel."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import indexing
from policies.indexing import Directives, from_header, from_meta, rel_nofollow
from tests.tables import each

TOKENS = ("examplebot",)
FREE = Directives()
NOINDEX = Directives(index=False)
NOFOLLOW = Directives(follow=False)
NOARCHIVE = Directives(archive=False)
NONE = Directives(index=False, follow=False)
UNTIL = Directives(unavailable_at=1277506800.0)  # 2010-06-25T23:00:00Z
DAY = Directives(unavailable_at=1277424000.0)  # 2010-06-25T00:00:00Z


@each(
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
        (("unavailable_after: 25 Jun 2010 15:00:00 PST",), UNTIL),
        (("unavailable_after: 25-Jun-2010 15:00:00 PST",), UNTIL),
        (("Unavailable_After:2010-06-25T23:00:00Z",), UNTIL),
        (("unavailable_after: 2010-06-25",), DAY),
        (("unavailable_after: 25 Jun 2010",), DAY),
        (("unavailable_after: soon",), FREE),
        (("unavailable_after:",), FREE),
        (("unavailable_after: 26 Jun 2010", "unavailable_after: 25 Jun 2010"), DAY),
        (("unavailable_after: 25 Jun 2010 15:00:00 PST, noindex",), UNTIL.merge(NOINDEX)),
        (("unavailable_after: Saturday, 25-Jun-10 23:00:00 UTC, nofollow",),
         UNTIL.merge(NOFOLLOW)),
        (("unavailable_after: Sat, 25 Jun 2010 23:00:00 GMT, nofollow",), UNTIL.merge(NOFOLLOW)),
        (("otherbot: unavailable_after: 25 Jun 2010 15:00:00 PST, noindex",), FREE),
        (("examplebot: unavailable_after: 25 Jun 2010 15:00:00 PST, noindex",),
         UNTIL.merge(NOINDEX)),
        (("\ufeffnoindex\u00a0", "no\ufffdfollow"), NOINDEX),
        (("\u00a0noindex,\u00a0nofollow\udcff",), NONE),
        (('"noindex, nofollow"',), NONE),
        (("'noindex'",), NOINDEX),
        (("otherbot: noindex; examplebot:noarchive",), NOARCHIVE),
        (("NOINDEX;NOFOLLOW",), NONE),
        (("max-snippet: 20, max-image-preview:large, noindex",), NOINDEX),
        (("max-image-preview: none",), FREE),
        (("noindex: 1",), NOINDEX),
        (("noindexing",), FREE),
    ],
)  # fmt: skip
def test_x_robots_tag(values: tuple[str, ...], expected: Directives) -> None:
    assert from_header(values, TOKENS) == expected


@each(
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
        ((("robots", "unavailable_after: 25 Jun 2010 15:00:00 PST"),), UNTIL),
        ((("examplebot", "noarchive, unavailable_after: 2010-06-25"),), DAY.merge(NOARCHIVE)),
        ((("otherbot", "unavailable_after: 2010-06-25"),), FREE),
        ((("robots", "noindex\u200b,\u00a0nofollow"),), NONE),
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
    assert UNTIL.merge(DAY) == DAY.merge(UNTIL) == DAY


def test_what_is_no_longer_available_may_not_be_indexed() -> None:
    end_s = 1277506800.0
    assert UNTIL.at(end_s - 1) == UNTIL
    assert UNTIL.at(end_s).index is False
    assert FREE.at(end_s) == FREE


@each(
    ("rel", "nofollow"),
    [
        (None, False), ("", False), ("nofollow", True), ("external NoFollow\tnoopener", True),
        ("ugc sponsored", False), ("nofollowing", False),
    ],
)  # fmt: skip
def test_rel(rel: str | None, nofollow: bool) -> None:
    assert rel_nofollow(rel) is nofollow


@given(st.lists(st.text(max_size=40) | st.text("noindex:, examplebot", max_size=40), max_size=4))
def test_no_text_raises(values: list[str]) -> None:
    assert isinstance(from_header(values, TOKENS), Directives)
    assert isinstance(from_meta([("robots", value) for value in values], TOKENS), Directives)


def test_a_header_that_several_ask_about_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long one takes milliseconds."""
    read: list[str] = []
    add = indexing._Found.add

    def spy(self: indexing._Found, value: str, names: Collection[str] | None = None) -> None:
        read.append(value)
        add(self, value, names)

    monkeypatch.setattr(indexing._Found, "add", spy)
    values = [f"bot{n}: noindex" for n in range(3)] + ["nofollow"]
    found = [from_header(iter(values), TOKENS) for _ in range(3)]
    assert {one.follow for one in found} == {False}
    assert read == values
    assert from_header(values, ["bot1"]) == from_header(["noindex, nofollow"], TOKENS)
