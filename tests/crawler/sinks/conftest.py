"""Pages to give to sinks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.documents.crawled_page import CrawledPage, EarlierVisit, Timings
from crawler.documents.page import PageLink
from policies.indexing import Directives

MakePage = Callable[..., CrawledPage]


@pytest.fixture
def make_page() -> MakePage:
    def make(
        url: str = "http://a.test/",
        body: bytes = b"<title>Home</title>",
        *,
        status: int = 200,
        content_type: str | None = "text/html",
        headers: tuple[tuple[str, str], ...] = (),
        archive: bool = True,
        index: bool = True,
        body_read: bool = True,
        fetched_at: float = 1_700_000_000.125,
        again: bool = False,
        earlier: EarlierVisit | None = None,
    ) -> CrawledPage:
        fields = CIMultiDict(headers)
        if content_type is not None:
            fields["Content-Type"] = content_type
        return CrawledPage(
            url=url, status=status, headers=CIMultiDictProxy(fields), body=body, title="Home",
            links=(PageLink("http://a.test/b", "B", False),),
            directives=Directives(index=index, archive=archive), redirect_url=None, depth=0,
            timings=Timings(started_at=fetched_at - 0.5, latency_s=0.1, elapsed_s=0.5),
            fetched_at=fetched_at, address="127.0.0.1", body_read=body_read, again=again,
            earlier=earlier or (EarlierVisit(200, "text/html") if again else None),
        )  # fmt: skip

    return make
