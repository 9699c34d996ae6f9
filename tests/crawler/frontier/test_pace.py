"""The clock of a host by itself: what answers make of its rest."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.frontier.pace import Pace
from crawler.frontier.reasons import RESTARTED, VISIT_WINDOW, Reason, Wait
from policies.pacing import PacingRules, RobotsPacing, Window
from storage.store import HostClock, Lease, Prefetched


def make_pace(
    *,
    now_s: float,
    lanes: int = 1,
    kept: HostClock | None = None,
    clean: bool = True,
    restart_s: float | None = None,
) -> Pace:
    lease = Lease(
        slot="a.test",
        epoch=1,
        clean=clean,
        clock=kept or HostClock(),
        paused=False,
        slow_s=None,
        visited=0,
        body_bytes=0,
        robots={},
        prefetched=Prefetched(urls=(), next_due_in_s=None),
    )
    rules = PacingRules(concurrency_per_host=lanes)
    return Pace(lease, rules, now_s=now_s, restart_s=restart_s)


def test_backing_off_and_being_forgiven() -> None:
    """60 s doubling, halved by each success; Retry-After as told."""
    now = 1000.0
    pace = make_pace(now_s=now)
    rests = []
    for _ in range(3):
        assert pace.answered(503, refusal=True, asked_s=None, now_s=now)
        rests.append(pace.backoff_until_s - now)
        now = pace.backoff_until_s
    assert rests == [60, 120, 240]
    assert pace.lanes == 1
    for _ in range(3):
        assert not pace.answered(200, refusal=False, asked_s=None, now_s=now)
    pace.answered(503, refusal=True, asked_s=None, now_s=now)
    assert pace.backoff_until_s - now == 60
    pace.answered(429, refusal=True, asked_s=5000, now_s=now)
    assert pace.backoff_until_s - now == 5000
    assert pace.wait(now, now) == (now + 5000, Reason(Wait.BACKOFF, status=429))
    pace.answered(301, refusal=False, asked_s=6000, now_s=now)
    assert pace.wait(now, now) == (now + 6000, Reason(Wait.BACKOFF, status=301))


def test_twenty_denials_in_a_row_rest_the_host_too() -> None:
    pace = make_pace(now_s=1000)
    for _ in range(19):
        assert not pace.answered(403, refusal=False, asked_s=None, now_s=1000)
    assert not pace.answered(200, refusal=False, asked_s=None, now_s=1000)
    for _ in range(19):
        assert not pace.answered(401, refusal=False, asked_s=None, now_s=1000)
    assert pace.answered(403, refusal=False, asked_s=None, now_s=1000)
    assert pace.backoff_until_s == 1060
    assert pace.backoff_status == 403


def ready(pace: Pace, now_s: float) -> float:
    """When a contact may begin."""
    at_s = pace.ready_s(now_s, lambda: now_s)
    assert at_s is not None
    return at_s


def contact(pace: Pace, at_s: float, took_s: float = 0.1) -> None:
    assert ready(pace, at_s) <= at_s
    follows_s = pace.begin()
    pace.on_wire()
    pace.end(follows_s, ready(pace, at_s) if not pace.busy else at_s, at_s, at_s + took_s)


def test_law_6_the_delay_after_a_crash_counts_from_the_restart() -> None:
    """A host may be leased later than that, because the delay after its last contact had been
    stored. It does not wait for a second one."""
    kept = HostClock(delay_s=7, delay_source="Crawl-delay in robots.txt")
    dirty = make_pace(now_s=1006.0, kept=kept, clean=False, restart_s=1001.0)
    assert ready(dirty, 1006.0) == 1008.0
    assert ready(make_pace(now_s=1030.0, kept=kept, clean=False, restart_s=1001.0), 1030.0) <= 1030
    # Of a store whose workers may die at any time, only the lease is a certain end.
    assert ready(make_pace(now_s=1006.0, kept=kept, clean=False), 1006.0) == 1013.0


def test_law_6_a_delay_learned_later_counts_from_the_restart_too() -> None:
    pace = make_pace(now_s=1000.0, clean=False, restart_s=999.5)
    for slow_s, ready_s in ((20.0, 1019.5), (5.0, 1004.5), (None, 1000.5)):
        pace.slow_s = slow_s
        pace.recompute()
        assert ready(pace, 1000.0) == ready_s
        assert pace.wait(1000.0, 0.0) == (ready_s, RESTARTED)


def test_visit_windows_that_never_meet_are_known() -> None:
    night, day = Window(0, 6 * 3600), Window(7 * 3600, 8 * 3600)
    for ours, theirs, windowed, ever_open in (
        (None, (), False, True),
        (night, (), True, True),
        (None, (day,), True, True),
        (night, (night, day), True, True),
        (night, (day,), True, False),
    ):
        pace = make_pace(now_s=1000.0)
        pace.rules = PacingRules(visit_window=ours)
        pace.set_ask("http://a.test", RobotsPacing(windows=theirs))
        assert (pace.windowed, pace.ever_open) == (windowed, ever_open)


def test_law_1_contacts_of_a_time_with_one_lane_count_when_more_lanes_open() -> None:
    """In no delay are there more contacts than lanes, although each of these followed the one
    before."""
    pace = make_pace(now_s=1000.0, lanes=3)
    pace.answered(503, refusal=True, asked_s=None, now_s=1000.0)
    for at_s in (1060.0, 1061.1, 1062.2):
        assert pace.lanes == 1
        contact(pace, at_s)
    pace.answered(200, refusal=False, asked_s=None, now_s=1062.3)
    assert pace.lanes == 3
    pace.slow_s = 10.0
    pace.recompute()
    waits = []
    for _ in range(3):
        waits.append(ready(pace, 1070.0))
        pace.begin()
    assert waits == [pytest.approx(at_s) for at_s in (1070.1, 1071.2, 1072.3)]


def test_an_unused_permit_leaves_no_trace_in_any_lane() -> None:
    """The end of the contact before it counts as before."""
    for lanes in (1, 2, 3):
        for contacts in range(5):
            pace = make_pace(now_s=1000.0, lanes=lanes)
            for n in range(contacts):
                contact(pace, 1000.0 + 10 * n)
            ends, ready_s = list(pace.ends), ready(pace, 1000.0)
            for used in (1, lanes):
                permits = [pace.begin() for _ in range(used)]
                assert (pace.ready_s(1000.0, lambda: 0.0) is None) is (used == lanes)
                for follows_s in reversed(permits):
                    pace.undo(follows_s)
                assert (pace.ends, pace.busy) == (ends, 0), (lanes, contacts, used)
                assert ready(pace, 1000.0) == ready_s


def test_the_smallest_measured_delay_and_early_contacts_are_audited() -> None:
    """Only delays between two contacts whose times were both measured."""
    for kept, clean, smallest_s, unproven in (
        (None, True, 2.0, 0),
        (1.5, True, 1.5, 0),
        (2.5, True, 2.0, 0),
        (None, False, 3.0, 1),
        (9.0, False, 3.0, 1),
    ):
        pace = make_pace(
            now_s=1000.0, kept=HostClock(rested_s=8.0, smallest_rest_s=kept), clean=clean
        )
        now_s = 994.0  # 2 s after the contact before the lease, which another holder may have hid
        for rested_s in (0.0, 3.0, 5.0):
            now_s += rested_s
            follows_s = pace.begin()
            pace.on_wire()
            pace.end(follows_s, now_s, now_s, now_s)
        stored = pace.clock(now_s, put_off_s=0.0, connect_failures=0)
        assert (stored.smallest_rest_s, stored.unproven) == (smallest_s, unproven), (kept, clean)
        assert (stored.breaches, stored.contacts, stored.peak_concurrency) == (0, 3, 1)
    for early_s, breaches in ((0.0, 1), (0.001, 2)):
        pace.on_wire()
        pace.end(pace.begin(), now_s, now_s - early_s, now_s)
        pace.end(pace.begin(), now_s, now_s - 1.0, now_s)
        assert pace.breaches == breaches + (early_s > 0)


def test_the_stored_clock_is_the_latest_of_all_waits() -> None:
    """In seconds from now, and none of them negative."""
    now_s, lent = 2000.0, HostClock(connect_failures=1, denials=3)
    for end_s, backoff_s, put_off_s, next_in_s, rested_s in (
        (None, None, 0.0, 0.0, None),
        (1999.5, None, 0.0, 0.5, 0.5),
        (1990.0, None, 0.0, 0.0, 10.0),
        (1999.5, 30.0, 0.0, 30.0, 0.5),
        (1999.5, 30.0, 2040.0, 40.0, 0.5),
        (1999.5, None, 2000.25, 0.5, 0.5),
    ):
        pace = make_pace(now_s=1000.0, kept=lent)
        if end_s is not None:
            contact(pace, end_s, took_s=0.0)
        if backoff_s:
            pace.answered(429, refusal=True, asked_s=backoff_s, now_s=now_s)
        stored = pace.clock(now_s, put_off_s=put_off_s, connect_failures=4)
        assert (stored.next_in_s, stored.rested_s) == (next_in_s, rested_s)
        assert stored.backoff_in_s == (backoff_s or 0.0)
        assert stored.backoff_level == (1 if backoff_s else 0)
        assert stored.backoff_status == (429 if backoff_s else None)
        assert (stored.delay_s, stored.delay_source) == (1.0, "politeness.delay")
        assert (stored.connect_failures, stored.latency_s) == (4, 0.0 if end_s else None)
        later = pace.clock(now_s + 1000, put_off_s=put_off_s, connect_failures=4)
        assert (later.next_in_s, later.backoff_in_s, later.backoff_status) == (0.0, 0.0, None)
    restarted = make_pace(now_s=2000.0, clean=False, restart_s=1999.75)
    assert restarted.clock(now_s, put_off_s=0.0, connect_failures=0).next_in_s == 0.75


def test_a_stored_backoff_and_the_last_of_several_lanes_count() -> None:
    pace = make_pace(now_s=1000.0, lanes=3, kept=HostClock(backoff_in_s=30.0, backoff_level=1))
    assert ready(pace, 1000.0) == 1030.0
    for at_s in (1030.0, 1040.0, 1050.0):
        contact(pace, at_s, took_s=0.0)
        pace.on_wire()
        pace.not_sent()
    stored = pace.clock(1060.0, put_off_s=0.0, connect_failures=0)
    assert (stored.rested_s, stored.peak_concurrency) == (10.0, 1)


def test_the_strictest_file_of_the_host_counts_also_when_it_left_memory() -> None:
    pace = make_pace(now_s=1000.0)
    contact(pace, 1000.0, took_s=0.0)
    strict, lax = RobotsPacing(crawl_delay_s=9.0, missing=True), RobotsPacing(crawl_delay_s=4.0)
    for origin, ask, delay_s, stricter in (
        ("http://a.test", lax, 4.0, True),
        ("http://b.test", lax, 4.0, False),
        ("http://b.test", strict, 18.0, True),
    ):
        revision = pace.revision
        pace.set_ask(origin, ask)
        assert (pace.delay.delay_s, pace.revision > revision) == (delay_s, stricter)
        assert ready(pace, 1000.0) == 1000.0 + delay_s
    pace.forget_asks(["http://b.test", "http://unknown.test"])
    pace.set_ask("http://a.test", RobotsPacing())
    assert pace.delay.delay_s == 9.0  # no longer doubled
    pace.forget_asks(["http://a.test"])
    pace.set_ask("http://a.test", lax)
    assert pace.delay.delay_s == 9.0


def test_what_a_caller_reads_of_the_next_contact() -> None:
    """The delay and its source, or a longer wait and its reason."""
    pace = make_pace(now_s=1000.0)
    assert pace.next_contact(1000.0, 0.0) == (1.0, "politeness.delay")
    contact(pace, 1000.0, took_s=0.0)
    assert pace.next_contact(1000.0, 0.0) == (1.0, "politeness.delay")
    pace.answered(503, refusal=True, asked_s=90.0, now_s=1000.0)
    wait_s, source = pace.next_contact(1010.0, 0.0)
    assert (wait_s, source) == (80.0, Reason(Wait.BACKOFF, status=503).sentence)
    assert pace.next_contact(1089.0, 0.0) == (1.0, "politeness.delay")
    pace.begin()
    assert pace.next_contact(1010.0, 0.0) == (1.0, "politeness.delay")


@given(
    lanes=st.integers(1, 3),
    kept=st.builds(
        HostClock, next_in_s=st.sampled_from([0.0, 3.0]), rested_s=st.none() | st.just(1.0)
    ),
    clean=st.booleans(),
    window=st.none() | st.just(Window(3600, 7200)),
    deeds=st.lists(
        st.tuples(
            st.sampled_from(["contact", "begin", "undo", "refusal", "slow"]), st.integers(0, 9)
        )
    ),
)
def test_the_wait_that_is_explained_is_the_wait_that_is_kept(
    lanes: int,
    kept: HostClock,
    clean: bool,
    window: Window | None,
    deeds: list[tuple[str, int]],
) -> None:
    """`wait` and `ready_s` agree whatever happened."""
    now_s = 1000.0
    pace = make_pace(now_s=now_s, lanes=lanes, kept=kept, clean=clean)
    pace.set_ask("http://a.test", RobotsPacing(windows=(window,) if window else ()))
    under_way: list[float] = []
    for deed, after_s in deeds:
        now_s += after_s
        at_s = pace.ready_s(now_s, lambda: 0.0)
        if deed == "begin" and at_s is not None:
            under_way.append(pace.begin())
        elif deed == "contact" and under_way:
            pace.on_wire()
            pace.end(under_way.pop(), now_s, now_s - 1, now_s)
        elif deed == "undo" and under_way:
            pace.undo(under_way.pop())
        elif deed == "refusal":
            pace.answered(503, refusal=True, asked_s=float(after_s), now_s=now_s)
        elif deed == "slow":
            pace.slow_s = float(after_s)
            pace.recompute()
        for wall_s in (0.0, 3600.0, 7199.0, 7200.0):
            at_s = pace.ready_s(now_s, partial(float, wall_s))
            wait = pace.wait(now_s, wall_s)
            assert (wait is None) is (at_s is None) is (pace.busy >= pace.lanes)
            if wait is not None and at_s is not None:
                assert max(wait[0], now_s) == max(at_s, now_s)
                assert wait[1] is not VISIT_WINDOW or window is not None
