"""A fault in a task beside the crawl ends it only if it comes again and again."""

from __future__ import annotations

import pytest

from crawler.periodic import FAILURES_MAX, PeriodicSteps


async def test_a_step_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    steps, outcomes = PeriodicSteps("the renewal"), [RuntimeError("once"), 1, KeyError("x"), 2]

    async def step() -> int:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        assert isinstance(outcome, int)
        return outcome

    assert [await steps.take(step) for _ in range(4)] == [None, 1, None, 2]
    assert caplog.text.count("the renewal failed, and is tried again") == 2


async def test_one_that_fails_each_time_is_raised() -> None:
    steps = PeriodicSteps("the renewal")

    async def step() -> None:
        raise RuntimeError("always")

    for _ in range(FAILURES_MAX - 1):
        await steps.take(step)
    with pytest.raises(RuntimeError, match="always"):
        await steps.take(step)
