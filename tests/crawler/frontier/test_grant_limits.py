"""How many permits may be open: in all, in one pass of the event loop, and of one domain."""

from __future__ import annotations

from crawler.frontier.grant_limits import GrantLimits

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
