"""The progress of a running crawl on standard error: lines, or a live display on a terminal."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Protocol, TextIO

from crawler.cli.text import clock, echo, rate
from crawler.config.units import format_bytes, format_duration
from crawler.events import Progress
from crawler.explain.formatting import plain

FIRST_LINE_S = 1.0
LINE_EVERY_S = 5.0


class Display(Protocol):
    def observe(self, progress: Progress) -> None:
        """Show the state of the crawl."""

    def say(self, sentence: str) -> None:
        """Show a message."""


@contextlib.contextmanager
def display(*, quiet: bool = False, stream: TextIO | None = None) -> Iterator[Display]:
    """A display for standard error or `stream`, which is cleared when the block ends."""
    out = stream or sys.stderr
    dumb = os.environ.get("TERM", "").lower() in ("dumb", "unknown")
    if quiet or out is None:
        yield _NoDisplay()
    elif out.isatty() and not dumb:
        from crawler.cli.live_display import live_display  # with rich, slow to import

        with live_display(out) as shown:
            yield shown
    else:
        yield _ProgressLines(out)


class _NoDisplay:
    def observe(self, progress: Progress) -> None:
        pass

    def say(self, sentence: str) -> None:
        pass


class _ProgressLines:
    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._next_s = FIRST_LINE_S

    def observe(self, progress: Progress) -> None:
        if progress.elapsed_s < self._next_s:
            return
        self._next_s = progress.elapsed_s + LINE_EVERY_S
        self.say(as_line(progress))

    def say(self, sentence: str) -> None:
        # The crawl continues even if its log can no longer be written.
        with contextlib.suppress(OSError):
            echo(sentence, file=self._out)


def as_line(progress: Progress) -> str:
    """One line for logs."""
    line = (
        f"{clock(progress.elapsed_s)} visited {progress.visited} ({rate(progress.pages_per_s)}), "
        f"blocked {progress.blocked}, failed {progress.failed}, queued {progress.queued}, "
        f"in flight {progress.in_flight}, {format_bytes(progress.bytes)}"
    )
    if progress.workers > 1:
        line += f"; {progress.workers} workers"
    for hold in progress.held:
        line += f"; HELD: {plain(hold.sentence)}"
    if states := ", ".join(f"{n} {state}" for state, n in progress.hosts_by_state.items() if n):
        line += f"; hosts: {states}"
    if progress.slowest:
        slow = progress.slowest[0]
        wait = f"{format_duration(slow.wait_s)}: " if slow.wait_s > 0 else ""
        line += f"; slowest: {plain(slow.host)}, {wait}{plain(slow.reason)}"
    return line
