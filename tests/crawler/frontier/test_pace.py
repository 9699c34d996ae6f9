"""The clock of a host by itself: what answers make of its rest."""

from __future__ import annotations

import pytest

from crawler.frontier.pace import Pace
from crawler.frontier.reasons import Reason, Wait
from policies.pacing import PacingRules
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
        assert pace.answered(503, refusal=True, rest_s=None, now_s=now)
        rests.append(pace.backoff_until_s - now)
        now = pace.backoff_until_s
    assert rests == [60, 120, 240]
    assert pace.lanes() == 1
    for _ in range(3):
        assert not pace.answered(200, refusal=False, rest_s=None, now_s=now)
    pace.answered(503, refusal=True, rest_s=None, now_s=now)
    assert pace.backoff_until_s - now == 60
    pace.answered(429, refusal=True, rest_s=5000, now_s=now)
    assert pace.backoff_until_s - now == 5000
    assert pace.wait(now, now) == (now + 5000, Reason(Wait.BACKOFF, status=429))
    pace.answered(301, refusal=False, rest_s=6000, now_s=now)
    assert pace.wait(now, now) == (now + 6000, Reason(Wait.BACKOFF, status=301))


def test_twenty_denials_in_a_row_rest_the_host_too() -> None:
    pace = make_pace(now_s=1000)
    for _ in range(19):
        assert not pace.answered(403, refusal=False, rest_s=None, now_s=1000)
    assert not pace.answered(200, refusal=False, rest_s=None, now_s=1000)
    for _ in range(19):
        assert not pace.answered(401, refusal=False, rest_s=None, now_s=1000)
    assert pace.answered(403, refusal=False, rest_s=None, now_s=1000)
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


def test_law_1_contacts_of_a_time_with_one_lane_count_when_more_lanes_open() -> None:
    """In no delay are there more contacts than lanes, although each of these followed the one
    before."""
    pace = make_pace(now_s=1000.0, lanes=3)
    pace.answered(503, refusal=True, rest_s=None, now_s=1000.0)
    for at_s in (1060.0, 1061.1, 1062.2):
        assert pace.lanes() == 1
        contact(pace, at_s)
    pace.answered(200, refusal=False, rest_s=None, now_s=1062.3)
    assert pace.lanes() == 3
    pace.slow_s = 10.0
    pace.recompute()
    waits = []
    for _ in range(3):
        waits.append(ready(pace, 1070.0))
        pace.begin()
    assert waits == [pytest.approx(at_s) for at_s in (1070.1, 1071.2, 1072.3)]
