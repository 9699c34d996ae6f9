"""Rows of a list that is read page by page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from storage.read_records import RowPage
    from storage.store import Row

PAGE_ROWS: Final = 1_000


async def rows_of_pages(
    read: Callable[[int, str], Awaitable[RowPage]], limit: int | None
) -> AsyncGenerator[Row, None]:
    """All rows, or `limit` of them. read: a page, by the number of rows and where it begins."""
    after: str | None = ""
    left = limit
    while after is not None and left != 0:
        page = await read(PAGE_ROWS if left is None else min(left, PAGE_ROWS), after)
        for row in page.rows:
            yield row
        left = None if left is None else left - len(page.rows)
        after = page.after
