"""`courtly status --watch`: the status of a crawl, again and again, across its restarts."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping

import click

from crawler.cli.text import echo, echo_json
from crawler.config.units import format_duration
from storage.store import StoreError

Status = Mapping[str, object]


class Contact:
    """The time at which a crawl last answered, and what to print if it no longer does."""

    def __init__(self) -> None:
        self._answered_s: float | None = None

    def lost(self, now_s: float, *, answers: bool) -> str:
        """ "lost contact for 12 s"; "" while it answers, and before it has answered once."""
        if answers:
            self._answered_s = now_s
        if answers or self._answered_s is None:
            return ""
        return f"lost contact for {format_duration(round(now_s - self._answered_s))}"


def watch(
    read: Callable[[], tuple[Status, bool]],
    lines_of: Callable[[Status], Iterable[str]],
    *,
    every_s: float,
    as_json: bool,
) -> None:
    """Show the status every `every_s` seconds until Ctrl-C: on a terminal in place, elsewhere as
    lines, or as JSON lines. read: returns the status, and whether a running crawl gave it."""
    show = _appended if as_json or not sys.stdout.isatty() else _live
    show(read, lines_of, every_s, as_json)


def _looked(read: Callable[[], tuple[Status, bool]], contact: Contact) -> tuple[Status | None, str]:
    """The status, None if there is none now, and what is wrong."""
    try:
        found, answers = read()
    except (click.ClickException, StoreError) as error:
        lost = contact.lost(time.monotonic(), answers=False)
        why = error.format_message() if isinstance(error, click.ClickException) else str(error)
        return None, f"{lost}: {why}" if lost else why
    return found, contact.lost(time.monotonic(), answers=answers)


def _appended(
    read: Callable[[], tuple[Status, bool]],
    lines_of: Callable[[Status], Iterable[str]],
    every_s: float,
    as_json: bool,
) -> None:
    contact = Contact()
    while True:
        found, problem = _looked(read, contact)
        if problem:
            echo(problem, err=True)
        if found is not None and as_json:
            echo_json(found)
        elif found is not None:
            echo(time.strftime("%Y-%m-%d %H:%M:%S"))
            for line in lines_of(found):
                echo(f"  {line}")
        sys.stdout.flush()
        time.sleep(every_s)


def _live(
    read: Callable[[], tuple[Status, bool]],
    lines_of: Callable[[Status], Iterable[str]],
    every_s: float,
    _as_json: bool,
) -> None:
    from rich.live import Live
    from rich.text import Text

    from crawler.cli.safe_console import Safe, safe_console

    contact, last = Contact(), list[str]()
    with Live(
        console=safe_console(), auto_refresh=False, redirect_stdout=False, redirect_stderr=False,
        vertical_overflow="crop",
    ) as live:  # fmt: skip
        while True:
            found, problem = _looked(read, contact)
            last = last if found is None else list(lines_of(found))
            shown = Text("\n".join(last), overflow="fold")
            if problem:
                shown = Text(f"{problem}\n", style="bold yellow") + shown
            live.update(Safe(shown), refresh=True)
            time.sleep(every_s)
