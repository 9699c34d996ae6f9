"""The latest lines of the daemon's log."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

from crawler.config.sections import LogLevel
from crawler.daemon.list_responses import LogPage, LogRow
from crawler.daemon.monitoring.recent_log import ACTIONS, LogLine, RecentLog
from crawler.daemon.problem import Problem, invalid
from storage.paging import ROWS_MAX

ACTIONS_FILTER: Final = "actions"
LEVELS: Final = tuple(LogLevel)  # in the order of severity


class LogView:
    """The log of one daemon. file: the name of its file; "" for standard error."""

    def __init__(self, recent: RecentLog, file: str = "") -> None:
        self._recent = recent
        self.file = file

    async def lines(
        self,
        *,
        level: str = "",
        event: str = "",
        text: str = "",
        limit: int = ROWS_MAX,
        after: str = "",
    ) -> LogPage:
        """A page of lines, the newest first.

        level: the minimum. event: the name of an event, or "actions" for what operators did. text:
        part of the line as it was written, case ignored. after: from the page before.
        """
        if level not in ("", *LEVELS):
            raise invalid("level", f"must be one of {', '.join(LEVELS)}")
        if after and not (after.isascii() and after.isdigit() and len(after) < 19):
            raise Problem(422, "is not from a page of the log", field="after")
        levels = LEVELS[LEVELS.index(LogLevel(level)) :] if level else ()
        found = self._recent.lines(
            levels=levels,
            events=_names(event),
            text=text,
            before=int(after) if after else None,
        )
        lines = list(itertools.islice(found, limit + 1))
        more = len(lines) > limit
        return LogPage(
            lines=[_row(line) for line in lines[:limit]],
            after=str(lines[limit - 1].number) if more else None,
            kept=len(self._recent),
            written=self._recent.count,
        )

    def events(self) -> Sequence[str]:
        """The names of the events in the kept lines."""
        return self._recent.events()


def _names(event: str) -> Collection[str]:
    if event == ACTIONS_FILTER:
        return ACTIONS
    return (event,) if event else ()


def _row(line: LogLine) -> LogRow:
    values = json.loads(line.text)
    for name in ("at", "level", "event"):
        values.pop(name, None)
    at = datetime.fromisoformat(line.at).timestamp()
    return LogRow(number=line.number, at=at, level=line.level, event=line.event, values=values)
