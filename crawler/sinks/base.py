"""What a sink is: a place that takes pages in order, and says when they are safe."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Protocol

from crawler.documents.crawled import CrawledPage
from storage.base import StoreError


class SinkError(StoreError):
    """A sink cannot take what it is given (disk full, a file that is not ours). The crawl stops as
    it does for its store; what the sink does not have was not committed, and is fetched again.

    The message is one whole sentence for the person who runs the crawl."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """A page that may have been given to sinks, and should not be kept there any more.

    reason: "robots": robots.txt forbids it, as it turned out late (law 4) or when it was to be
    visited again. "noindex": visited again, it asks not to be indexed."""

    url: str
    withdrawn_at: float  # Unix seconds
    reason: str = "robots"
    robots_url: str | None = None
    rule: str | None = None


class Sink(Protocol):
    """All calls come from one thread of their own, one at a time, so they may wait for a disk.

    Pages come in the order of their visits. After a crash one may come again that was put and not
    committed: it is asked for again, and has another `fetched_at`. The one whose `fetched_at` is
    that of the database counts; it is the last one. Every call raises SinkError, after which
    only `close` is called."""

    def open(self) -> None:
        """Get ready; mend what a crash left half written. Called once, before anything else."""
        ...

    def put(self, page: CrawledPage) -> None: ...

    def withdraw(self, page: Withdrawn) -> None:
        """Forget or mark a page that may have been put, in this run or before."""
        ...

    def flush(self) -> None:
        """Return when everything put is on disk: it is committed after this."""
        ...

    def close(self, hurried: threading.Event) -> None:
        """The end. Work that is not needed to be whole is done now, and left as soon as `hurried`
        is set."""
        ...
