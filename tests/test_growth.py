"""The judgement of growth that other tests rely on."""

from __future__ import annotations

import pytest

from tests.growth import assert_linear


def steps(count: int) -> None:
    for _ in range(count):
        pass


def test_work_that_grows_with_the_square_fails() -> None:
    assert_linear(steps, lambda size: size, 400_000)
    with pytest.raises(AssertionError, match=r"'pairs': \d+ times as long for 16 times"):
        assert_linear(steps, lambda size: size * size, 1_200, name="pairs")
