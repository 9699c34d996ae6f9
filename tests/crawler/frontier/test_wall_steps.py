"""The wall clock may be set at any time: no contact is early, and no visit window is missed."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawler.frontier.alarms import LOOK_S
from crawler.frontier.alarms import STEP_S as WALL_STEP_S
from crawler.testing import JumpClock
from policies.holds import HoldReason
from policies.pacing import PacingRules, RobotsPacing, Window
from storage.store import HostClock
from tests.crawler.frontier.rig import DrivenFrontier
from tests.crawler.frontier.test_permits import Crawlers, make_host

DAY_S = 86_400
NOTICED_S = 60.0  # by then a window that a step opened is made use of
RUN_S = 6 * 3_600.0
REST_S = 40.0


def opened(
    window: Window, wall_s: float, steps: list[tuple[float, float]], start_s: float
) -> list[tuple[float, float]]:
    """When the window was open, in times of the clock that is never set. A step within what counts
    for none does not make one anew."""
    edges = sorted({start_s, start_s + RUN_S, *(at_s for at_s, _ in steps)})
    spans: list[tuple[float, float]] = []
    for begin_s, end_s in itertools.pairwise(edges):
        ahead_s = wall_s - start_s + sum(by_s for at_s, by_s in steps if at_s <= begin_s)
        at_s = begin_s
        while at_s < end_s:
            shut_s = window.wait_s(at_s + ahead_s)
            if not shut_s:
                closing = Window(window.end_s, window.start_s)
                left_s = closing.wait_s(at_s + ahead_s) or DAY_S
                until_s = min(end_s, at_s + left_s)
                if spans and abs(spans[-1][1] - at_s) < 1e-6:
                    spans[-1] = (spans[-1][0], until_s)
                else:
                    spans.append((at_s, until_s))
                at_s = until_s + 1e-6
            else:
                at_s += shut_s
    return spans


STEPS = st.lists(
    st.tuples(
        st.floats(0, RUN_S),
        st.floats(-2 * DAY_S, 2 * DAY_S).filter(lambda by_s: abs(by_s) > WALL_STEP_S + 1),
    ),
    max_size=5,
).map(sorted)


@settings(max_examples=12, deadline=None)
@given(
    start=st.integers(0, 1_439),
    length=st.integers(3, 1_400),
    wall_s=st.floats(0, DAY_S),
    steps=STEPS,
    promised=st.lists(st.floats(0, 3_600), max_size=1),
    by_robots=st.booleans(),
)
@example(start=600, length=60, wall_s=0, steps=[(100, 36_100)], promised=[], by_robots=False)
@example(start=600, length=60, wall_s=0, steps=[(5, 36_100)], promised=[300], by_robots=True)
@example(start=600, length=60, wall_s=36_000, steps=[(99, -9e4)], promised=[], by_robots=True)
def test_no_contact_is_early_and_no_window_missed(
    start: int,
    length: int,
    wall_s: float,
    steps: list[tuple[float, float]],
    promised: list[float],
    by_robots: bool,
) -> None:
    window = Window(start * 60, (start + length) * 60 % DAY_S)
    wall_s += 1_700_006_400  # a midnight

    async def run() -> None:
        async with JumpClock(wall_s=wall_s) as clock:
            start_s = clock.monotonic()
            driven = DrivenFrontier(clock, limit=4)
            crawlers = Crawlers(clock, driven)
            own = None if by_robots else window
            rules = PacingRules(delay=REST_S, latency_factor=0, visit_window=own)
            host = make_host(clock, pages=2_000, rules=rules)
            if by_robots:
                host.pace.set_ask("http://a.test", RobotsPacing(windows=(window,)))
            for rest_s in promised:
                host.pace.answered(503, refusal=True, asked_s=rest_s, now_s=start_s)
            driven.permits.register(host)
            work = asyncio.create_task(crawlers.work())
            times = [(start_s + at_s, by_s) for at_s, by_s in steps]
            for at_s, by_s in times:
                await clock.sleep_until(at_s)
                clock.set_wall(by_s)
            await clock.sleep_until(start_s + RUN_S)
            driven.close()
            await work
            log = [begin_s for begin_s, _ in sorted(crawlers.log.get("a.test", []))]
            assert all(gap_s >= REST_S - 1e-6 for gap_s in crawlers.gaps("a.test") if log)
            free_s = start_s + max(promised, default=0.0)
            spans = opened(window, wall_s, times, start_s)
            for begin_s in log:
                assert begin_s >= free_s
                stepped = any(abs(begin_s - at_s) < 1e-3 for at_s, _ in times)  # at that instant
                assert stepped or any(a - 1e-3 <= begin_s <= b + 1e-3 for a, b in spans)
            for a, b in spans:
                a = max(a, free_s)
                if b - a > NOTICED_S + 2 * REST_S:
                    due_s = a + NOTICED_S + REST_S
                    assert any(a - REST_S <= begin_s <= due_s for begin_s in log)

    asyncio.run(run())


async def test_who_asks_for_the_next_contact_hears_of_a_step() -> None:
    """Without waiting for the next look at the wall clock: a crawl could have ended by then."""
    window = Window(10 * 3_600, 11 * 3_600)
    async with JumpClock(wall_s=1_700_006_400) as clock:
        driven = DrivenFrontier(clock, limit=4)
        kept = HostClock(next_in_s=9e9, rested_s=3.0, delay_s=5.0)
        driven.permits.register(make_host(clock, "b.test", kept=kept))
        assert driven.permits.wake_at() == clock.monotonic() + 9e9
        rules = PacingRules(delay=REST_S, latency_factor=0, visit_window=window)
        host = make_host(clock, pages=3, rules=rules)
        driven.permits.register(host)
        assert driven.permits.wake_at() == clock.monotonic() + LOOK_S
        driven.permits.stop(HoldReason.NETWORK)
        assert driven.permits.wake_at() == clock.monotonic() + LOOK_S
        driven.pause()
        assert driven.permits.wake_at() is None
        driven.permits.go(HoldReason.NETWORK)
        driven.resume()
        driven.permits.consider(host)
        assert (driven.permits.next_at() or 0) - clock.monotonic() > 9 * 3_600
        clock.set_wall(10 * 3_600 - 5)
        assert (driven.permits.next_at() or 0) - clock.monotonic() == pytest.approx(5, abs=0.1)
        asked = driven.permits.for_any_host()
        clock.set_wall(60)
        driven.permits.next_at()
        assert asked.done
        driven.close()
