"""The live display of a running crawl on a terminal."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from crawler.cli.safe_console import Safe, safe_console
from crawler.cli.text import clock, rate
from crawler.config.units import format_bytes, format_duration
from crawler.events import Progress
from crawler.explain.formatting import plain

SLOWEST_SHOWN = 5
FETCHING_SHOWN = 3
_NOTES_SHOWN = 2
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_STYLES = {"in flight": "green", "ready": "cyan", "robots": "blue", "paused": "yellow"}


@contextmanager
def live_display(out: TextIO) -> Iterator[LiveDisplay]:
    """A display on the terminal `out`, which is cleared when the block ends."""
    with Live(
        console=safe_console(file=out), auto_refresh=False, transient=True, redirect_stdout=False,
        redirect_stderr=False, vertical_overflow="crop",
    ) as live:  # fmt: skip
        yield LiveDisplay(live)


class LiveDisplay:
    def __init__(self, live: Live) -> None:
        self._live = live
        self._notes: list[str] = []
        self._last: Progress | None = None
        self._frames = itertools.cycle(_SPINNER)

    def observe(self, progress: Progress) -> None:
        self._last = progress
        self._draw()

    def say(self, sentence: str) -> None:
        self._notes = [*self._notes, sentence][-_NOTES_SHOWN:]
        self._draw()

    def _draw(self) -> None:
        parts: list[RenderableType] = []
        if self._last is not None:
            width = self._live.console.width
            parts.append(as_panel(self._last, width=width, spinner=next(self._frames)))
        parts += [Text(note, style="bold yellow", overflow="fold") for note in self._notes]
        self._live.update(Safe(Group(*parts)), refresh=True)


def as_panel(progress: Progress, *, width: int, spinner: str = "") -> RenderableType:
    """Counts, hosts by state, the slowest hosts, and some of the URLs in flight."""
    rows: list[RenderableType] = [
        _joined(
            (f"{spinner} {clock(progress.elapsed_s)}".strip(), "bold"),
            (f"{progress.visited:,} pages", "bold green"),
            (rate(progress.pages_per_s), ""),
            (format_bytes(progress.bytes), ""),
            *([(f"{progress.workers:,} workers", "")] if progress.workers > 1 else ()),
        ),
        _joined(
            (f"{progress.queued:,} queued", "cyan"),
            (f"{progress.blocked:,} blocked", "yellow" if progress.blocked else "dim"),
            (f"{progress.failed:,} failed", "red" if progress.failed else "dim"),
            (f"{progress.in_flight:,} in flight", "green" if progress.in_flight else "dim"),
        ),
    ]
    if width >= 40:
        done = progress.visited + progress.blocked + progress.failed
        bar = Table.grid(expand=True)  # a bare bar does not end its line
        bar.add_row(ProgressBar(total=max(1, done + progress.queued), completed=done))
        rows.append(bar)
    rows += [Text(f"held: {plain(hold.sentence)}", style="bold red") for hold in progress.held]
    states = [
        (f"{n:,} {state}", _STYLES.get(state, ""))
        for state, n in progress.hosts_by_state.items()
        if n
    ]
    if states:
        rows.append(_joined(*states, before="hosts: "))
    if progress.slowest:
        rows += [Text("slowest hosts", style="dim"), _slowest(progress)]
    if progress.fetching:
        rows.append(Text("fetching", style="dim"))
        rows += [
            Text(f"  {plain(url)}", no_wrap=True, overflow="ellipsis")
            for url in progress.fetching[:FETCHING_SHOWN]
        ]
    return Group(*rows)


def _slowest(progress: Progress) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=1)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=2)
    table.add_column(no_wrap=True, justify="right", min_width=6)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=3)
    for slow in progress.slowest[:SLOWEST_SHOWN]:
        wait = format_duration(slow.wait_s) if slow.wait_s > 0 else ""
        table.add_row("", plain(slow.host), wait, plain(slow.reason))
    return table


def _joined(*parts: tuple[str, str], before: str = "") -> Text:
    text = Text.assemble((before, "dim")) + Text(" · ", style="dim").join(
        Text(words, style=style or "default") for words, style in parts
    )
    text.no_wrap = True
    text.overflow = "ellipsis"
    return text
