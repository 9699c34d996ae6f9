"""Links met lately: exact in what it calls known, bounded in what it remembers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crawler.visiting.known import Known

PAGES = st.lists(
    st.tuples(st.lists(st.sampled_from("abcdefgh"), max_size=6), st.integers(0, 3)), max_size=12
)


@given(PAGES, st.integers(1, 8))
def test_a_page_at_once_is_as_link_by_link(pages: list[tuple[list[str], int]], kept: int) -> None:
    one, other = Known(kept), Known(kept)
    for urls, depth in pages:
        assert one.fresh(urls, depth) == [url for url in urls if other.new(url, depth)]


def test_a_shallower_depth_is_news() -> None:
    known = Known()
    assert known.fresh(["a", "b"], 2) == ["a", "b"]
    assert known.fresh(["a", "c"], 2) == ["c"]
    assert known.fresh(["a", "b"], 1) == ["a", "b"]
    known.clear()
    assert known.fresh(["a"], 5) == ["a"]


def test_what_is_remembered_is_bounded() -> None:
    known = Known(100)
    for page in range(50):
        known.fresh([f"{page}/{link}" for link in range(20)], 1)
    assert len(known._young) + len(known._old) <= 100
    assert known.fresh(["49/19"], 1) == []
    assert known.fresh(["0/0"], 1) == ["0/0"]
