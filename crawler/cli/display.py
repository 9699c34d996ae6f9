"""Whether a crawl's progress is shown, and to whom."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from crawler.events import Progress


class Display(Protocol):
    def observe(self, progress: Progress) -> None: ...

    def say(self, sentence: str) -> None: ...


@contextmanager
def display(*, quiet: bool = False, stream: TextIO | None = None) -> Iterator[Display]:
    """The display that fits stderr (or `stream`); gone or finished when the block ends."""
    if quiet:
        yield _Quiet()
        return
    from crawler.cli import progress  # with rich, 15 ms

    with progress.on(stream or sys.stderr) as shown:
        yield shown


class _Quiet:
    def observe(self, progress: Progress) -> None:
        pass

    def say(self, sentence: str) -> None:
        pass
