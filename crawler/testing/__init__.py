"""Test tools: a clock that jumps, a fetcher without a network, and a local web of many hosts.

async with JumpClock() as clock:            # an hour of delays passes in milliseconds
    await clock.sleep_until(clock.monotonic() + 3600)

async with LocalWeb({"a.test": {"/": html("Home", "/a")}}) as web:
    ...                                     # crawl web.url("a.test") with web.config()
    assert web.log.paths("a.test") == ["/robots.txt", "/", "/a"]
"""

from crawler.frontier.process_contacts import forget_contacts
from crawler.testing.fake_fetcher import Answers, FakeFetcher
from crawler.testing.jump_clock import JumpClock
from crawler.testing.local_web import (
    Handler,
    LocalWeb,
    Pages,
    ReceivedRequest,
    Reply,
    Site,
    hang_up,
    html,
    not_found,
    redirect,
    text,
)
from crawler.testing.request_log import LoggedRequest, RequestLog

__all__ = [
    "Answers",
    "FakeFetcher",
    "Handler",
    "JumpClock",
    "LocalWeb",
    "LoggedRequest",
    "Pages",
    "ReceivedRequest",
    "Reply",
    "RequestLog",
    "Site",
    "forget_contacts",
    "hang_up",
    "html",
    "not_found",
    "redirect",
    "text",
]
