"""The health of a crawl is judged by the last five minutes, with a cause in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from crawler.config import from_dict
from crawler.daemon.health import (
    Check,
    CheckName,
    Counts,
    HealthEvidence,
    HealthState,
    Space,
    dated,
    judge,
)
from crawler.daemon.monitoring.health_monitor import STEP_S, WINDOW_S, HealthMonitor, RecentCounts
from crawler.daemon.monitoring.metrics import Metrics
from crawler.operator_commands import CrawlState
from crawler.steering.live_state import ActiveHold
from crawler.steering.queue_waits import queue_waits
from policies.holds import SENTENCES, HoldReason
from policies.retries import FailureCode
from tests.crawler.daemon.conftest import Hand
from tests.crawler.daemon.monitoring.test_metrics import contact

OK, WARNING, BAD = HealthState


def found(name: CheckName, **seen: Any) -> Check:
    checks = judge(HealthEvidence(**({"state": CrawlState.RUNNING} | seen))).checks
    return next(one for one in checks if one.check is name)


def test_a_crawl_without_events_is_well() -> None:
    health = judge(HealthEvidence(state=CrawlState.RUNNING))
    assert health.state is OK
    assert health.troubles == ()


def test_each_check_names_its_cause() -> None:
    seen: Any
    for name, seen, state, words in [
        ("network", {"recent": Counts(pages=100, lost=2)}, OK, "2 of 100 page requests"),
        ("network", {"recent": Counts(pages=100, lost=30)}, WARNING, "30 of 100"),
        (
            "network",
            {"recent": Counts(pages=100, lost=100)},
            BAD,
            "100 of 100 page requests got no",
        ),
        ("network", {"recent": Counts(pages=19, lost=19)}, OK, "19 of 19"),  # too few to judge by
        ("network", {"known_hosts": 40, "gone_hosts": 20}, BAD, "20 of 40 hosts with queued URLs"),
        ("network", {"known_hosts": 40, "gone_hosts": 8}, WARNING, "8 of 40 hosts"),
        ("network", {"known_hosts": 40, "gone_hosts": 7}, OK, "No page was requested"),
        ("network", {"known_hosts": 4, "gone_hosts": 4}, OK, "No page was requested"),
        ("responses", {"recent": Counts(pages=100, server_errors=70)}, BAD, "70 of 100 responses"),
        ("responses", {"recent": Counts(pages=50, refusals=20)}, WARNING, "20 responses asked for"),
        ("urls", {"recent": Counts(ended=100, failed=60)}, BAD, "60 URLs failed in the last five"),
        ("urls", {"recent": Counts(ended=9_000, failed=40, given_up_hosts=12)}, BAD, "12 origins"),
        ("urls", {"failed": 60, "ended": 100}, WARNING, "60 of 100 URLs failed so far"),
        ("robots.txt", {"recent": Counts(robots=40, robots_unreachable=39)}, BAD, "39 of 40"),
        ("politeness", {"recent": Counts(early=1), "run": Counts(early=1)}, BAD, "1 request began"),
        ("politeness", {"run": Counts(early=2)}, WARNING, "2 requests began too early in this run"),
        ("politeness", {"run": Counts(unproven=3)}, OK, "3 requests followed a delay that nobody"),
        ("commits", {"returned_ago_s": 60.0}, WARNING, "went back in time 1 min ago"),
        ("commits", {"returned_ago_s": 301.0}, OK, "No outcome waits"),
        ("commits", {"uncommitted_s": 20.0}, WARNING, "waited 20 s"),
        ("commits", {"uncommitted_s": 90.0}, BAD, "to be committed"),
        ("commits", {"recent": Counts(commits=50, slow_commits=20)}, WARNING, "20 of 50 commits"),
        ("disk", {"log_lines_lost": 3}, WARNING, "3 log lines"),
        ("workers", {"workers": 2, "silent": ["7 (m1)"]}, WARNING, "7 (m1)"),
    ]:
        check = found(CheckName(name), **seen)
        assert check.state is state
        assert words in check.sentence


def test_every_hold_is_bad_for_some_check() -> None:
    for reason in list(HoldReason):
        hold = ActiveHold(reason=reason.value, sentence=SENTENCES[reason], since=1.0)
        health = judge(HealthEvidence(state=CrawlState.HELD, held=[hold]))
        bad = [one for one in health.checks if one.state is BAD]
        if reason is HoldReason.MEMORY:
            bad = bad or [found(CheckName.DISK)]
        assert bad, reason


def test_little_free_space_is_a_warning() -> None:
    space = Space(folder=Path("/data"), free_bytes=500_000_000, total_bytes=10**12)
    check = found(CheckName.DISK, spaces=[space])
    assert (check.state, check.sentence) == (WARNING, "500 MB free in /data.")
    small = Space(folder=Path("/data"), free_bytes=30_000_000, total_bytes=40_000_000)
    assert found(CheckName.DISK, spaces=[small]).state is OK


def test_a_check_keeps_the_time_since_which_it_is_in_its_state() -> None:
    well, ill = (
        judge(HealthEvidence(state=CrawlState.RUNNING, run=Counts(early=n))) for n in (0, 1)
    )
    seen = dated(well, None, 10.0)
    assert {one.since for one in seen.checks} == {None}
    seen = dated(ill, seen, 20.0)
    seen = dated(ill, seen, 30.0)
    assert seen.troubles[0].since == 20.0
    assert dated(well, seen, 40.0).checks[4].since == 40.0


@given(st.lists(st.integers(0, 50), max_size=200), st.integers(0, 300))
def test_recent_counts_are_those_of_the_window(steps: list[int], ago_steps: int) -> None:
    """Within one step: what is older does not count, and nothing newer is left out."""
    recent, total, times = RecentCounts(), 0, list[tuple[float, int]]()
    for at, new in enumerate(steps):
        total += new
        times.append((at * STEP_S, new))
        recent.add(at * STEP_S, Counts(pages=total))
    now_s = max(0, len(steps) - 1) * STEP_S
    counted = recent.last(Counts(pages=total), now_s=now_s).pages
    exactly = sum(new for at_s, new in times if at_s > now_s - WINDOW_S)
    assert exactly <= counted or counted == exactly
    assert counted <= sum(new for at_s, new in times if at_s > now_s - WINDOW_S - STEP_S)


class _Stats:
    visited, blocked, failed, queued, hosts, body_bytes = 10_000, 0, 0, 5, 3, 0
    returned_at = None


async def test_an_outage_is_noticed_and_forgotten_again(hand: Hand) -> None:
    """From counters that only grow, over an hour of good requests, an outage and its end."""
    metrics = Metrics()
    monitor = HealthMonitor(hand, metrics)  # type: ignore[arg-type]
    config = from_dict({"storage": {"url": "sqlite:crawl.db"}})
    activity: Any = type("Now", (), {"state": CrawlState.RUNNING, "held": (), "uncommitted": 0})

    async def minutes(count: int, **outcome: Any) -> HealthState:
        for _ in range(count * 12):
            for _ in range(5):
                metrics.contacted(contact(**outcome))
            await monitor.sample(config, 0)
            hand.advance(STEP_S)
        return monitor.judged(activity, _Stats()).state  # type: ignore[arg-type]

    assert await minutes(60) is OK
    assert await minutes(1, status=None, error=FailureCode.CONNECT) is OK
    assert await minutes(2, status=None, error=FailureCode.CONNECT) is BAD
    assert await minutes(6) is OK


def test_hosts_that_responded_before_and_are_gone_are_those_of_the_queue(hand: Hand) -> None:
    monitor = HealthMonitor(hand, Metrics())  # type: ignore[arg-type]
    activity: Any = type("Now", (), {"state": CrawlState.RUNNING, "held": (), "uncommitted": 0})
    rows = [
        {"host": "", "reason": reason, "urls": 90, "hosts": 30, "first_at": 1.0, "last_at": 1.0,
         "through_at": 1.0, "visited_hosts": visited_hosts, "gone_hosts": gone_hosts}
        for reason, visited_hosts, gone_hosts in (("delay", 14, 1), ("unreachable", 6, 5))
    ]  # fmt: skip
    holds = queue_waits(rows, {}, overall=None, pages_per_s=0.0, now_s=hand.wall())
    (check, *_) = monitor.judged(activity, _Stats(), queue=holds).checks  # type: ignore[arg-type]
    assert check.sentence.startswith("6 of 20 hosts with queued URLs responded before")
    assert check.state is WARNING


async def test_outcomes_that_wait_are_noticed_until_they_are_committed(hand: Hand) -> None:
    monitor = HealthMonitor(hand, Metrics())  # type: ignore[arg-type]
    config = from_dict({"storage": {"url": "sqlite:crawl.db"}})
    await monitor.sample(config, 3)
    hand.advance(61)
    assert monitor.uncommitted_s() == 61
    monitor.committed(0.1, 3, 0)
    assert monitor.uncommitted_s() == 0
