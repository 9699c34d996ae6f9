"""While the event loop is late, a domain with several hosts begins requests at intervals."""

from __future__ import annotations

import math

from crawler.frontier.crowd_pace import (
    COMMIT_LONG_S,
    INTERVAL_S_MAX,
    PASS_LONG_S,
    STARTS_MAX,
    LoopLoad,
    SpacedStarts,
)
from crawler.frontier.grant_limits import GrantLimits
from crawler.leased_domains import LeasedDomains

TRAP, OTHER = "trap.test", "other.test"
NOW_S = 10.0


def load_of(*domains: str) -> LoopLoad:
    """With a host of each of these domains in memory."""
    held = LeasedDomains()
    for domain in domains:
        held.add(domain)
    return LoopLoad(held)


def begun(starts: SpacedStarts, domain: str, for_s: float) -> int:
    """How many requests the domain may begin in this time, if it always has one."""
    count, now_s = 0, NOW_S
    while now_s < NOW_S + for_s:
        if starts.allow(domain, now_s):
            starts.began(domain, now_s)
            count += 1
        now_s += 0.001
    return count


def test_nothing_is_spaced_while_passes_are_short() -> None:
    load = load_of(TRAP, TRAP, OTHER)
    for _ in range(100):
        load.passed(PASS_LONG_S)
    assert begun(SpacedStarts(load), TRAP, 0.1) >= 100


def test_long_passes_space_the_requests_of_a_domain_until_they_are_short_again() -> None:
    load = load_of(TRAP, TRAP, OTHER)
    starts = SpacedStarts(load)
    for _ in range(100):
        load.passed(2 * PASS_LONG_S)
    assert load.interval_s == INTERVAL_S_MAX
    assert begun(starts, TRAP, 10.0) in (40, 41)
    assert begun(starts, OTHER, 0.1) >= 100  # its only host has its own pace
    for _ in range(200):
        load.passed(PASS_LONG_S / 2)
    assert load.interval_s == 0.0
    assert begun(starts, TRAP, 0.1) >= 100


def test_the_only_domain_is_not_spaced() -> None:
    load = load_of(TRAP, TRAP)
    load.passed(1.0)
    starts = SpacedStarts(load)
    starts.began(TRAP, NOW_S)
    assert starts.allow(TRAP, NOW_S)
    load.domains.add(OTHER)
    assert not starts.allow(TRAP, NOW_S)


def test_it_is_known_when_a_refused_domain_is_next() -> None:
    load = load_of(TRAP, TRAP, OTHER)
    load.passed(1.0)
    starts = SpacedStarts(load)
    starts.began(TRAP, NOW_S)
    assert starts.refused_until_s == math.inf
    assert not starts.allow(TRAP, NOW_S)
    assert starts.refused_until_s == NOW_S + load.interval_s
    assert starts.allow(TRAP, starts.refused_until_s)
    starts.look()
    assert starts.refused_until_s == math.inf


def test_old_requests_are_forgotten() -> None:
    load = load_of(TRAP, TRAP, OTHER)
    load.passed(1.0)
    starts = SpacedStarts(load)
    for n in range(3 * STARTS_MAX):
        starts.began(f"d{n}.test", NOW_S + n * INTERVAL_S_MAX / 100)
    assert len(starts._began_s) <= STARTS_MAX


def test_permits_for_pages_follow_the_length_of_passes() -> None:
    for length_s in [PASS_LONG_S / 2, 2 * PASS_LONG_S]:
        limits = GrantLimits(64)
        for domain in (TRAP, TRAP, OTHER):
            limits.domains.add(domain)
        limits.count_in_pass(0.0, NOW_S)
        limits.next_pass(NOW_S + length_s)
        limits.pages.began(TRAP, NOW_S)
        assert limits.allow_domain(TRAP, NOW_S) is (length_s <= PASS_LONG_S)
        assert limits.allow_domain(OTHER, NOW_S), length_s


def test_long_commits_space_requests_as_long_passes_do() -> None:
    load = load_of(TRAP, TRAP, OTHER)
    load.committed(0.001)
    load.committed(COMMIT_LONG_S)
    assert load.interval_s == 0.0
    load.committed(1.1 * COMMIT_LONG_S)
    slightly_s = load.interval_s
    assert 0.0 < slightly_s < 0.002
    for _ in range(4):
        load.committed(10 * COMMIT_LONG_S)
    assert load.interval_s == INTERVAL_S_MAX
    for _ in range(1_000):
        load.passed(PASS_LONG_S / 2)  # the loop is idle because the store is not
    assert load.interval_s == INTERVAL_S_MAX
    for _ in range(30):
        load.committed(COMMIT_LONG_S / 2)
    assert load.interval_s == 0.0


def test_a_store_that_is_always_slow_spaces_nothing() -> None:
    """Whatever its links, no domain makes it so."""
    for usual_s in [0.02, 0.2]:
        load = load_of(TRAP, TRAP, OTHER)
        for n in range(200):
            load.committed(usual_s + n % 10 * COMMIT_LONG_S / 10)
            assert load.interval_s == 0.0, usual_s
        for _ in range(8):
            load.committed(usual_s + 5 * COMMIT_LONG_S)
        assert load.interval_s > 0.1, usual_s
