"""Lists of URLs by state, and what can be done with failed ones."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

from crawler.daemon.api.host_names import stored_name
from crawler.daemon.api.pending_commands import in_time
from crawler.daemon.list_responses import (
    FailedDropped,
    FailureCount,
    Failures,
    SeedRow,
    SeedsPage,
    SkippedLinks,
    SkippedRow,
    UrlsPage,
)
from crawler.daemon.monitoring.event_stream import EventStream
from crawler.daemon.problem import Problem, invalid
from crawler.daemon.responses import Retried, flag, from_row
from crawler.explain.sentences import skip_words
from crawler.steering.control import Control
from storage.paging import ROWS_MAX
from storage.read_records import UrlFilter, UrlList
from storage.reader import Reader

SEED_STATES: Final = ("queued", "visited", "blocked", "failed", "sitemap", "skipped")
URL_STATES: Final = tuple(one.value for one in UrlList)


class UrlLists:
    """The lists of one running crawl."""

    def __init__(self, control: Control, reader: Reader, *, stream: EventStream) -> None:
        self._control = control
        self._reader = reader
        self._stream = stream

    # ------------------------------------------------------------ queries

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
        wanted = UrlFilter(
            state=UrlList(state),
            host=await stored_name(self._reader, host) if host else None,
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

    # ------------------------------------------------------------ commands

    async def retry(self, host: str | None = None, code: str | None = None) -> Retried:
        """Queue failed URLs again, of one host or error code, or all."""
        slot = None if host is None else await stored_name(self._reader, host)
        count = await in_time(self._control, self._control.retry_failed(slot, code))
        self._stream.change("retry", host=slot, code=code, retried=count)
        return Retried(retried=count)

    async def drop(self, host: str | None = None, code: str | None = None) -> FailedDropped:
        """Drop failed URLs, of one host or error code, or all: they are counted as skipped, and a
        later link queues them again."""
        slot = None if host is None else await stored_name(self._reader, host)
        count = await in_time(self._control, self._control.drop_failed(slot, code))
        self._stream.change("drop", host=slot, code=code, dropped=count)
        return FailedDropped(dropped=count)


def _only(field: str, given: bool, state: str, of: UrlList) -> None:
    if given and state != of:
        raise invalid(field, f"applies only to {of} URLs")
