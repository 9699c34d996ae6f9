"""Commands of the frontier for work that takes time; the scheduler carries them out."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from crawler.frontier.host_queue import HostQueue
    from crawler.frontier.origin import Origin


class FetchRobots(Struct, frozen=True):
    """Fetch the origin's robots.txt, then call `Frontier.robots_settled`."""

    origin: Origin


class ParseRobots(Struct, frozen=True):
    """Parse the large robots.txt files of the origin's host in a thread, then call
    `Frontier.robots_settled`."""

    origin: Origin


class Rejudge(Struct, frozen=True):
    """Judge the origin's fetched and blocked URLs again by its current robots.txt."""

    origin: str


class RejudgeMarked(Struct, frozen=True):
    """Judge again the origins that the store has marked for it."""


class FailOrigin(Struct, frozen=True):
    """No connection to the origin can be made: fail its queued URLs in bulk."""

    host: HostQueue
    origin: str
    error: str
    attempts: int


class Commit(Struct, frozen=True):
    """Commit the contents of the commit buffer."""


class LookForWork(Struct, frozen=True):
    """Something happened that may let hosts be claimed, or end the crawl."""


class NextPass(Struct, frozen=True):
    """Let the event loop run once, then call `Frontier.next_pass`."""


class AddWorkers(Struct, frozen=True):
    """A worker waits with its page: let others use the permits meanwhile."""


class ConfigApplied(Struct, frozen=True):
    """A new config is in force: adjust whatever depends on it."""


class BreakOff(Struct, frozen=True):
    """The leases have expired: break off the requests in flight."""


# About the pages of a crawl; a session of callers ignores them.
WorkCommand: TypeAlias = (
    Rejudge | RejudgeMarked | FailOrigin | LookForWork | AddWorkers | ConfigApplied
)
Command: TypeAlias = FetchRobots | ParseRobots | Commit | NextPass | BreakOff | WorkCommand

COMMIT: Final = Commit()
LOOK_FOR_WORK: Final = LookForWork()
NEXT_PASS: Final = NextPass()
ADD_WORKERS: Final = AddWorkers()
CONFIG_APPLIED: Final = ConfigApplied()
BREAK_OFF: Final = BreakOff()


class CommandQueue:
    """Queues commands in order, and the time until which the scheduler may sleep.

    The frontier calls `put` and `wake_by`; the scheduler calls `take`, `sleep_until` and `wait`.
    """

    def __init__(self) -> None:
        self._commands: list[Command] = []
        self._once: set[Command] = set()
        self._woken = asyncio.Event()
        self._asleep_until_s = -math.inf

    def put(self, command: Command) -> None:
        self._commands.append(command)
        self._woken.set()

    def put_once(
        self, command: Commit | LookForWork | NextPass | AddWorkers | ConfigApplied
    ) -> None:
        """Add a command as `put` does, unless the same one is still to be carried out."""
        if command not in self._once:
            self._once.add(command)
            self.put(command)

    @property
    def has_tasks(self) -> bool:
        """Whether a queued command begins a task."""
        return len(self._commands) > len(self._once)

    def take(self) -> list[Command]:
        """Remove and return all commands."""
        commands, self._commands = self._commands, []
        self._once.clear()
        return commands

    def wake_by(self, at_s: float) -> None:
        """Wake the scheduler no later than `at_s` (monotonic seconds)."""
        if at_s < self._asleep_until_s:
            self._asleep_until_s = at_s
            self._woken.set()

    def sleep_until(self, at_s: float) -> None:
        """The scheduler has set its timer for `at_s`."""
        self._asleep_until_s = at_s

    def wake(self) -> None:
        """Wake the scheduler: its timer has fired, or it must end."""
        self._asleep_until_s = -math.inf
        self._woken.set()

    async def wait(self) -> None:
        """Return when there is a command, or an earlier time to wake."""
        await self._woken.wait()
        self._woken.clear()
