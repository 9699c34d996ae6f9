"""The daemon's log: JSON lines, one event for every outcome, into a file that may be rotated under
its hands."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final

import structlog

from crawler.config.levels import LogLevel
from crawler.observer import Contacted
from storage.base import Blocked, Dropped, Failed, Moved, Outcome, Retry, Revisited, Visited

LEVELS: Final[Mapping[LogLevel, int]] = {
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
}


class LogFile:
    """Where lines go: a file, opened again where somebody moved it away, or standard error.

    A line that cannot be written (a full disk) is counted, and the crawl goes on; the next line
    that can says how many were lost.
    """

    def __init__(self, path: Path | None) -> None:
        """Raises OSError if the file cannot be opened."""
        self._path = path
        self._fd = -1 if path is None else _open(path)
        self._place = None if path is None else os.fstat(self._fd)
        self.lost = 0

    def write(self, line: str) -> None:
        """One line, whole: several processes may write to one file."""
        if self.lost:
            line = f'{{"event":"log_lines_lost","level":"error","count":{self.lost}}}\n{line}'
        try:
            self._follow()
            data = f"{line}\n".encode("utf-8", "backslashreplace")
            os.write(sys.stderr.fileno() if self._path is None else self._fd, data)
        except (OSError, ValueError, AttributeError):  # full, or standard error is closed
            self.lost += 1
        else:
            self.lost = 0

    def _follow(self) -> None:
        """Open the file anew where the one we have is no longer the one of that name."""
        if self._path is None or self._place is None:
            return
        try:
            place: os.stat_result | None = os.stat(self._path)  # noqa: PTH116 - for every line
        except FileNotFoundError:
            place = None
        if place is None or not os.path.samestat(place, self._place):
            self.reopen()

    def reopen(self) -> None:
        """Let go of the file and open the one that has its name now. Raises OSError."""
        if self._path is None:
            return
        fd = _open(self._path)
        os.close(self._fd)
        self._fd, self._place = fd, os.fstat(fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)


class Log:
    """Events, each a line of JSON with its time, level and name."""

    def __init__(self, file: LogFile, level: LogLevel) -> None:
        self.file = file
        self._bare = structlog.wrap_logger(
            _Lines(file),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
                structlog.processors.dict_tracebacks,
                _in_order,
                structlog.processors.JSONRenderer(separators=(",", ":"), ensure_ascii=False),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        )
        self.level = level

    def event(self, level: LogLevel, name: str, **values: object) -> None:
        if LEVELS[level] >= LEVELS[self.level]:
            self._bare.log(LEVELS[level], name, **values)

    def handler(self) -> logging.Handler:
        """Takes what libraries tell `logging`."""
        return _Library(self)


class _Lines:
    """The logger that structlog wraps."""

    def __init__(self, file: LogFile) -> None:
        self._file = file

    def msg(self, line: str) -> None:
        self._file.write(line)

    debug = info = warning = error = critical = log = msg


def _in_order(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Time, level and name first: people read it, too."""
    first = {name: event.pop(name) for name in ("at", "level", "event") if name in event}
    return {**first, **event}


class _Library(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        level = LogLevel.ERROR if record.levelno >= logging.ERROR else LogLevel.WARNING
        values: dict[str, object] = {"logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            values["exc_info"] = record.exc_info
        self._log.event(level, "library", **values)


class OutcomeLog:
    """An `Observer`: one event for every outcome of a URL, and for what else went wrong."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def contacted(self, seen: Contacted) -> None:
        """robots.txt and sitemaps, which have no outcome; pages have one."""
        if seen.kind == "page" or self._log.level is not LogLevel.DEBUG:
            return
        self._log.event(
            LogLevel.DEBUG,
            seen.kind,
            url=seen.url,
            host=seen.slot,
            status=seen.status,
            error=None if seen.error is None else seen.error.value,
            elapsed_s=round(seen.elapsed_s, 6),
            body_bytes=seen.body_bytes,
        )

    def settled(self, url: str, outcome: Outcome) -> None:
        log, info = self._log.event, LogLevel.INFO
        match outcome:
            case Visited():
                log(
                    info,
                    "visited",
                    url=url,
                    host=outcome.slot,
                    status=outcome.status,
                    content_type=outcome.content_type,
                    body_bytes=outcome.body_bytes,
                    elapsed_s=round(outcome.elapsed_s, 6),
                    links=len(outcome.links),
                )
            case Blocked():
                log(
                    info,
                    "blocked",
                    url=url,
                    host=outcome.slot,
                    reason=outcome.reason.value,
                    dialect=outcome.dialect,
                    rule=outcome.rule,
                    line=outcome.line,
                )
            case Failed():
                log(
                    LogLevel.WARNING,
                    "failed",
                    url=url,
                    host=outcome.slot,
                    error=outcome.error,
                    attempts=outcome.attempts,
                )
            case Retry():
                log(
                    info,
                    "retry",
                    url=url,
                    host=outcome.slot,
                    error=outcome.error,
                    attempts=outcome.attempts,
                    due_in_s=round(outcome.due_in_s, 3),
                )
            case Revisited(plan=None):
                pass  # nothing was asked: the config wants no visits of it any more
            case Revisited(plan=plan) if plan is not None:
                event, level = "unchanged", LogLevel.DEBUG
                if plan.failures:
                    event, level = "not_checked", info
                due_in_s = round(plan.due_in_s, 3)
                log(level, event, url=url, host=outcome.slot, due_in_s=due_in_s)
            case Dropped():
                log(info, "dropped", url=url, host=outcome.slot, reason=outcome.reason)
            case Moved():
                log(info, "moved", url=url, host=outcome.slot, to=outcome.to_slot)

    def gave_up(self, slot: str, origin: str, error: str, count: int) -> None:
        self._log.event(
            LogLevel.WARNING, "gave_up", host=slot, origin=origin, error=error, urls=count
        )

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None:
        self._log.event(
            LogLevel.DEBUG,
            "committed",
            elapsed_s=round(elapsed_s, 6),
            outcomes=outcomes,
            links=links,
        )
