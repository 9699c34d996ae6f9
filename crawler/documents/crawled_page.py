"""A page as the crawl visited it, for who reads pages and for sinks."""

from __future__ import annotations

from dataclasses import dataclass, field

from crawler.documents.charset import to_text
from crawler.documents.page import PageLink, ParsedPage
from crawler.fetching.request import Answer, Headers
from policies.indexing import Directives
from policies.usage import NONE, Usage
from storage.store import Queued, Visited


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Of one visit. started_at: Unix seconds. latency_s: to the end of the answer's header;
    elapsed_s: to the end of its body, both from the first packet."""

    started_at: float
    latency_s: float
    elapsed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawledPage:
    """A page as the crawl visited it: a complete answer of any status but 429 and 5xx.

    url: canonical. body: decompressed; b"" unless the status is 2xx and `scope.content_types` lets
    its type in. title, links: of HTML; `links` in the page's order, with those that scope, depth or
    rel=nofollow leave out. directives: of meta elements and headers, the strictest. redirect_url:
    where it redirects. depth: links from a seed. canonical_url: what the page says is its URL.
    fetched_at: Unix seconds, as in the view `visited`. address: the peer, None if not known.
    body_read: False where nobody wanted the body. requisite: fetched because a mirror needs it.
    again: it was visited before, and has changed since.
    raw_headers: as received, with bytes that are not UTF-8 as lone surrogates; None where `headers`
    are the same.
    usage: what header, meta elements and robots.txt say of the use of its content.
    """

    url: str
    status: int
    headers: Headers
    body: bytes = field(repr=False)  # megabytes, in somebody's log; so are links
    title: str | None
    links: tuple[PageLink, ...] = field(repr=False)
    directives: Directives
    redirect_url: str | None
    depth: int
    timings: Timings
    canonical_url: str | None = None
    fetched_at: float = 0.0
    address: str | None = None
    body_read: bool = True
    requisite: bool = False
    again: bool = False
    usage: Usage = NONE
    raw_headers: Headers | None = field(default=None, repr=False)

    @property
    def content_type(self) -> str | None:
        return self.headers.get("Content-Type")

    @property
    def text(self) -> str:
        """The body as text: by BOM, header, meta, and only then by guessing."""
        return to_text(self.body, self.content_type)


def crawled_page(
    queued: Queued,
    answer: Answer,
    outcome: Visited,
    read: ParsedPage | None,
    usage: Usage,
    *,
    links: bool,
) -> CrawledPage:
    """As sinks and readers get it; `links`: whether anybody looks at its links."""
    return CrawledPage(
        url=queued.url,
        status=answer.status,
        headers=answer.headers,
        body=answer.body,
        title=outcome.title,
        links=read.links if read and links else (),
        directives=Directives(
            index=outcome.indexable, follow=outcome.followable, archive=outcome.archivable
        ),
        redirect_url=outcome.redirect_url,
        depth=queued.depth,
        canonical_url=outcome.canonical_url,
        fetched_at=outcome.fetched_at,
        address=answer.address,
        body_read=answer.body_read,
        requisite=queued.requisite,
        again=queued.before is not None,
        usage=usage,
        raw_headers=answer.raw_headers,
        timings=Timings(
            started_at=outcome.fetched_at - outcome.elapsed_s,
            latency_s=answer.latency_s,
            elapsed_s=outcome.elapsed_s,
        ),
    )
