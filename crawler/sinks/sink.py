"""What a sink is: a place that takes pages in order, and says when they are safe."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from crawler.documents.crawled_page import CrawledPage
from storage.base import StoreError
from storage.trouble import TroubleKind, kind_of, words_of


class SinkError(StoreError):
    """A sink cannot take what it is given. With a `kind` of trouble that passes (a full disk) it is
    to be given again what it was given since its last flush; else (a file that is not ours, or may
    not be written) the crawl stops as it does for its store: what the sink does not have was not
    committed, and is fetched again.

    The message is one whole sentence for the person who runs the crawl."""

    def __init__(self, sentence: str, *, kind: TroubleKind | None = None, what: str = "") -> None:
        super().__init__(sentence)
        self.kind = kind
        self.what = what  # "the sink pages.jsonl"


def sink_error(path: Path, error: OSError) -> SinkError:
    """A failed system call of the sink at `path`."""
    what = f"the sink {path}"
    return SinkError(
        f"{what} cannot be written: {words_of(error)}; what it does not have was not committed, and"
        " the next run fetches it again",
        kind=kind_of(error),
        what=what,
    )


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
    only `close` is called, or `undo` if the trouble passes. An `open` or a `close` that failed by
    trouble that passes is called again."""

    def open(self) -> None:
        """Get ready; mend what a crash left half written. Called before anything else, and again
        after `close` if it failed for trouble that passes."""
        ...

    def put(self, page: CrawledPage) -> None: ...

    def withdraw(self, page: Withdrawn) -> None:
        """Forget or mark a page that may have been put, in this run or before."""
        ...

    def flush(self) -> None:
        """Return when everything put is on disk: it is committed after this."""
        ...

    def undo(self) -> None:
        """Forget all that was put since the last flush that returned: it is put again, in the same
        order. Called again if it fails."""
        ...

    def close(self, hurried: threading.Event) -> None:
        """The end. Work that is not needed to be whole is done now, and left as soon as `hurried`
        is set: then everything is let go of, whatever fails."""
        ...
