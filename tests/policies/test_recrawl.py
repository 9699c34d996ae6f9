"""When pages are visited again: fixed, adaptive, gone, hinted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policies.listing import Changefreq, Listing
from policies.recrawl import (
    DAY_S,
    GONE_MAX_S,
    ContentChange,
    RecrawlMode,
    RecrawlRules,
    due_in_s,
    interval_s,
    is_changed,
    is_modified_since_visit,
    retry_in_s,
)
from tests.tables import each

FIXED = RecrawlRules(mode=RecrawlMode.FIXED, interval_s=2 * DAY_S)
ADAPTIVE = RecrawlRules(mode=RecrawlMode.ADAPTIVE)
HOUR_S = 3600.0


def test_off_by_default() -> None:
    assert not RecrawlRules().on
    assert FIXED.on
    assert ADAPTIVE.on


def test_fixed_is_fixed_whatever_is_seen_or_said() -> None:
    for seen in ContentChange:
        listing = Listing(changefreq=Changefreq.HOURLY)
        given_s = interval_s(FIXED, status=200, seen=seen, before_s=99.0, listing=listing)
        assert given_s == 2 * DAY_S


@each("period_s", [6 * HOUR_S, DAY_S, 3 * DAY_S, 9 * DAY_S])
def test_a_page_that_changes_at_a_steady_pace_is_visited_at_that_pace(period_s: float) -> None:
    """Over a simulated year, in the last three quarters of it."""
    now_s, every_s, seen_of = 0.0, None, None
    intervals = []
    while now_s < 365 * DAY_S:
        version = int(now_s // period_s)
        seen = ContentChange.FIRST if seen_of is None else (
            ContentChange.CHANGED if version != seen_of else ContentChange.UNCHANGED
        )  # fmt: skip
        every_s = interval_s(ADAPTIVE, status=200, seen=seen, before_s=every_s)
        seen_of = version
        if now_s > 90 * DAY_S:
            intervals.append(every_s)
        now_s += every_s
    assert all(0.35 * period_s < one < 0.95 * period_s for one in intervals)
    assert 0.5 * period_s < sum(intervals) / len(intervals) < 0.7 * period_s


def test_a_page_that_never_changes_or_always_does_goes_to_its_bound() -> None:
    for seen, bound_s in (
        (ContentChange.UNCHANGED, ADAPTIVE.max_interval_s),
        (ContentChange.CHANGED, ADAPTIVE.min_interval_s),
    ):
        every_s = interval_s(ADAPTIVE, status=200, seen=ContentChange.FIRST)
        assert every_s == ADAPTIVE.interval_s
        for _ in range(30):
            every_s = interval_s(ADAPTIVE, status=200, seen=seen, before_s=every_s)
        assert every_s == bound_s


def test_changefreq_is_where_an_adaptive_interval_begins() -> None:
    def first_s(hint: Changefreq) -> float:
        listing = Listing(changefreq=hint)
        return interval_s(ADAPTIVE, status=200, seen=ContentChange.FIRST, listing=listing)

    assert first_s(Changefreq.DAILY) == DAY_S
    assert first_s(Changefreq.ALWAYS) == ADAPTIVE.min_interval_s
    assert first_s(Changefreq.NEVER) == ADAPTIVE.max_interval_s
    listing = Listing(changefreq=Changefreq.DAILY)
    after_s = interval_s(
        ADAPTIVE, status=200, seen=ContentChange.UNCHANGED, before_s=99e3, listing=listing
    )
    assert after_s == 99e3 * 1.5


def test_a_lastmod_that_we_have_not_seen_has_it_visited_at_once() -> None:
    listing = Listing(lastmod_at=200.0)
    assert is_modified_since_visit(listing, visited_at=100.0, now_s=200.0)
    assert not is_modified_since_visit(listing, visited_at=200.0, now_s=300.0)
    assert not is_modified_since_visit(listing, visited_at=100.0, now_s=199.0)
    assert not is_modified_since_visit(Listing(), visited_at=100.0, now_s=200.0)
    assert not is_modified_since_visit(None, visited_at=100.0, now_s=200.0)


@each("status", [404, 410])
@each("rules", [FIXED, ADAPTIVE])
def test_what_is_gone_is_asked_for_less_and_less(rules: RecrawlRules, status: int) -> None:
    every_s = interval_s(rules, status=status, seen=ContentChange.CHANGED, before_s=HOUR_S)
    assert every_s == rules.interval_s
    for _ in range(4):
        longer_s = interval_s(rules, status=status, seen=ContentChange.UNCHANGED, before_s=every_s)
        assert longer_s == 2 * every_s
        every_s = longer_s
    for _ in range(20):
        every_s = interval_s(rules, status=status, seen=ContentChange.UNCHANGED, before_s=every_s)
    assert every_s == GONE_MAX_S
    first_s = interval_s(rules, status=status, seen=ContentChange.UNCHANGED)
    assert first_s == rules.interval_s
    back_s = interval_s(rules, status=200, seen=ContentChange.CHANGED, before_s=every_s)
    assert back_s <= max(rules.max_interval_s, rules.interval_s)


@given(
    st.sampled_from([FIXED, ADAPTIVE]),
    st.sampled_from([200, 301, 404, 410, 500]),
    st.sampled_from(list(ContentChange)),
    st.none() | st.floats(0, 1e9),
    st.none() | st.sampled_from(list(Changefreq)),
)
def test_no_interval_is_below_the_least_or_beyond_a_year(
    rules: RecrawlRules,
    status: int,
    seen: ContentChange,
    before_s: float | None,
    hint: Changefreq | None,
) -> None:
    listing = Listing(changefreq=hint)
    every_s = interval_s(rules, status=status, seen=seen, before_s=before_s, listing=listing)
    gone = status in (404, 410)
    assert every_s <= GONE_MAX_S
    assert gone or every_s >= min(rules.min_interval_s, rules.interval_s)


def test_failures_follow_the_retry_clock() -> None:
    assert [retry_in_s(ADAPTIVE, n) for n in (1, 2, 3, 4)] == [2, 10, 30, 60]
    assert retry_in_s(ADAPTIVE, 99) == 6 * HOUR_S
    for regular_s, latest_s in ((HOUR_S, HOUR_S), (1.0, 60.0)):
        rules = RecrawlRules(mode=RecrawlMode.FIXED, interval_s=regular_s)
        assert retry_in_s(rules, 99) == latest_s


def test_a_page_is_visited_a_second_after_its_end_but_not_each_second() -> None:
    ends = ((-DAY_S, 60.0), (58.0, 60.0), (90.0, 91.0), (9 * DAY_S, DAY_S))
    assert all(due_in_s(DAY_S, ends_in_s) == due_s for ends_in_s, due_s in ends)


def changed(**values: tuple[object, object]) -> bool:
    same: dict[str, tuple[object, object]] = {
        "status": (200, 200), "body_hash": (None, None), "etag": (None, None),
        "last_modified": (None, None),
    }  # fmt: skip
    return is_changed(**(same | values))  # type: ignore[arg-type]


def test_what_counts_as_a_change() -> None:
    assert not changed()
    assert changed(status=(200, 404))
    assert changed(target=("http://a.test/1", "http://a.test/2"))
    assert changed(content_type=("text/html", "text/plain"), body_hash=("1", "1"))
    assert not changed(content_type=("text/html", None), body_hash=("1", "1"))
    assert changed(body_hash=("1", "2"))
    assert not changed(body_hash=("1", "1"), etag=('"1"', '"2"'))  # the body decides
    assert changed(body_hash=("1", None), etag=('"1"', '"2"'))
    assert changed(last_modified=("a", "b"))
    assert not changed(etag=(None, '"1"'))
