"""Pages as given to sinks and to the iterating caller, and URLs that gave no page."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from crawler.documents.charset import to_text
from crawler.documents.page import PageLink, ParsedPage
from crawler.fetching.request import Answer, Headers
from policies.declarations import NONE, Usage
from policies.indexing import Directives
from policies.retries import FailureCode
from policies.robots import Verdict
from storage.store import Queued, Visited


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Times of one visit.

    started_at: Unix seconds.
    latency_s, elapsed_s: from the first packet to the end of the header, and of the body.
    """

    started_at: float
    latency_s: float
    elapsed_s: float


class EarlierVisit(NamedTuple):
    """The answer that sinks may have of a page. None: it is not known."""

    status: int | None
    content_type: str | None


_UNRECORDED: Final = EarlierVisit(None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawledPage:
    """A page as it was visited: a complete response of any status except 429 and 5xx.

    url: canonical.
    body: decompressed. Empty unless the status is 2xx and `scope.content_types` allows its type.
    title: of HTML.
    links: of HTML, in page order, including those that scope, depth or rel=nofollow exclude.
    directives: the strictest of meta elements and headers.
    redirect_url: the target of a redirect.
    depth: number of links from a seed.
    data: the JSON value added with the URL; None without one.
    referrer: the page that linked to it first; None for a seed.
    canonical_url: the URL that the page declares.
    fetched_at: Unix seconds, as in the view `visited`.
    address: of the server, if known.
    body_read: False if the body was not downloaded, because no consumer needs it.
    requisite: whether it was fetched because a mirror needs it.
    again: whether it was visited before and has changed since.
    earlier: what sinks may have of it already, also from a visit that a crash kept from being
        recorded. None: nothing.
    usage: usage preferences of header, meta elements and robots.txt.
    raw_headers: as received, with invalid UTF-8 as lone surrogates. None if equal to `headers`.
    """

    url: str
    status: int
    headers: Headers
    body: bytes = field(repr=False)  # may be megabytes in a log, as may links
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
    data: Any = None
    referrer: str | None = None
    raw_headers: Headers | None = field(default=None, repr=False)
    earlier: EarlierVisit | None = None

    @property
    def content_type(self) -> str | None:
        return self.headers.get("Content-Type")

    @property
    def text(self) -> str:
        """The decoded body. The encoding is given by BOM, header or meta element, or guessed."""
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
    """Create a CrawledPage. `links`: whether any consumer uses its links."""
    return CrawledPage(
        url=queued.url,
        status=answer.status,
        headers=answer.headers,
        body=answer.body,
        title=outcome.title,
        links=read.links if read and links else (),
        directives=Directives(
            index=outcome.indexable,
            follow=outcome.followable,
            archive=outcome.archivable,
            unavailable_at=None if read is None else read.directives.unavailable_at,
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
        data=value_of(queued.data),
        referrer=queued.referrer,
        raw_headers=answer.raw_headers,
        earlier=_earlier(queued),
        timings=Timings(
            started_at=outcome.fetched_at - outcome.elapsed_s,
            latency_s=answer.latency_s,
            elapsed_s=outcome.elapsed_s,
        ),
    )


def _earlier(queued: Queued) -> EarlierVisit | None:
    if queued.suspect:  # it was in flight when the process died, which may have passed it on
        return _UNRECORDED
    before = queued.before
    return None if before is None else EarlierVisit(before.status, before.content_type)


def value_of(data: str | None) -> Any:
    """Decode the data of a URL, which the store keeps as JSON."""
    return None if data is None else json.loads(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPage:
    """A URL that was given up. It is a row of the view `failed`.

    url: canonical.
    code, sentence: the last error, as a code and in words.
    attempts: requests made, with those that were refused.
    failed_at: of the last attempt, in Unix seconds.
    data: the JSON value added with the URL; None without one.
    referrer: the page that linked to it first; None for a seed.
    """

    url: str
    code: FailureCode
    sentence: str
    attempts: int
    failed_at: float
    data: Any = None
    referrer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedPage:
    """A URL that robots.txt forbids. It is a row of the view `blocked`.

    url: canonical.
    verdict: the rule and the line that decided, as in `RobotsDisallowed`.
    blocked_at: Unix seconds.
    data, referrer: as of a FailedPage.
    """

    url: str
    verdict: Verdict
    blocked_at: float
    data: Any = None
    referrer: str | None = None


def code_and_sentence(error: str) -> tuple[FailureCode, str]:
    """Split an error of the view `failed`, "CODE: sentence"."""
    code, _, sentence = error.partition(": ")
    return FailureCode(code), sentence
