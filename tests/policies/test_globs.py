"""Patterns of the config: exact, and cheap whatever they are."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from policies.globs import Globs
from tests.tables import each


@each(
    ("pattern", "text", "fits"),
    [
        ("", "", True), ("*", "anything", True), ("a*", "abc", True), ("*c", "abc", True),
        ("*b*", "abc", True), ("a*c", "abc", True), ("ab*bc", "abc", False), ("a**c", "ac", True),
        ("a?c", "abc", False), ("a?c", "a?c", True), ("[ab]", "a", False), ("abc", "ABC", False),
        ("abc", "abcd", False), ("*a*b*c", "xaxbxbc", True),
    ],
)  # fmt: skip
def test_patterns(pattern: str, text: str, fits: bool) -> None:
    assert Globs([pattern]).match(text) is fits


@given(st.lists(st.text("ab*?.", max_size=8), max_size=3), st.text("ab?.", max_size=12))
@example(["*ab*ab"], "ab")
def test_patterns_agree_with_a_naive_matcher(patterns: list[str], text: str) -> None:
    naive = any(
        re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) for pattern in patterns
    )
    assert Globs(patterns).match(text) is naive


@pytest.mark.timeout(5)
def test_a_pattern_full_of_stars_stays_cheap() -> None:
    assert not Globs(["*a" * 500 + "*b"]).match("a" * 2000)
