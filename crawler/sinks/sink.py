"""The interface of sinks, which take pages in order and report when they are on disk."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from crawler.documents.crawled_page import CrawledPage
from storage.store import StoreError
from storage.transient_faults import FaultKind, kind_of, words_of


class SinkError(StoreError):
    """A sink cannot write. The message is a complete sentence for the operator.

    kind: a transient fault, such as a full disk. The sink must then be given everything since
        its last flush again. None for a permanent one, which stops the crawl, as errors of the
        store do. Pages that the sink lacks were not committed and are fetched again.
    what: the sink in words, such as "the sink pages.jsonl".
    """

    def __init__(self, sentence: str, *, kind: FaultKind | None = None, what: str = "") -> None:
        super().__init__(sentence)
        self.kind = kind
        self.what = what


def sink_error(path: Path, error: OSError) -> SinkError:
    """Return the SinkError for a failed system call of the sink at `path`."""
    what = f"the sink {path}"
    return SinkError(
        f"{what} cannot be written: {words_of(error)}; pages missing from it were not committed,"
        " and the next run fetches them again",
        kind=kind_of(error),
        what=what,
    )


class _HasPath(Protocol):
    @property
    def path(self) -> Path: ...


@contextmanager
def sink_errors(sink: _HasPath) -> Iterator[None]:
    """Raise SinkError instead of OSError."""
    try:
        yield
    except OSError as error:
        raise sink_error(sink.path, error) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """A page that sinks may have and should no longer keep.

    withdrawn_at: Unix seconds.
    reason: "robots" if robots.txt disallows the page, as found later or on a
        revisit; "noindex" and "noarchive" if its answer forbids that by now; "changed" if the sink
        does not accept pages of its present status or type.
    """

    url: str
    withdrawn_at: float
    reason: str = "robots"
    robots_url: str | None = None
    rule: str | None = None


class Sink(Protocol):
    """A destination of pages.

    All calls come from one dedicated thread, one at a time, so they may wait for a disk. Pages come
    in the order of their visits. After a crash, a page that was put but not committed is fetched
    again and put with another `fetched_at`. The last one is valid, with the `fetched_at` that is in
    the database.

    Every call may raise SinkError. After it, only `close` is called, or `undo` if the fault is
    transient. `open` and `close` are called again if they failed for a transient fault.
    """

    def open(self) -> None:
        """Prepare for writing and repair what a crash left incomplete."""
        ...

    def put(self, page: CrawledPage) -> None: ...

    def withdraw(self, page: Withdrawn) -> None:
        """Delete or mark a page that may have been put, in this run or before."""
        ...

    def flush(self) -> None:
        """Return when everything put is on disk. It is committed after this."""
        ...

    def undo(self) -> None:
        """Discard everything put since the last successful flush. It is put again, in order."""
        ...

    def close(self, hurried: threading.Event) -> None:
        """Complete optional work and release all resources.

        The work stops as soon as `hurried` is set. All resources are then released even on errors.
        """
        ...
