"""Whatever number a site sends, what is stored can be read again, and means a wait."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from policies import robots, robots_state
from policies.pacing import (
    DELAY_S_MAX,
    PacingRules,
    RobotsPacing,
    address_delay_s,
    politeness_delay,
)
from policies.retries import RETRY_AFTER_S_MAX, retry_after_s
from policies.robots.dialects import DIALECTS
from policies.robots_state import RobotsFetch, RobotsRules, RobotsState
from storage.records import WAIT_S_MAX
from storage.store import HostClock
from tests.storage.conftest import Rig, selected

DIGITS = st.text("0123456789", min_size=1, max_size=6) | st.integers(1, 400).map("9".__mul__)
NUMBERS = (
    st.builds("{}.{}".format, DIGITS, DIGITS)
    | DIGITS
    | st.sampled_from(
        [
            "17976931348623157" + "0" * 292, "1e308", "1e400", "inf", "nan", "-1", "0",
            "." + "0" * 330 + "1", "0." + "0" * 14 + "1", "9" * 5_000, "1" + "0" * 308, "²", "١٢",
        ]
    )
)  # fmt: skip
UNITS = st.sampled_from(["", "s", "m", "h", "d", "x"])
NOW_S = 1_800_000_000.0


def paced(name: str, delay: str, pages: str, period: str, unit: str) -> robots.RuleSet:
    text = f"User-agent: *\nCrawl-delay: {delay}\nRequest-rate: {pages}/{period}{unit}\nDisallow:\n"
    return robots.parse(text.encode()).rule_set("x", name)


@settings(max_examples=300)
@given(st.sampled_from(sorted(DIALECTS)), NUMBERS, NUMBERS, NUMBERS, UNITS, st.booleans())
@example("slurp", "17976931348623157" + "0" * 292, "1", "1", "s", True)
@example("slurp", "1", "0." + "0" * 14 + "1", "9" * 300, "d", True)
def test_no_rest_is_longer_than_the_longest(
    name: str, delay: str, pages: str, period: str, unit: str, missing: bool
) -> None:
    policy = paced(name, delay, pages, period, unit)
    ask = RobotsPacing(
        crawl_delay_s=policy.crawl_delay_s, request_rate_s=policy.request_rate_s, missing=missing
    )
    for asked_s in (ask.crawl_delay_s, ask.request_rate_s):
        assert asked_s is None or 0 <= asked_s <= DELAY_S_MAX
    for slow_s in (None, 1e308, math.inf):
        for configured_s in (1.0, 1e308):
            rules = PacingRules(delay=configured_s)
            found_s = politeness_delay(rules, ask, latency_s=1e308, slow_s=slow_s).delay_s
            assert 0 <= found_s <= DELAY_S_MAX
    assert address_delay_s(PacingRules(ip_delay=1e308), ask) <= DELAY_S_MAX
    for finding in robots.lint(robots.parse(f"User-agent: *\nCrawl-delay: {delay}".encode())):
        assert len(str(finding)) < 1_000


@settings(max_examples=200)
@given(NUMBERS, NUMBERS, st.sampled_from([*DIALECTS]), st.sampled_from([200, 304, 404, 429, 503]))
def test_no_header_makes_a_time_without_measure(
    number: str, other: str, name: str, status: int
) -> None:
    assert 0 <= (retry_after_s(number, now_s=NOW_S) or 0.0) <= RETRY_AFTER_S_MAX
    for date in ("Fri, 31 Dec 9999 23:59:59 GMT", "Thu, 01 Jan 1970 00:00:00 GMT"):
        assert 0 <= (retry_after_s(date, now_s=NOW_S) or 0.0) <= RETRY_AFTER_S_MAX
        headers = {
            "retry-after": number,
            "cache-control": f"max-age={other}",
            "expires": date,
            "date": "Thu, 01 Jan 1970 00:00:00 GMT",
        }
        news = RobotsFetch(status=status, body=b"", headers=headers, url="http://a.test/robots.txt")
        known = RobotsState(status=200, body=b"", copy_at=NOW_S - 1, fetched_at=NOW_S - 1)
        learned = robots_state.next_state(
            known, news, now_s=NOW_S, rules=RobotsRules(dialect=(name,))
        )
        for at_s in (learned.expires_at, learned.retry_at):
            assert at_s is None or NOW_S - 1 <= at_s <= NOW_S + 31 * 86_400


CLOCKS = st.builds(
    HostClock,
    next_in_s=st.floats(0, allow_nan=False),
    delay_s=st.floats(0, allow_nan=False),
    backoff_in_s=st.floats(0, allow_nan=False),
)


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(clock=CLOCKS)
@example(HostClock(next_in_s=1e308 * 1.797, delay_s=math.inf, backoff_in_s=math.inf))
async def test_a_clock_without_measure_can_be_read_again(rig: Rig, clock: HostClock) -> None:
    await rig.add("http://a.test/", "http://a.test/2")
    lease = (await rig.store.acquire(rig.session, ["a.test"]))["a.test"]
    await rig.commit(lease, clock=clock, release=True)
    await rig.crash()
    lease = (await rig.store.acquire(rig.session, ["a.test"]))["a.test"]
    for bounded_s in (lease.clock.next_in_s, lease.clock.delay_s, lease.clock.backoff_in_s):
        assert 0 <= bounded_s <= WAIT_S_MAX + 1
    await rig.commit(lease, release=True)


@pytest.mark.parametrize("value", [1.7976931348623157e308, math.inf, 1e300])
async def test_a_database_that_holds_such_a_number_opens(rig: Rig, value: float) -> None:
    if rig.kind == "memory":
        pytest.skip("nothing of it lasts")
    await rig.add("http://a.test/", "http://b.test/")
    await selected(
        rig.store,
        "UPDATE slots SET next_at = :value, ready_at = :value, backoff_until = :value,"
        " rest_s = :value, backoff_s = :value, delay_s = :value, slow_s = :value,"
        " latency_s = :value WHERE name = 'a.test'",
        value=value,
    )
    await rig.store.close()
    rig.store = rig.make()
    await rig.open()
    assert [lease.slot for lease in await rig.claim()] == ["b.test"]
    outlook = await rig.store.outlook(rig.session)
    assert 0 < (outlook.claimable_in_s or 0.0) <= WAIT_S_MAX
    lease = (await rig.store.acquire(rig.session, ["a.test"]))["a.test"]
    assert 0 < lease.clock.next_in_s <= WAIT_S_MAX
    assert 0 < lease.clock.delay_s <= WAIT_S_MAX
    assert lease.slow_s is not None
    assert lease.slow_s <= WAIT_S_MAX
    assert len(await rig.rows("hosts")) == 2
