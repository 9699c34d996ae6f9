"""Percentiles of a histogram on a logarithmic scale."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.log_histogram import (
    FLOOR_S,
    GROWTH,
    PER_DOUBLING,
    added,
    bucket_of,
    increase,
    percentile,
    value_of,
)

seconds = st.floats(min_value=0.0, max_value=10_000.0)


def histogram(values: list[float]) -> dict[int, int]:
    return added({bucket_of(value): 1} for value in values)


@given(st.lists(seconds, min_size=1), st.floats(min_value=0.0, max_value=1.0))
def test_a_percentile_is_right_within_half_a_bucket(values: list[float], share: float) -> None:
    exact = sorted(values)[max(1, math.ceil(share * len(values))) - 1]
    found = percentile(histogram(values), share)
    assert found is not None
    if exact <= FLOOR_S:
        assert found == 0.0
    else:
        assert abs(math.log(found / exact)) <= math.log(GROWTH) / 2 + 1e-9


@given(st.lists(st.lists(seconds)))
def test_the_order_of_folding_does_not_matter(parts: list[list[float]]) -> None:
    whole = histogram([value for part in parts for value in part])
    assert added(map(histogram, parts)) == whole
    folded: dict[int, int] = {}
    for part in parts:
        folded = added([folded, histogram(part)])
    assert folded == whole


@given(seconds, seconds)
def test_longer_durations_are_in_later_buckets(one: float, other: float) -> None:
    assert bucket_of(min(one, other)) <= bucket_of(max(one, other))


@pytest.mark.parametrize("value", [-1.0, 0.0, math.nan])
def test_what_is_no_duration_counts_as_none(value: float) -> None:
    assert bucket_of(value) == 0
    assert value_of(0) == 0.0


def test_a_bucket_includes_its_upper_bound() -> None:
    """As those of Prometheus do, whose bounds are whole doublings."""
    for doublings in range(18):
        bound = FLOOR_S * 2**doublings
        assert bucket_of(bound) == PER_DOUBLING * doublings
        assert bucket_of(math.nextafter(bound, math.inf) * 1.001) == PER_DOUBLING * doublings + 1


@given(
    st.dictionaries(st.integers(), st.integers(1, 9)),
    st.dictionaries(st.integers(), st.integers(1, 9)),
)
def test_an_increase_is_what_was_added(before: dict[int, int], more: dict[int, int]) -> None:
    assert increase(added([before, more]), before) == more


def test_the_buckets_have_an_end() -> None:
    assert bucket_of(1e300) == bucket_of(1e9)


def test_an_empty_histogram_has_no_percentile() -> None:
    assert percentile({}, 0.5) is None
