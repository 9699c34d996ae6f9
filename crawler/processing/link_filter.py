"""The interface of what a program says of the links of a page: which to follow, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from crawler.documents.crawled_page import CrawledPage
from crawler.documents.links import PageLink


class ChosenLink(Struct, frozen=True, kw_only=True):
    """A link to be followed, if its URL is within the scope."""

    url: str  # canonical
    priority: float = 0.0
    data: str | None = None  # a JSON value, as text


class LinkFilter(Protocol):
    """Chooses among the links of a page. An exception costs the page."""

    async def choose(
        self, page: CrawledPage, links: Sequence[PageLink]
    ) -> Sequence[ChosenLink | None]:
        """Return, for each link, how to follow it; None: not at all."""
        ...
