"""A frontier with its command loop and nothing else: for tests of permits, holds and robots.txt."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from crawler.config import from_dict
from crawler.config.model import CurrentConfig
from crawler.frontier.commands import Command
from crawler.frontier.frontier import Frontier
from crawler.frontier.host_queue import HostQueue, Permit
from crawler.frontier.stops import BY_OPERATOR
from crawler.frontier.tickets import FrontierClosedError, Ticket
from crawler.scheduling.contact_loop import commands_of
from crawler.scheduling.task_set import TaskSet
from storage.sqlite import memory_store

if TYPE_CHECKING:
    from crawler.testing import JumpClock


class DrivenFrontier:
    """Time passes for the frontier, and its commands are gathered in `commands`."""

    def __init__(self, clock: JumpClock, *, limit: int = 8) -> None:
        self.clock = clock
        store = memory_store(wall=clock.wall, monotonic=clock.monotonic)
        self.frontier = Frontier(CurrentConfig(from_dict({})), clock, store)
        self.permits = self.frontier.permits
        self.permits.set_limit(limit)
        self.holds = self.frontier.holds
        self.commands: list[Command] = []
        self.loop = asyncio.create_task(self._run())

    async def _run(self) -> None:
        tasks = TaskSet(self.frontier.commands)
        async with contextlib.aclosing(commands_of(self.frontier, self.clock, tasks)) as commands:
            async for command in commands:
                self.commands.append(command)

    async def next(self) -> Permit | None:
        """As a worker asks; None: there will be no more."""
        return await self._wait(self.permits.for_any_host(), None)

    async def acquire(self, host: HostQueue) -> Permit:
        """As those ask who need this host. Raises FrontierClosedError."""
        granted = self.permits.for_host(host)
        if isinstance(granted, Permit):
            return granted
        permit = await self._wait(granted, host)
        if permit is None:
            raise FrontierClosedError("turned away")
        return permit

    async def _wait(self, ticket: Ticket[Permit], host: HostQueue | None) -> Permit | None:
        try:
            return await ticket.wait()
        except FrontierClosedError:
            return None
        except BaseException:
            self.permits.withdraw(ticket, host)
            raise

    def pause(self) -> None:
        self.permits.stop(BY_OPERATOR)

    def resume(self) -> None:
        self.permits.go(BY_OPERATOR)

    def close(self) -> None:
        self.frontier.close()
