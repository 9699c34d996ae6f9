"""A polite crawler, to be used from Python.

`Crawler` crawls from seeds and gives every page; `PoliteSession` fetches the URLs you bring;
`Politeness` makes a ClientSession of aiohttp polite. Importing this loads nothing else: each name
brings what it needs when it is first used.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import PathFinder

TYPE_CHECKING = False  # type checkers take it for true; `typing` is slow to import
if TYPE_CHECKING:
    from crawler.config import ConfigError
    from crawler.documents.crawled_page import BlockedPage, CrawledPage, FailedPage, Timings
    from crawler.documents.links import PageLink
    from crawler.embedding.caller_verdicts import NextTurn
    from crawler.embedding.crawler import Crawler
    from crawler.embedding.link_choice import FollowLink
    from crawler.embedding.middleware import Politeness, guarded_connector
    from crawler.embedding.permit import RequestPermit
    from crawler.embedding.response import Response
    from crawler.embedding.session import PoliteSession
    from crawler.embedding.streaming import StreamedResponse
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
    from crawler.events import Summary
    from crawler.fetching.request import Failure
    from crawler.observer import Contacted, Observer, Waited
    from crawler.sinks.sink import Withdrawn
    from policies.retries import FailureCode
    from policies.robots.verdict import Verdict
    from policies.robots_state import RobotsState
    from storage.store import StoreError, StoreRefused

__all__ = [
    "AlreadyOpen",
    "BlockedPage",
    "ConfigError",
    "Contacted",
    "CourtlyError",
    "CrawledPage",
    "Crawler",
    "FailedPage",
    "Failure",
    "FailureCode",
    "FetchFailed",
    "FollowLink",
    "InvalidRequest",
    "InvalidURL",
    "NextTurn",
    "Observer",
    "PageLink",
    "PoliteSession",
    "Politeness",
    "RequestPermit",
    "Response",
    "ResponseUnread",
    "RobotsDisallowed",
    "RobotsState",
    "RobotsUnreachable",
    "SecondReader",
    "SessionClosed",
    "StoreError",
    "StoreRefused",
    "StreamedResponse",
    "Summary",
    "Timings",
    "TooManyRedirects",
    "Verdict",
    "WaitTooLong",
    "Waited",
    "Withdrawn",
    "WrongEventLoop",
    "guarded_connector",
]

_HOMES = {
    "BlockedPage": "crawler.documents.crawled_page",
    "AlreadyOpen": "crawler.errors",
    "ConfigError": "crawler.config",
    "Contacted": "crawler.observer",
    "CourtlyError": "crawler.errors",
    "CrawledPage": "crawler.documents.crawled_page",
    "Crawler": "crawler.embedding.crawler",
    "FailedPage": "crawler.documents.crawled_page",
    "Failure": "crawler.fetching.request",
    "FailureCode": "policies.retries",
    "FetchFailed": "crawler.errors",
    "FollowLink": "crawler.embedding.link_choice",
    "InvalidRequest": "crawler.errors",
    "InvalidURL": "crawler.errors",
    "NextTurn": "crawler.embedding.caller_verdicts",
    "Observer": "crawler.observer",
    "PageLink": "crawler.documents.links",
    "PoliteSession": "crawler.embedding.session",
    "Politeness": "crawler.embedding.middleware",
    "RequestPermit": "crawler.embedding.permit",
    "Response": "crawler.embedding.response",
    "ResponseUnread": "crawler.errors",
    "RobotsDisallowed": "crawler.errors",
    "RobotsState": "policies.robots_state",
    "RobotsUnreachable": "crawler.errors",
    "SecondReader": "crawler.errors",
    "SessionClosed": "crawler.errors",
    "StoreError": "storage.store",
    "StoreRefused": "storage.store",
    "StreamedResponse": "crawler.embedding.streaming",
    "Summary": "crawler.events",
    "Timings": "crawler.documents.crawled_page",
    "TooManyRedirects": "crawler.errors",
    "WaitTooLong": "crawler.errors",
    "Verdict": "policies.robots.verdict",
    "Withdrawn": "crawler.sinks.sink",
    "WrongEventLoop": "crawler.errors",
    "Waited": "crawler.observer",
    "guarded_connector": "crawler.embedding.middleware",
}


def _check_not_hidden(name: str) -> None:
    """Raise ImportError if this package of ours is hidden by another program's module."""
    module = sys.modules.get(name) or PathFinder.find_spec(name)
    file = getattr(module, "__file__", None) or getattr(module, "origin", None)
    if file is None:
        return
    ours, found = os.path.join(os.path.dirname(__path__[0]), name), os.path.dirname(file)
    if (
        found == ours
        or not os.path.isdir(ours)
        or os.path.realpath(found) == os.path.realpath(ours)
    ):
        return
    raise ImportError(
        f'{file} hides the package "{name}" of courtly, because Python finds it first: rename it',
        name=name,
        path=file,
    )


_check_not_hidden("policies")
_check_not_hidden("storage")


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
