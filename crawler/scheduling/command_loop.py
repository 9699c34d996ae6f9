"""Runs a frontier: lets time pass for it, and returns its commands."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator

from crawler.clock import Clock, Timer
from crawler.frontier.commands import NEXT_PASS, Command
from crawler.frontier.frontier import Frontier
from crawler.scheduling.task_set import TaskSet


async def commands_of(
    frontier: Frontier, clock: Clock, tasks: TaskSet
) -> AsyncGenerator[Command, None]:
    """Yield the frontier's commands as they arrive. Raises the first failure of `tasks`."""
    timer: Timer | None = None
    timer_s: float | None = None
    try:
        while True:
            frontier.advance()
            taken = frontier.commands.take()
            for command in taken:
                yield command
            if tasks.failure is not None:
                raise tasks.failure
            if NEXT_PASS in taken:
                await asyncio.sleep(0)
                frontier.next_pass()
                continue
            at_s = frontier.next_wake_s()
            if at_s != timer_s:
                if timer is not None:
                    timer.cancel()
                timer = None if at_s is None else clock.call_at(at_s, frontier.commands.wake)
                timer_s = at_s
            frontier.commands.sleep_until(math.inf if at_s is None else at_s)
            await frontier.commands.wait()
    finally:
        if timer is not None:
            timer.cancel()
