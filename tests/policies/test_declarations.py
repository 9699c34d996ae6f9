"""What an answer declares about the use of its page: stored, read back, compared."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import declarations
from policies.declarations import NOTHING, UNKNOWN, Declared, declared
from policies.indexing import Directives
from tests.tables import each

TOKENS = ("examplebot",)
NOW_S = 1_800_000_000.0
AT = (NOW_S, NOW_S)
LATER = "unavailable_after: 2030-01-01"
LATER_S = 1_893_456_000.0

Fields = dict[str, Sequence[str]]


def of(fields: Fields, before: Declared | None = None, **more: object) -> Declared:
    """The declarations of an answer; of a 304, if there was one `before`."""
    headers = {name.lower(): values for name, values in fields.items()}
    return declared(
        lambda name: headers.get(name.lower(), ()),
        tokens=TOKENS,
        before=before,
        whole=before is None,
        **more,  # type: ignore[arg-type]
    )


@each(
    ("before", "now", "changed"),
    [
        ({}, {}, False),
        ({}, {"X-Robots-Tag": ["noindex"]}, True),
        ({}, {"X-Robots-Tag": ["none"]}, True),
        ({}, {"X-Robots-Tag": ["noarchive"]}, True),
        ({}, {"X-Robots-Tag": ["all", "max-snippet: 20"]}, False),
        ({}, {"X-Robots-Tag": ["otherbot: noindex"]}, False),
        ({}, {"X-Robots-Tag": ["otherbot: noindex", "examplebot: nofollow"]}, True),
        ({}, {"X-Robots-Tag": [LATER]}, False),
        ({}, {"X-Robots-Tag": ["unavailable_after: 2020-01-01"]}, True),
        ({"X-Robots-Tag": ["noindex, nofollow"]}, {"X-Robots-Tag": ["nofollow", "NOINDEX"]}, False),
        ({"X-Robots-Tag": ["noindex, nofollow"]}, {"X-Robots-Tag": ["none"]}, False),
        ({"X-Robots-Tag": ["noindex"]}, {"X-Robots-Tag": ["nofollow"]}, True),
        ({"X-Robots-Tag": ["noindex"]}, {}, True),
        ({}, {"Content-Usage": ["train-ai=n"]}, True),
        ({"Content-Usage": ["train-ai=n"]}, {"Content-Usage": ["train-ai=y"]}, True),
        ({"Content-Usage": ["a=1, b=2"]}, {"Content-Usage": ["a=1", " b=2 "]}, False),
        ({}, {"Content-Signal": ["ai-train=no"]}, True),
        ({}, {"TDM-Reservation": ["1"]}, True),
        ({"TDM-Reservation": ["1"]}, {"TDM-Reservation": ["0"]}, True),
        ({}, {"tdm-policy": ["https://a.test/policy"]}, True),
    ],
)
def test_what_counts_as_a_change(before: Fields, now: Fields, changed: bool) -> None:
    said, says = of(before), of(now)
    assert says.changed(said, at=AT) is changed
    assert declarations.parse(str(said)) == said
    assert declarations.parse(str(says)) == says
    assert len(str(says)) < 300


def test_a_304_replaces_the_fields_that_it_repeats_and_no_others() -> None:
    said = of({"X-Robots-Tag": ["noindex"], "TDM-Reservation": ["1"]})
    assert of({}, said) == said
    assert of({"X-Robots-Tag": ["all"]}, said) == of({"TDM-Reservation": ["1"]})
    assert of({"X-Robots-Tag": ["noarchive"]}, said) == of(
        {"X-Robots-Tag": ["noarchive"], "TDM-Reservation": ["1"]}
    )
    assert of({"TDM-Reservation": [""]}, said) == of({"X-Robots-Tag": ["noindex"]})


def test_links_and_lines_of_robots_txt_are_compared() -> None:
    said = of({}, links="http://a.test/2", robots=[("content-signal", "ai-train=no")])
    assert not of({}, said, links=None, robots=None).changed(said, at=AT)
    assert of({}, said, links="", robots=None).changed(said, at=AT)
    assert of({}, said, robots=()).changed(said, at=AT)
    assert of({}, said, robots=[("content-signal", "ai-train=yes")]).changed(said, at=AT)


@pytest.mark.parametrize("fields", [{"X-Robots-Tag": [LATER]}, {}])
def test_the_end_of_its_availability_counts_when_it_has_come(fields: Fields) -> None:
    said = of(fields, body=Directives(unavailable_at=None if fields else LATER_S))
    assert said.unavailable_at(NOW_S) == LATER_S
    assert said.unavailable_at(LATER_S) is None
    assert said.directives(LATER_S - 1).index
    assert not said.directives(LATER_S).index
    assert not said.changed(said, at=(NOW_S, LATER_S - 1))
    assert said.changed(said, at=(NOW_S, LATER_S))
    assert not said.changed(said, at=(LATER_S, LATER_S + 1))
    assert declarations.parse(str(said)) == said


def test_a_304_moves_the_end_that_the_header_gave_and_not_that_of_the_body() -> None:
    said = of({"X-Robots-Tag": [LATER]}, body=Directives(unavailable_at=LATER_S + 5))
    moved = of({"X-Robots-Tag": ["unavailable_after: 2031-01-01"]}, said)
    assert moved.unavailable_at(NOW_S) == LATER_S + 5


def test_a_whole_answer_replaces_the_header_and_what_was_read_anew() -> None:
    said = of({"X-Robots-Tag": ["noindex"], "TDM-Reservation": ["1"]},
              links="x", robots=[("content-signal", "a=no")],
              body=Directives(unavailable_at=LATER_S))  # fmt: skip
    again = declared(lambda _: (), tokens=TOKENS, robots=None, before=said)
    assert again == of({}, robots=[("content-signal", "a=no")],
                       body=Directives(unavailable_at=LATER_S))  # fmt: skip
    read = declared(lambda _: (), tokens=TOKENS, body=Directives(index=False), before=said)
    assert read == NOTHING


@each(
    ("tag", "ban"),
    [("all", None), ("nofollow", None), ("noarchive", "noarchive"), ("none", "noindex"),
     ("noarchive, noindex", "noindex"), ("unavailable_after: 2020-01-01", "noindex")],
)  # fmt: skip
def test_what_sinks_may_not_keep(tag: str, ban: str | None) -> None:
    assert of({"X-Robots-Tag": [tag]}).ban(NOW_S) == ban


def test_nothing_said_and_nothing_known_are_two_things() -> None:
    assert of({}) is NOTHING
    assert str(NOTHING) == ""
    assert declarations.parse("") == NOTHING
    assert declarations.parse(None) is None
    assert declarations.parse(UNKNOWN) is None


@given(st.dictionaries(
    st.sampled_from(["X-Robots-Tag", "Content-Usage", "tdm-policy"]),
    st.lists(st.text(max_size=30) | st.text("noindex@=;:,? ", max_size=30), max_size=3),
))  # fmt: skip
def test_whatever_is_sent_is_stored_and_read_back(fields: Fields) -> None:
    said = of(fields, links="a;b=c", robots=[("=;", ";")])
    assert declarations.parse(str(said)) == said
    assert not said.changed(said, at=AT)
