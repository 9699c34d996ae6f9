"""An example of every public value, and the ways to copy one."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

from multidict import CIMultiDict, CIMultiDictProxy

from crawler.config import ConfigError
from crawler.documents.crawled_page import BlockedPage, CrawledPage, FailedPage, Timings
from crawler.documents.links import PageLink
from crawler.embedding.caller_verdicts import NextTurn
from crawler.embedding.link_choice import FollowLink
from crawler.embedding.response import Response
from crawler.errors import (
    AlreadyOpen,
    CourtlyError,
    FetchFailed,
    InvalidRequest,
    InvalidURL,
    ResponseUnread,
    RobotsDisallowed,
    RobotsUnreachable,
    SecondReader,
    SessionClosed,
    TooManyRedirects,
    WaitTooLong,
    WrongEventLoop,
)
from crawler.events import FrequentReason, Summary, WaitingHost
from crawler.fetching.request import Failure
from crawler.observer import Contacted, Waited
from crawler.sinks.sink import SinkError, Withdrawn
from policies import robots
from policies.declarations import Signal, Usage, Where
from policies.holds import Hold, HoldReason
from policies.indexing import Directives
from policies.retries import FailureCode
from policies.robots_state import RobotsState
from storage.store import StoreError, StoreRefused

URL = "https://example.com/a"
ROBOTS = b"User-agent: *\nAllow: /a/b\nDisallow: /a\n\nUser-agent: other\nDisallow: /\n"
HEADERS = CIMultiDictProxy(
    CIMultiDict([("Content-Type", "text/html"), ("Set-Cookie", "a=1"), ("set-cookie", "b=\udce9")])
)
FAILURE = Failure(
    url=URL,
    code=FailureCode.TIMEOUT,
    sentence="no answer within 30 s",
    connected=True,
    permanent=False,
    started_s=1.0,
    ended_s=31.0,
)
VERDICT = robots.parse(ROBOTS).decide(URL, agent="examplebot")
RESPONSE = Response(url=URL, status=200, headers=HEADERS, body=b"a", elapsed_s=0.5)
TIMINGS = Timings(started_at=1_700_000_000.0, latency_s=0.1, elapsed_s=0.2)
LINK = PageLink(f"{URL}/b", "B", nofollow=True)
PAGE = CrawledPage(
    url=URL,
    status=200,
    headers=HEADERS,
    raw_headers=HEADERS,
    body=b"<title>A</title>",
    title="A",
    links=(LINK,),
    directives=Directives(index=False),
    redirect_url=None,
    depth=2,
    usage=Usage(signals=(Signal(where=Where.META, name="tdm-reservation", value="1"),)),
    timings=TIMINGS,
)
SUMMARY = Summary(
    visited=1,
    blocked=2,
    failed=3,
    queued=4,
    hosts=5,
    bytes=6,
    elapsed_s=7.0,
    waiting=(WaitingHost(host="example.com", until=None, reason="paused"),),
    skipped={"depth": 8},
    held=(Hold(reason=HoldReason.NETWORK, since=1.0),),
    errors=(FrequentReason(words="dns: no such name", count=3, example=URL),),
)
ERRORS: list[CourtlyError] = [
    CourtlyError("a sentence"),
    ConfigError("the first problem", "the second problem"),
    StoreError("the database is damaged"),
    StoreRefused("the database is in use"),
    SinkError("no space left"),
    InvalidRequest("method", "expected a string"),
    InvalidURL("a is not an absolute http or https URL"),
    RobotsDisallowed(URL, VERDICT),
    RobotsUnreachable(URL, "it answered 503", 1_700_000_000.0),
    RobotsUnreachable(URL, "it answered 503", None),
    WaitTooLong(URL, "backing off", 1_700_000_000.0),
    WaitTooLong(URL, "paused by an operator", None),
    FetchFailed(URL, FAILURE, until=1_700_000_000.0),
    TooManyRedirects([f"{URL}/{n}" for n in range(12)]),
    ResponseUnread("a response has not been read"),
    SecondReader("two tasks iterate over one crawl"),
    SessionClosed("the session is closed"),
    WrongEventLoop("another loop"),
    AlreadyOpen("open already"),
]
VALUES: list[object] = [
    *(robots.parse(ROBOTS).decide(URL, agent="examplebot", dialect=one) for one in robots.DIALECTS),
    robots.parse(ROBOTS).decide(URL, agent=("a", "other"), dialect=[robots.BING, robots.GOOGLE]),
    *robots.DIALECTS.values(),
    *FailureCode,
    HEADERS,
    RESPONSE,
    Response(url=URL, status=200, headers=HEADERS, body=b"", elapsed_s=1, redirects=(RESPONSE,)),
    TIMINGS,
    LINK,
    PAGE,
    SUMMARY,
    FailedPage(url=URL, code=FailureCode.DNS, sentence="no such name", attempts=4, failed_at=2.0),
    BlockedPage(url=URL, verdict=VERDICT, blocked_at=2.0, data={"a": [1]}, referrer=URL),
    Withdrawn(url=URL, withdrawn_at=2.0, reason="noindex"),
    FAILURE,
    Waited(url=URL, slot="example.com", started_at=1.0, elapsed_s=2.0, error=None),
    Contacted(
        url=URL,
        slot="example.com",
        kind="page",
        status=None,
        error=FailureCode.DNS,
        sentence="no such name",
        started_at=1.0,
        elapsed_s=0.5,
        latency_s=None,
        body_bytes=0,
        wire_bytes=0,
        address=None,
        late_s=0.0,
        next_in_s=2.0,
        rest_source="politeness.delay",
    ),
    FollowLink(url="/a", priority=1.0, data={"a": [1]}),
    NextTurn(in_s=1.5, reason="politeness.delay", ahead=2),
    RobotsState(status=200, body=ROBOTS, copy_at=1.0),
]
COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle 2": lambda value: pickle.loads(pickle.dumps(value, 2)),
    "pickle 4": lambda value: pickle.loads(pickle.dumps(value, 4)),
    "pickle 5": lambda value: pickle.loads(pickle.dumps(value, 5)),
}
