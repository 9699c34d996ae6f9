"""The clock of a host by itself: what answers make of its rest."""

from __future__ import annotations

from crawler.frontier.pace import Pace
from crawler.frontier.reasons import Reason, Wait
from policies.pacing import PacingRules
from storage.store import HostClock, Lease, Prefetched


def make_pace(*, now_s: float) -> Pace:
    lease = Lease(
        slot="a.test",
        epoch=1,
        clean=True,
        clock=HostClock(),
        paused=False,
        slow_s=None,
        visited=0,
        body_bytes=0,
        robots={},
        prefetched=Prefetched(urls=(), next_due_in_s=None),
    )
    return Pace(lease, PacingRules(), now_s=now_s)


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
