"""The daemon's log: JSON lines, one event for every outcome, into a file that may be rotated under
its hands."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final

import structlog

from crawler.config.secrets import redact
from crawler.config.sections import LogLevel
from crawler.observer import Contacted
from crawler.output import CLOSE_S, BackgroundWriter, write_some
from crawler.telling.words import json_printable
from policies.holds import Hold
from storage.safe_files import FILE_MODE, is_stream, open_for_append
from storage.store import Blocked, Dropped, Failed, Moved, Outcome, Retry, Revisited, Visited

LEVELS: Final[Mapping[LogLevel, int]] = {
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
}


class LogFile(BackgroundWriter):
    """Where lines go: a file, opened again where somebody moved it away, or standard error.

    A line that cannot be written (a full disk, a pipe that nobody reads) is counted, and the crawl
    goes on; where lines are missing, a line says how many.
    """

    def __init__(self, path: Path | None, mode: int = FILE_MODE) -> None:
        """Raises OSError if the file cannot be opened."""
        super().__init__()
        self._path = path
        self._mode = mode
        self._fd = -1 if path is None else _open(path, mode)
        self._place = None if path is None else os.fstat(self._fd)
        self._torn = False  # the last line was not written to its end
        self._reopen = False

    def write(self, line: str) -> None:
        """One line of JSON, whole: several processes may write to one file."""
        self.put(f"{json_printable(line)}\n".encode("utf-8", "backslashreplace"))

    def reopen(self) -> None:
        """Before the next line, let go of the file and open the one that has its name then."""
        self._reopen = True

    def close(self, within_s: float = CLOSE_S) -> bool:
        done = super().close(within_s)
        if done and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        return done

    def _write(self, data: bytes) -> None:
        self._follow()
        fd = sys.stderr.fileno() if self._path is None else self._fd
        rest = memoryview(b"\n" + data if self._torn else data)
        while rest:
            rest = write_some(fd, rest)
            self._torn = bool(rest)

    def _lost_note(self, count: int) -> bytes:
        return b'{"event":"log_lines_lost","level":"error","count":%d}\n' % count

    def _follow(self) -> None:
        """Open the file anew where the one we have is no longer the one of that name, or where that
        was asked for. If that fails, the old one is written on, and says so once."""
        if self._path is None or self._place is None:
            return
        asked, self._reopen = self._reopen, False
        try:
            place: os.stat_result | None = self._path.stat()
        except FileNotFoundError:
            place = None
        if not asked and place is not None and os.path.samestat(place, self._place):
            return
        try:
            fd = _open(self._path, self._mode)
        except OSError as error:
            if not asked:
                raise
            note = f"the log cannot be opened anew: {error.strerror}"
            self.write(json.dumps({"event": "warning", "level": "warning", "message": note}))
            return
        os.close(self._fd)
        self._fd, self._place, self._torn = fd, os.fstat(fd), False


def _open(path: Path, mode: int) -> int:
    """A FIFO that nobody reads is not waited for: it raises OSError."""
    if not is_stream(path):
        return open_for_append(path, mode)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    os.set_blocking(fd, True)
    return fd


MALFORMED_A_MINUTE: Final = 60  # requests to the daemon that a peer broke, in the log
# Without the values of variables: headers, tokens and passwords are among them.
_TRACEBACKS: Final = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)


class Log:
    """Events, each a line of JSON with its time, level and name."""

    def __init__(self, file: LogFile, level: LogLevel) -> None:
        self.file = file
        self._bare = structlog.wrap_logger(
            _Lines(file),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
                structlog.processors.ExceptionRenderer(
                    # No local variables: there are pages among them, and secrets.
                    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
                ),
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
        self._minute = self._malformed = 0

    def emit(self, record: logging.LogRecord) -> None:
        level = LogLevel.ERROR if record.levelno >= logging.ERROR else LogLevel.WARNING
        message = redact(record.getMessage())
        values: dict[str, object] = {"logger": record.name, "message": message}
        error = record.exc_info[1] if record.exc_info else None
        if record.name == "aiohttp.server" and _is_of_the_peer(error):
            # A request that cannot be read: the error quotes it, with the token that it may have.
            # Or one whose answer nobody waited for. Anybody can send such ones, without end.
            minute = int(record.created // 60)
            if minute != self._minute:
                self._minute, self._malformed = minute, 0
            self._malformed += 1
            if self._malformed > MALFORMED_A_MINUTE:
                return
            level = LogLevel.WARNING
            values["error"] = type(error).__name__
            if self._malformed == MALFORMED_A_MINUTE:
                values["note"] = "further ones of this minute are left out"
        elif record.exc_info:
            values["exc_info"] = record.exc_info
        self._log.event(level, "library", **values)


def _is_of_the_peer(error: BaseException | None) -> bool:
    """Whether who made a request is to blame: it cannot be read, or its connection is lost."""
    return isinstance(error, ConnectionError) or type(error).__module__.startswith("aiohttp.")


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

    def hold_began(self, hold: Hold) -> None:
        self._log.event(
            LogLevel.WARNING, "hold_began", reason=hold.reason.value, sentence=hold.sentence
        )

    def hold_ended(self, hold: Hold, elapsed_s: float) -> None:
        self._log.event(
            LogLevel.WARNING,
            "hold_ended",
            reason=hold.reason.value,
            sentence=hold.sentence,
            elapsed_s=round(elapsed_s, 3),
        )
