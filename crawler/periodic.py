"""Steps of tasks that run beside a crawl for as long as it does: one that fails is tried again."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

FAILURES_MAX: Final = 3  # in a row; a step that fails every time is a bug, or a broken store

_log = logging.getLogger("courtly.faults")


class PeriodicSteps:
    """Runs the steps of one task, and counts failures in a row. what: the task, for the log."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._failures = 0

    @property
    def failing(self) -> bool:
        """Whether the last step failed."""
        return self._failures > 0

    async def take(self, step: Callable[[], Awaitable[T]]) -> T | None:
        """Return what `step` does; None if it failed, and the next one may succeed. Raises what it
        raises at the last of FAILURES_MAX failures in a row."""
        try:
            result = await step()
        except Exception as error:
            self._failures += 1
            if self._failures >= FAILURES_MAX:
                raise
            _log.warning("%s failed, and is tried again: %r", self._what, error)
            return None
        self._failures = 0
        return result
