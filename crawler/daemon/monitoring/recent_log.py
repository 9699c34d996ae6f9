"""The latest lines of the log, in memory, for its page."""

from __future__ import annotations

import enum
import heapq
import json
import re
import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from msgspec import Struct

LINES_MAX: Final = 2_000  # of each kind
BYTES_MAX: Final = 1_000_000  # of each kind, as written
LINE_CHARS_MAX: Final = 20_000  # of one line; a longer one is kept without its details
# EventLog writes these first, in this order.
_HEAD: Final = re.compile(r'\{"at":"([^"]+)","level":"(\w+)","event":"([^"]*)"')


class LineKind(enum.Enum):
    """Lines of a frequent kind do not displace those of another."""

    COMMANDS = enum.auto()  # what operators did
    URLS = enum.auto()  # the outcomes of URLs
    OTHERS = enum.auto()


# Also those that the daemon refused.
ACTIONS: Final = frozenset(
    ("steered", "refused", "unauthorized", "reloaded", "reload_refused", "stopping")
)
_COMMANDS: Final = frozenset(("steered", "reloaded", "started", "stopping"))
_OF_URLS: Final = frozenset(
    (
        "visited", "blocked", "retry", "not_checked", "dropped", "moved", "failed", "robots",
        "sitemap", "unchanged", "committed",
    )
)  # fmt: skip


class LogLine(Struct, frozen=True):
    """A line as it was written. number: in the order of lines, from 1. at: in ISO 8601."""

    number: int
    at: str
    level: str
    event: str
    text: str


class RecentLog:
    """Keeps the latest lines of each kind. Any thread may add lines."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[LineKind, deque[LogLine]] = {kind: deque() for kind in LineKind}
        self._chars = dict.fromkeys(LineKind, 0)
        self.count = 0  # lines since the start

    def add(self, text: str) -> None:
        """Keep a line of JSON. One that EventLog has not written is left out."""
        found = _HEAD.match(text)
        if found is None:
            return
        at, level, event = found.groups()
        if len(text) > LINE_CHARS_MAX:
            note = f"{len(text):,} characters: too long to be kept in memory"
            text = json.dumps({"at": at, "level": level, "event": event, "note": note})
        kind = _kind(event)
        with self._lock:
            self.count += 1
            lines = self._lines[kind]
            lines.append(LogLine(self.count, at, level, event, text))
            self._chars[kind] += len(text)
            while len(lines) > LINES_MAX or self._chars[kind] > BYTES_MAX:
                self._chars[kind] -= len(lines.popleft().text)

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def events(self) -> list[str]:
        """The names of the events that are kept, sorted."""
        return sorted({line.event for line in self._newest_first()})

    def lines(
        self,
        *,
        levels: Collection[str] = (),
        events: Collection[str] = (),
        text: str = "",
        before: int | None = None,
    ) -> Iterator[LogLine]:
        """The kept lines, the newest first.

        levels, events: only these; empty: all. text: part of the line as it was written, case
        ignored. before: only lines with lower numbers.
        """
        wanted = text.casefold()
        for line in self._newest_first():
            if before is not None and line.number >= before:
                continue
            if (levels and line.level not in levels) or (events and line.event not in events):
                continue
            if not wanted or wanted in line.text.casefold():
                yield line

    def _newest_first(self) -> Iterable[LogLine]:
        with self._lock:
            kinds = [list(reversed(lines)) for lines in self._lines.values()]
        return heapq.merge(*kinds, key=lambda line: -line.number)


def _kind(event: str) -> LineKind:
    if event in _COMMANDS:
        return LineKind.COMMANDS
    return LineKind.URLS if event in _OF_URLS else LineKind.OTHERS
