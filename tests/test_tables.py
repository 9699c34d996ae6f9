"""The tables that other tests are written as."""

from __future__ import annotations

import inspect

import pytest

from tests.tables import each


def test_each_row_is_tried_and_the_one_that_fails_is_named() -> None:
    tried: list[tuple[int, str]] = []

    @each(("number", "text"), [(1, "a"), (2, "b"), (3, "c")])
    @each("other", "xy")
    def check(fixture: str, number: int, text: str, other: str) -> None:
        tried.append((number, text + other))
        assert (number, other) != (2, "y"), fixture

    assert list(inspect.signature(check).parameters) == ["fixture"]
    with pytest.raises(AssertionError, match="given") as caught:
        check(fixture="given")
    assert tried == [(1, "ax"), (1, "ay"), (2, "bx"), (2, "by")]
    assert [note.partition(": ")[2] for note in caught.value.__notes__] == [
        "{'other': 'y'}",
        "{'number': 2, 'text': 'b'}",
    ]


async def test_each_row_of_a_coroutine_is_awaited() -> None:
    tried: list[str] = []

    @each("text", "ab")
    async def check(text: str) -> None:
        tried.append(text)
        assert text != "b"

    with pytest.raises(AssertionError) as caught:
        await check()
    assert tried == ["a", "b"]
    assert caught.value.__notes__ == ["of the table of check: {'text': 'b'}"]
