"""How long a host waits: every term of the politeness delay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.pacing import (
    DAY_S,
    DELAY_S_MAX,
    NO_ROBOTS_PACING,
    PacingRules,
    Per,
    RobotsPacing,
    Window,
    address_delay_s,
    common_windows,
    lanes,
    merged_windows,
    parse_window,
    politeness_delay,
    smoothed_latency_s,
    window_wait_s,
)
from tests.tables import each

seconds = st.floats(0, 1e5, allow_nan=False)
maybe = st.none() | seconds


@given(
    delay=seconds, factor=st.floats(0, 10), crawl_delay=maybe, rate=maybe, latency=maybe,
    slow=maybe, missing=st.booleans(),
)  # fmt: skip
def test_rest_is_never_under_any_of_its_floors(
    delay: float,
    factor: float,
    crawl_delay: float | None,
    rate: float | None,
    latency: float | None,
    slow: float | None,
    missing: bool,
) -> None:
    """Law 1: the largest of delay, Crawl-delay, Request-rate, slowness (60 s at most), by hand."""
    rules = PacingRules(delay=delay, latency_factor=factor)
    ask = RobotsPacing(crawl_delay_s=crawl_delay, request_rate_s=rate, missing=missing)
    found = politeness_delay(rules, ask, latency_s=latency, slow_s=slow)
    floors = [delay, crawl_delay or 0, rate or 0, slow or 0, min(60, factor * (latency or 0))]
    assert found.delay_s == max(floors) * (2 if missing else 1)
    assert found.source


@each(
    ("ask", "latency_s", "slow_s", "delay_s", "source"),
    [
        (NO_ROBOTS_PACING, None, None, 1.0, "politeness.delay"),
        (RobotsPacing(crawl_delay_s=0.5), None, None, 1.0, "politeness.delay"),
        (RobotsPacing(crawl_delay_s=7), None, None, 7, "Crawl-delay"),
        (RobotsPacing(crawl_delay_s=7, request_rate_s=9), None, None, 9, "Request-rate"),
        (NO_ROBOTS_PACING, 2.5, None, 2.5, "response time"),
        (NO_ROBOTS_PACING, 500, None, 60, "response time"),
        (NO_ROBOTS_PACING, 2.5, 30, 30, "manually"),
        (RobotsPacing(crawl_delay_s=7, missing=True), None, None, 14, "doubled while"),
        (RobotsPacing(crawl_delay_s=1, request_rate_s=1), 1, 1, 1, "politeness.delay"),
        (RobotsPacing(crawl_delay_s=7, request_rate_s=7), 7, 7, 7, "Crawl-delay"),
        (RobotsPacing(request_rate_s=7), 7, 7, 7, "Request-rate"),
        (NO_ROBOTS_PACING, 7, 7, 7, "manually"),
    ],
)
def test_rest_names_what_decided_it(
    ask: RobotsPacing, latency_s: float | None, slow_s: float | None, delay_s: float, source: str
) -> None:
    found = politeness_delay(PacingRules(), ask, latency_s=latency_s, slow_s=slow_s)
    assert found.delay_s == delay_s
    assert source in found.source


def test_no_delay_at_all_stays_none_even_doubled() -> None:
    rules = PacingRules(delay=0, latency_factor=0)
    found = politeness_delay(rules, RobotsPacing(missing=True), latency_s=3)
    assert (found.delay_s, found.source) == (0, "politeness.delay")


def test_the_strictest_origin_of_a_host_counts() -> None:
    day, night = parse_window("0600-0845"), parse_window("2200-0200")
    one = RobotsPacing(crawl_delay_s=2, windows=(day,))
    other = RobotsPacing(request_rate_s=5, windows=(day, night), missing=True)
    both = one.strictest(other)
    assert both == RobotsPacing(crawl_delay_s=2, request_rate_s=5, windows=(day,), missing=True)
    assert NO_ROBOTS_PACING.strictest(one) == one
    slower = RobotsPacing(crawl_delay_s=3, request_rate_s=4)
    for a, b in ((one, slower), (slower, one)):
        assert a.strictest(b).crawl_delay_s == 3
    assert other.strictest(slower).request_rate_s == 5


@each(
    ("ask", "backing_off", "expected"),
    [
        (NO_ROBOTS_PACING, False, 3),
        (NO_ROBOTS_PACING, True, 1),
        (RobotsPacing(crawl_delay_s=0), False, 3),
        (RobotsPacing(crawl_delay_s=0.1), False, 1),
        (RobotsPacing(request_rate_s=1), False, 1),
    ],
)
def test_law_1_one_lane_while_a_delay_rate_or_backoff_applies(
    ask: RobotsPacing, backing_off: bool, expected: int
) -> None:
    assert lanes(PacingRules(concurrency_per_host=3), ask, backing_off=backing_off) == expected


def test_slurp_crawl_delay_counts_per_address() -> None:
    rules = PacingRules(per=Per.IP, ip_delay=0.25)
    assert address_delay_s(rules, NO_ROBOTS_PACING) == 0.25
    for crawl_delay_s, rate_s in ((4, None), (None, 4), (4, 3), (2, 4)):
        ask = RobotsPacing(crawl_delay_s=crawl_delay_s, request_rate_s=rate_s)
        assert address_delay_s(rules, ask) == 4
    assert address_delay_s(rules, RobotsPacing(crawl_delay_s=1e12)) == DELAY_S_MAX


def test_smoothing_follows_without_jumping() -> None:
    assert smoothed_latency_s(None, 2.0) == 2.0
    assert 1.0 < smoothed_latency_s(1.0, 2.0) < 1.5
    assert 1.5 < smoothed_latency_s(2.0, 1.0) < 2.0


# ---------------------------------------------------------------- windows


@pytest.mark.parametrize("text", ["22:00-06:00", "2200-0600", " 22:00 - 06:00 "])
def test_a_window_may_cross_midnight(text: str) -> None:
    window = parse_window(text)
    assert window == Window(22 * 3600, 6 * 3600)
    assert window.wait_s(23 * 3600) == 0
    assert window.wait_s(5 * 3600 + 3599) == 0
    assert window.wait_s(6 * 3600) == 16 * 3600
    assert window.wait_s(12 * 3600 + 86_400 * 400) == 10 * 3600


@each("text", ["", "22-6", "25:00-06:00", "22:60-06:00", "24:30-01:00", "a-b"])
def test_a_window_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"window|time of day"):
        parse_window(text)


def test_a_window_begins_and_ends_at_its_minutes() -> None:
    assert parse_window("9:05-23:59") == Window(9 * 3600 + 300, 23 * 3600 + 59 * 60)


def test_equal_ends_mean_the_whole_day() -> None:
    assert parse_window("00:00-24:00").wait_s(12_345) == 0


@given(st.integers(0, 86_399), st.integers(0, 86_399), st.floats(0, 4e9))
def test_after_its_wait_a_window_is_open(start: int, end: int, at: float) -> None:
    window = Window(start, end)
    wait = window.wait_s(at)
    assert 0 <= wait < 86_400
    assert window.wait_s(at + wait + 1e-3) == 0 or (end - start) % 86_400 <= 1


def test_our_window_and_any_of_theirs_must_be_open() -> None:
    rules = PacingRules(visit_window=parse_window("08:00-20:00"))
    ask = RobotsPacing(windows=(parse_window("0600-0845"), parse_window("1200-1300")))
    assert window_wait_s(rules, ask, 8.5 * 3600) == 0
    assert window_wait_s(rules, ask, 9 * 3600) == 3 * 3600
    assert window_wait_s(rules, NO_ROBOTS_PACING, 7 * 3600) == 3600
    assert window_wait_s(PacingRules(), NO_ROBOTS_PACING, 0) == 0
    assert window_wait_s(rules, ask, 14 * 3600) == 18 * 3600  # not until 06:00, when ours is closed


def test_hours_that_never_meet_are_not_waited_for() -> None:
    rules = PacingRules(visit_window=parse_window("05:00-14:30"))
    ask = RobotsPacing(windows=(parse_window("0000-0500"), parse_window("2000-2200")))
    assert {window_wait_s(rules, ask, hour * 3600.0) for hour in range(24)} == {DELAY_S_MAX}


MINUTE = st.integers(0, 1_440)
WINDOWS = st.lists(
    st.tuples(MINUTE, MINUTE).map(lambda ends: Window(*[60 * end % DAY_S for end in ends])),
    min_size=1,
    max_size=6,
).map(tuple)


def hours(windows: tuple[Window, ...]) -> set[int]:
    return {m for m in range(1_440) if any(w.wait_s(m * 60 + 30) == 0 for w in windows)}


@given(WINDOWS, WINDOWS)
def test_what_several_files_of_a_host_want_is_what_all_want(
    ours: tuple[Window, ...], theirs: tuple[Window, ...]
) -> None:
    """Where no hour is wanted by both, the narrower counts."""
    common = common_windows(ours, theirs)
    wanted = hours(ours) & hours(theirs)
    if not wanted:
        wanted = min(hours(ours), hours(theirs), key=len)
    assert hours(common) == wanted
    assert hours(merged_windows(ours)) == hours(ours)
    assert len(merged_windows(ours)) <= len(ours)
    assert common_windows(ours, ()) == common_windows((), ours) == ours
    both = (
        RobotsPacing(windows=ours).strictest(RobotsPacing(windows=theirs)).strictest(RobotsPacing())
    )
    assert hours(both.windows) == wanted
