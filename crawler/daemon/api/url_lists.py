"""Lists of URLs by state, and of seeds."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

from crawler.daemon.list_responses import (
    FailureCount,
    Failures,
    SeedRow,
    SeedsPage,
    SkippedLinks,
    SkippedRow,
    UrlsPage,
)
from crawler.daemon.problem import Problem, as_problems, invalid
from crawler.daemon.responses import flag, from_row
from crawler.explain.sentences import skip_words
from crawler.steering.execution import stored_name
from storage.paging import ROWS_MAX
from storage.read_records import UrlFilter, UrlList
from storage.reader import Reader

SEED_STATES: Final = ("queued", "visited", "blocked", "failed", "sitemap", "skipped")
URL_STATES: Final = tuple(one.value for one in UrlList)


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
