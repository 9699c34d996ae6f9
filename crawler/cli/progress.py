"""A running crawl on stderr: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from crawler.cli import screen
from crawler.cli.screen import Safe
from crawler.cli.text import echo
from crawler.config.units import format_bytes, format_duration
from crawler.events import Progress
from crawler.telling.words import plain

FIRST_LINE_S = 1.0  # off a terminal
LINE_EVERY_S = 5.0
SLOWEST_SHOWN = 5
FETCHING_SHOWN = 3
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_STYLES = {"in flight": "green", "ready": "cyan", "robots": "blue", "paused": "yellow"}


@contextmanager
def on(out: TextIO) -> Iterator[_OnTerminal | _Lines]:
    """The display that fits what is written to; gone or finished when the block ends."""
    console = screen.console(file=out)
    if console.is_terminal and not console.is_dumb_terminal:
        with Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False,
            redirect_stderr=False, vertical_overflow="crop",
        ) as live:  # fmt: skip
            yield _OnTerminal(live)
    else:
        yield _Lines(out)


class _Lines:
    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._next_s = FIRST_LINE_S

    def observe(self, progress: Progress) -> None:
        if progress.elapsed_s < self._next_s:
            return
        self._next_s = progress.elapsed_s + LINE_EVERY_S
        self.say(as_line(progress))

    def say(self, sentence: str) -> None:
        # A crawl does not end because nobody reads its log any more.
        with contextlib.suppress(OSError):
            echo(sentence, file=self._out)


class _OnTerminal:
    def __init__(self, live: Live) -> None:
        self._live = live
        self._notes: list[str] = []
        self._last: Progress | None = None
        self._frames = itertools.cycle(_SPINNER)

    def observe(self, progress: Progress) -> None:
        self._last = progress
        self._draw()

    def say(self, sentence: str) -> None:
        self._notes = [*self._notes[-1:], sentence]
        self._draw()

    def _draw(self) -> None:
        parts: list[RenderableType] = []
        if self._last is not None:
            width = self._live.console.width
            parts.append(as_panel(self._last, width=width, spinner=next(self._frames)))
        parts += [Text(note, style="bold yellow", overflow="fold") for note in self._notes]
        self._live.update(Safe(Group(*parts)), refresh=True)


# ---------------------------------------------------------------- what is shown


def as_line(progress: Progress) -> str:
    """One line for logs."""
    states = ", ".join(f"{n} {state}" for state, n in progress.hosts_by_state.items() if n)
    line = (
        f"{clock(progress.elapsed_s)} visited {progress.visited} ({rate(progress.pages_per_s)}), "
        f"blocked {progress.blocked}, failed {progress.failed}, queued {progress.queued}, "
        f"in flight {progress.in_flight}, {format_bytes(progress.bytes)}"
    )
    for hold in progress.held:
        line += f"; HELD: {plain(hold.sentence)}"
    if states:
        line += f"; hosts: {states}"
    if progress.slowest:
        slow = progress.slowest[0]
        line += f"; slowest: {plain(slow.host)}, {_wait(slow.wait_s)}{plain(slow.reason)}"
    return line


def as_panel(progress: Progress, *, width: int, spinner: str = "") -> RenderableType:
    """The live display: counts, hosts by state, the slowest hosts, some URLs in flight."""
    rows: list[RenderableType] = [_heading(progress, spinner), _counts(progress)]
    if width >= 40:
        rows.append(_bar(progress))
    rows += [Text(f"held: {plain(hold.sentence)}", style="bold red") for hold in progress.held]
    if hosts := _hosts(progress):
        rows.append(hosts)
    if progress.slowest:
        rows += [Text("slowest hosts", style="dim"), _slowest(progress)]
    if progress.fetching:
        rows.append(Text("fetching", style="dim"))
        rows += [
            Text(f"  {plain(url)}", no_wrap=True, overflow="ellipsis")
            for url in progress.fetching[:FETCHING_SHOWN]
        ]
    return Group(*rows)


def _heading(progress: Progress, spinner: str) -> Text:
    return _joined(
        (f"{spinner} {clock(progress.elapsed_s)}".strip(), "bold"),
        (f"{progress.visited:,} pages", "bold green"),
        (rate(progress.pages_per_s), ""),
        (format_bytes(progress.bytes), ""),
    )


def _counts(progress: Progress) -> Text:
    return _joined(
        (f"{progress.queued:,} queued", "cyan"),
        (f"{progress.blocked:,} blocked", "yellow" if progress.blocked else "dim"),
        (f"{progress.failed:,} failed", "red" if progress.failed else "dim"),
        (f"{progress.in_flight:,} in flight", "green" if progress.in_flight else "dim"),
    )


def _bar(progress: Progress) -> Table:
    done = progress.visited + progress.blocked + progress.failed
    line = Table.grid(expand=True)  # a bar of its own does not end its line
    line.add_row(ProgressBar(total=max(1, done + progress.queued), completed=done))
    return line


def _hosts(progress: Progress) -> Text | None:
    states = [(state, n) for state, n in progress.hosts_by_state.items() if n]
    if not states:
        return None
    return _joined(
        *((f"{n:,} {state}", _STYLES.get(state, "default")) for state, n in states),
        before="hosts: ",
    )


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


def clock(seconds: float) -> str:
    """`0:07`, `12:34`, `1:02:03`."""
    minutes, seconds_left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds_left:02}" if hours else f"{minutes}:{seconds_left:02}"


def rate(pages_per_s: float) -> str:
    return f"{pages_per_s:,.{0 if pages_per_s >= 100 else 1}f} pages/s"


def _wait(wait_s: float) -> str:
    return f"{format_duration(wait_s)}: " if wait_s > 0 else ""
