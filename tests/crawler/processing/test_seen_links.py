"""PageLinks met lately: exact in what it calls known, bounded in what it remembers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.processing.seen_links import SeenInPython, SeenLinks
from tests.crawler.documents import both_readers

MEMORIES: list[Callable[[int], SeenLinks]] = [SeenInPython]
if both_readers.is_installed():
    from courtly_native import SeenLinks as SeenNatively

    MEMORIES.append(SeenNatively)
of_each = pytest.mark.parametrize("memory", MEMORIES)

PAGES = st.lists(
    st.tuples(st.lists(st.sampled_from("abcdefgh"), max_size=6, unique=True), st.integers(0, 3)),
    max_size=12,
)


@of_each
@given(pages=PAGES, kept=st.integers(1, 8))
def test_nothing_is_called_known_that_was_not_met(
    memory: Callable[[int], SeenLinks], pages: list[tuple[list[str], int]], kept: int
) -> None:
    known = memory(kept)
    met: dict[str, int] = {}
    for urls, depth in pages:
        fresh = list(known.fresh(urls, depth))
        assert set(fresh) >= {url for url in urls if met.get(url, 99) > depth}
        met |= {url: min(depth, met.get(url, 99)) for url in urls}


@of_each
@given(pages=PAGES)
def test_what_fits_is_remembered_exactly(
    memory: Callable[[int], SeenLinks], pages: list[tuple[list[str], int]]
) -> None:
    at_once, one_by_one = memory(16), memory(16)  # eight each generation, of eight letters
    for urls, depth in pages:
        assert at_once.fresh(urls, depth) == [url for url in urls if one_by_one.new(url, depth)]


@of_each
def test_a_shallower_depth_is_news(memory: Callable[[int], SeenLinks]) -> None:
    known = memory(100)
    assert known.fresh(["a", "b"], 2) == ["a", "b"]
    assert known.fresh(["a", "c"], 2) == ["c"]
    assert known.fresh(["a", "b"], 1) == ["a", "b"]
    known.clear()
    assert known.fresh(["a"], 5) == ["a"]


@of_each
def test_what_is_remembered_is_bounded(memory: Callable[[int], SeenLinks]) -> None:
    known = memory(100)
    for page in range(50):
        known.fresh([f"{page}/{link}" for link in range(20)], 1)
    assert len(known) <= 100
    assert known.fresh(["49/19"], 1) == []
    assert known.fresh(["0/0"], 1) == ["0/0"]


@of_each
def test_what_is_met_again_and_again_is_not_forgotten(memory: Callable[[int], SeenLinks]) -> None:
    known = memory(100)
    for page in range(50):
        assert ("home" in known.fresh(["home", *[f"{page}/{n}" for n in range(20)]], 1)) == (
            not page
        )
