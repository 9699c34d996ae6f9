"""The pages of the last minutes, so that reading on does not request a page again."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from crawler.embedding.response import Response
from crawler.mcp_server.arguments import Format
from crawler.mcp_server.page_text import PageText

KEPT_S: Final = 600.0
PAGES_MAX: Final = 64
BYTES_MAX: Final = 32_000_000  # of bodies and texts


@dataclass(slots=True, kw_only=True)
class KeptPage:
    """A response and the texts made of it so far. fetched_at: Unix seconds."""

    response: Response
    fetched_at: float
    kept_s: float  # on the monotonic clock
    texts: dict[Format, PageText] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        texts = sum(len(each.text) for each in self.texts.values())
        return len(self.response.body) + 2 * texts


class PageMemory:
    """Keeps recent pages by the URL that was asked for, the oldest of which is forgotten first."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, KeptPage] = OrderedDict()

    def get(self, url: str, now_s: float) -> KeptPage | None:
        """The page, if it is at most KEPT_S old. now_s: of the monotonic clock."""
        page = self._pages.get(url)
        if page is None or now_s - page.kept_s > KEPT_S:
            return None
        return page

    def put(self, url: str, page: KeptPage) -> None:
        """Keep a page, also after a text was added to it, and forget others beyond the limits."""
        self._pages[url] = page
        self._pages.move_to_end(url)
        while len(self._pages) > PAGES_MAX or (
            self._pages and sum(each.size_bytes for each in self._pages.values()) > BYTES_MAX
        ):
            self._pages.popitem(last=False)
