"""How many permits may be open: in all, in one pass of the event loop, and of one domain."""

from __future__ import annotations

from crawler.frontier.crowd_pace import PASS_LONG_S
from crawler.frontier.grant_limits import (
    BEHIND_S,
    PASS_BEHIND_MAX,
    PASS_MAX,
    UNPARSED_OF_DOMAIN,
    GrantLimits,
)

LIMIT = 64
NOW_S = 10.0
TRAP, OTHER = "trap.test", "other.test"


def limits_of(*domains: str) -> GrantLimits:
    """With a host of each of these domains in memory."""
    limits = GrantLimits(LIMIT)
    for domain in domains:
        limits.domains.add(domain)
    return limits


def fill(limits: GrantLimits, domain: str) -> int:
    """Open as many permits of a domain as it may have. Returns how many were opened."""
    opened = 0
    while limits.open < LIMIT and limits.allow_domain(domain, NOW_S):
        limits.begin(domain)
        opened += 1
    return opened


def test_a_domain_leaves_as_many_permits_as_it_has() -> None:
    limits = limits_of(TRAP, TRAP, "trap2.test", "trap2.test", OTHER)
    assert fill(limits, TRAP) == LIMIT / 2
    assert fill(limits, "trap2.test") == LIMIT / 4
    assert limits.allow_domain(OTHER, NOW_S)
    for _ in range(4):
        limits.end(TRAP)
    assert not limits.allow_domain(TRAP, NOW_S)  # it has 28, and 20 are left


def test_the_only_domain_has_all_permits() -> None:
    limits = limits_of(TRAP, TRAP)
    assert fill(limits, TRAP) == LIMIT
    limits.domains.add(OTHER)
    assert not limits.allow_domain(TRAP, NOW_S)
    limits.domains.remove(OTHER)
    assert limits.allow_domain(TRAP, NOW_S)


def test_the_only_host_of_its_domain_is_bounded_by_its_lanes() -> None:
    limits = limits_of(TRAP, OTHER)
    assert fill(limits, TRAP) == LIMIT


def test_each_domain_may_have_one() -> None:
    for domain in [TRAP, OTHER]:
        limits = limits_of(TRAP, TRAP, OTHER, OTHER)
        for n in range(LIMIT - 1):
            limits.begin(f"d{n}.test")
        assert limits.allow_domain(domain, NOW_S)


def test_a_domain_whose_pages_wait_to_be_parsed_waits() -> None:
    limits = limits_of(TRAP, TRAP, OTHER)
    for _ in range(3):
        limits.count_unparsed(TRAP, 0.1)
    assert not limits.allow_domain(TRAP, NOW_S)
    assert limits.allow_domain(OTHER, NOW_S)
    limits.count_unparsed(TRAP, -0.1)
    assert limits.allow_domain(TRAP, NOW_S)


def test_a_squeezed_limit_is_doubled_until_it_is_the_configured_one() -> None:
    limits = limits_of(TRAP)
    for squeeze_to, open_max in ((100, LIMIT), (20, 20), (30, 20), (0, 1), (-5, 1)):
        limits.squeeze(squeeze_to)
        assert (fill_all(limits), limits.squeezed) == (open_max, open_max < LIMIT), squeeze_to
    for open_max in (2, 4, 8, 16, 32, 64, 64):
        limits.ease()
        assert (fill_all(limits), limits.squeezed) == (open_max, open_max < LIMIT)
    limits.squeeze(40)
    limits.ease()
    assert (fill_all(limits), limits.squeezed) == (LIMIT, False)
    limits.squeeze(1)
    limits.set(5)
    assert (fill_all(limits), limits.squeezed) == (5, False)
    limits.set(6)
    limits.ease()
    assert fill_all(limits) == 6


def fill_all(limits: GrantLimits) -> int:
    """Return how many permits may be open, and end them again."""
    while limits.allow:
        limits.begin(TRAP)
    opened = limits.open
    for _ in range(opened):
        limits.end(TRAP)
    return opened


def test_permits_of_one_pass_are_few_unless_hosts_are_late() -> None:
    limits = limits_of(TRAP)
    for late_s, most in (
        (0.0, PASS_MAX),
        (BEHIND_S, PASS_MAX),
        (BEHIND_S + 0.001, PASS_BEHIND_MAX),
        (0.0, PASS_MAX),
    ):
        for n in range(most):
            assert limits.allow
            assert limits.count_in_pass(late_s if n == 0 else 0.0, NOW_S) is (n == 0)
        assert not limits.allow
        limits.next_pass(NOW_S)
    for length_s, spaced in ((PASS_LONG_S / 2, False), (2 * PASS_LONG_S, True)):
        limits.count_in_pass(0.0, NOW_S)
        limits.next_pass(NOW_S + length_s)
        assert (limits.load.interval_s > 0) is spaced
    limits.count_in_pass(0.0, NOW_S)
    for _ in range(PASS_MAX - 1):  # only the first of a pass shows by how much we are late
        limits.count_in_pass(1.0, NOW_S)
    assert not limits.allow


def test_what_waits_to_be_parsed_is_counted_by_domain_and_forgotten() -> None:
    limits = limits_of(TRAP, TRAP, OTHER, OTHER, "alone.test")
    limits.count_unparsed("alone.test", 1.0)
    assert limits.allow_domain("alone.test", NOW_S)  # its lanes bound it
    limits.count_unparsed(TRAP, UNPARSED_OF_DOMAIN)
    assert limits.allow_domain(TRAP, NOW_S)
    limits.count_unparsed(TRAP, 0.01)
    limits.count_unparsed(OTHER, 0.1)
    assert not limits.allow_domain(TRAP, NOW_S)
    limits.count_unparsed(TRAP, -UNPARSED_OF_DOMAIN - 0.01)
    limits.count_unparsed(TRAP, UNPARSED_OF_DOMAIN)
    assert limits.allow_domain(TRAP, NOW_S)
    limits.without_place[TRAP] += 1
    assert not limits.allow_domain(TRAP, NOW_S)
    assert limits.allow_domain(OTHER, NOW_S)
    limits.without_place["alone.test"] += 1
    assert not limits.allow_domain("alone.test", NOW_S)


def test_a_domain_regains_what_its_ended_permits_left() -> None:
    limits = limits_of(TRAP, TRAP, OTHER)
    for _ in range(2):
        assert fill(limits, TRAP) == LIMIT / 2
        for _ in range(LIMIT // 2):
            limits.end(TRAP)
        assert limits.open == 0
        assert not limits._open_of  # only domains with open permits are remembered
    limits.set(3)
    assert fill(limits, TRAP) == 2
