"""What our tests stand on, offered to yours: a clock that jumps, and a local web of many hosts.

async with JumpClock() as clock:            # an hour of politeness in milliseconds
    await clock.sleep_until(clock.monotonic() + 3600)

async with LocalWeb({"a.test": {"/": html("Home", "/a")}}) as web:
    ...                                     # crawl web.url("a.test") with web.config()
    assert web.log.paths("a.test") == ["/robots.txt", "/", "/a"]
"""

from crawler.testing.clock import JumpClock
from crawler.testing.fetcher import Answers, FakeFetcher
from crawler.testing.log import Exchange, Log
from crawler.testing.web import (
    Asked,
    Handler,
    LocalWeb,
    Pages,
    Reply,
    Site,
    hang_up,
    html,
    not_found,
    redirect,
    text,
)

__all__ = [
    "Answers",
    "Asked",
    "Exchange",
    "FakeFetcher",
    "Handler",
    "JumpClock",
    "LocalWeb",
    "Log",
    "Pages",
    "Reply",
    "Site",
    "hang_up",
    "html",
    "not_found",
    "redirect",
    "text",
]
