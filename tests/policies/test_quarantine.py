"""A robots.txt that was in flight at two deaths opens nothing."""

from __future__ import annotations

from policies import robots_policy, robots_state
from policies.quarantine import died_with, is_quarantined, is_suspect, released
from policies.robots import DIALECTS
from policies.robots_policy import Closed, Unknown
from policies.robots_state import (
    QUARANTINE_S,
    UNKNOWN,
    RobotsFetch,
    RobotsRules,
    RobotsState,
    Unreachable,
)
from tests.tables import each

NOW_S = 1_800_000_000.0
COPY = RobotsState(
    status=200, body=b"User-agent: *\nAllow: /\n", copy_at=NOW_S - 9, fetched_at=NOW_S - 9,
    expires_at=NOW_S + 9,
)  # fmt: skip
ABSENT = RobotsState(status=404, fetched_at=NOW_S - 9, expires_at=NOW_S + 9)
DOWN = RobotsState(
    failures=3, unreachable_since=NOW_S - 90 * 86_400, retry_at=NOW_S + 9, error="dns: x"
)


@each("known", [UNKNOWN, COPY, ABSENT, DOWN])
@each("dialect", DIALECTS)
@each("unreachable", [None, *Unreachable])
def test_nothing_opens_what_is_quarantined(
    known: RobotsState, dialect: str, unreachable: Unreachable | None
) -> None:
    rules = RobotsRules(dialect=(dialect,), unreachable=unreachable)
    once = died_with(known, now_s=NOW_S)
    twice = died_with(once, now_s=NOW_S + 60)
    assert is_suspect(once)
    assert not is_quarantined(once)
    assert robots_state.is_due(once, NOW_S) or known is DOWN
    assert type(robots_policy.robots_policy(once, now_s=NOW_S, rules=rules)) is type(
        robots_policy.robots_policy(known, now_s=NOW_S, rules=rules)
    )
    for now_s in (NOW_S + 60, NOW_S + 60 + QUARANTINE_S / 2, NOW_S + 59 + QUARANTINE_S):
        standing = robots_policy.robots_policy(twice, now_s=now_s, rules=rules)
        assert isinstance(standing, Closed)
        assert "quarantined: the process ended twice" in standing.reason
        assert standing.until_s == twice.retry_at
        assert not robots_state.is_due(twice, now_s)
    assert robots_state.is_due(twice, NOW_S + 60 + QUARANTINE_S)
    again = died_with(twice, now_s=NOW_S + 60 + QUARANTINE_S)
    assert is_quarantined(again)
    assert again.unreachable_since == twice.unreachable_since


@each("status", [200, 404, 503, None])
def test_an_answer_ends_all_suspicion(status: int | None) -> None:
    rules = RobotsRules()
    news = RobotsFetch(
        status=status, body=b"" if status == 200 else None, url="http://a.test/robots.txt"
    )
    for known in (died_with(COPY, now_s=NOW_S), released(_twice(COPY), now_s=NOW_S)):
        learned = robots_state.next_state(known, news, now_s=NOW_S + 1, rules=rules)
        assert not is_suspect(learned)


def test_what_is_released_is_due_and_no_suspect() -> None:
    free = released(_twice(UNKNOWN), now_s=NOW_S)
    assert robots_state.is_due(free, NOW_S)
    assert not is_suspect(free)
    assert free.unreachable_since is not None  # what it brings is late (law 4)


def test_the_unknown_is_still_asked_for_after_one_death() -> None:
    once = died_with(UNKNOWN, now_s=NOW_S)
    assert isinstance(robots_policy.robots_policy(once, now_s=NOW_S, rules=RobotsRules()), Unknown)
    assert robots_state.is_due(once, NOW_S)


def _twice(known: RobotsState) -> RobotsState:
    return died_with(died_with(known, now_s=NOW_S), now_s=NOW_S)
