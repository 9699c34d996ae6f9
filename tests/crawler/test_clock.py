"""The real clock on every event loop that the command may use."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Callable

import pytest

from crawler.clock import RealClock

LOOPS = ["asyncio", *(["uvloop"] if importlib.util.find_spec("uvloop") else [])]
TICK_S = 1e-6


@pytest.fixture(params=LOOPS)
def loop_factory(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    if request.param == "asyncio":
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop


def test_now_is_now(loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Law 1 (docs/laws.md): the end of a contact must not get a time from before it. uvloop's
    `loop.time()` is rounded down to milliseconds and may be stale."""

    async def look() -> None:
        clock = RealClock()
        for _ in range(5):
            until_s = time.monotonic() + 0.0031
            while time.monotonic() < until_s:
                pass
            before_s = time.monotonic()
            assert clock.monotonic() >= before_s - TICK_S
            assert clock.monotonic() <= time.monotonic() + TICK_S
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(look())


def test_nothing_is_called_before_its_time(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def wait() -> None:
        clock = RealClock()
        early_s: list[float] = []

        def timer(when_s: float) -> Callable[[], None]:
            return lambda: early_s.append(when_s - time.monotonic())

        start_s = time.monotonic()
        times = [start_s + 0.01 + n * 0.00037 for n in range(100)]
        for when_s in times:
            clock.call_at(when_s, timer(when_s))
        await asyncio.gather(*(clock.sleep_until(when_s) for when_s in times))
        assert time.monotonic() >= times[-1] - TICK_S
        await clock.sleep_until(times[-1] + 0.005)
        assert len(early_s) == len(times)
        assert max(early_s) <= TICK_S

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(wait())
