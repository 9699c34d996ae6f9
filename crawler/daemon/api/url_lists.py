"""Lists of URLs by state, of seeds, and of the latest lines of the daemon's log."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Final

from crawler.config.sections import LogLevel
from crawler.daemon.list_responses import (
    FailureCount,
    Failures,
    LogPage,
    LogRow,
    SeedRow,
    SeedsPage,
    SkippedLinks,
    SkippedRow,
    UrlsPage,
)
from crawler.daemon.monitoring.recent_log import ACTIONS, LogLine, RecentLog
from crawler.daemon.problem import Problem, as_problems, invalid
from crawler.daemon.responses import flag, from_row
from crawler.explain.sentences import skip_words
from crawler.steering.execution import stored_name
from storage.paging import ROWS_MAX
from storage.read_records import UrlFilter, UrlList
from storage.reader import Reader

SEED_STATES: Final = ("queued", "visited", "blocked", "failed", "sitemap", "skipped")
URL_STATES: Final = tuple(one.value for one in UrlList)
ACTIONS_FILTER: Final = "actions"
LEVELS: Final = tuple(LogLevel)  # in the order of severity


class UrlLists:
    """The lists of one running crawl."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def urls(
        self,
        *,
        state: str,
        host: str = "",
        text: str = "",
        code: str = "",
        status: int | None = None,
        limit: int = ROWS_MAX,
        after: str = "",
    ) -> UrlsPage:
        """A page of URLs in a state (one of URL_STATES), those found last first.

        text: part of the URL, case ignored. code: with which they failed; status: with which they
        were answered. after: from the page before, with the other arguments unchanged."""
        if state not in URL_STATES:
            raise invalid("state", f"must be one of {', '.join(URL_STATES)}")
        _only("code", bool(code), state, UrlList.FAILED)
        _only("status", status is not None, state, UrlList.VISITED)
        with as_problems():
            slot = await stored_name(self._reader, host) if host else None
        wanted = UrlFilter(
            state=UrlList(state),
            host=slot,
            text=text,
            code=code,
            status=status,
        )
        try:
            page = await self._reader.urls_page(wanted, limit=limit, after=after)
        except ValueError as error:
            raise Problem(422, str(error), field="after") from None
        rows = [{name: flag(name, value) for name, value in row.items()} for row in page.rows]
        return UrlsPage(urls=rows, after=page.after)

    async def failures(self) -> Failures:
        """The failed URLs by code."""
        codes = await self._reader.failures_by_code()
        return Failures(codes=[FailureCount(code=code, urls=urls) for code, urls in codes.items()])

    async def skipped(self) -> SkippedLinks:
        """The skipped links by reason."""
        async with aclosing(self._reader.iterate("skipped")) as rows:
            found = [row async for row in rows]
        listed = [from_row(SkippedRow, row, words=skip_words(str(row["reason"]))) for row in found]
        return SkippedLinks(skipped=sorted(listed, key=lambda row: -row.count))

    async def seeds(
        self, *, text: str = "", state: str = "", limit: int = ROWS_MAX, after: str = ""
    ) -> SeedsPage:
        """A page of seeds, those added last first. state: one of SEED_STATES, or "" for any."""
        if state not in ("", *SEED_STATES):
            raise invalid("state", f"must be one of {', '.join(SEED_STATES)}")
        try:
            page = await self._reader.seeds_page(text=text, state=state, limit=limit, after=after)
        except ValueError as error:
            raise Problem(422, str(error), field="after") from None
        return SeedsPage(seeds=[from_row(SeedRow, row) for row in page.rows], after=page.after)


def _only(field: str, given: bool, state: str, of: UrlList) -> None:
    if given and state != of:
        raise invalid(field, f"applies only to {of} URLs")


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
