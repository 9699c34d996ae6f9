"""The daemon's log: JSON lines, one event for every outcome, in a file that may be rotated while it
is written."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final

import structlog

from crawler.config.secrets import HIDDEN, redact
from crawler.config.sections import LogLevel
from crawler.daemon.monitoring.recent_log import RecentLog
from crawler.explain.formatting import json_printable
from crawler.observer import Contacted, Observer
from crawler.output import CLOSE_S, BackgroundWriter, write_some
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
    """The output of the log: a file, opened again after it was moved, or standard error.

    A line that cannot be written (a full disk, a pipe without a reader) is counted, and the crawl
    continues; a later line says how many are missing.
    """

    def __init__(self, path: Path | None, mode: int = FILE_MODE) -> None:
        """Raises OSError if the file cannot be opened."""
        super().__init__()
        self._path = path
        self.name = "" if path is None else path.name  # "": standard error
        self._mode = mode
        self._fd = -1 if path is None else _open(path, mode)
        self._place = None if path is None else os.fstat(self._fd)
        self._torn = False  # the last line is incomplete
        self._reopen = False

    def write(self, line: str) -> None:
        """Write one line of JSON in a single write: several processes may share one file."""
        self.put(f"{json_printable(line)}\n".encode("utf-8", "backslashreplace"))

    def reopen(self) -> None:
        """Open the file by its name again before the next line."""
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
        """Open the file again if its name belongs to another file now, or after `reopen`. If a
        requested reopen fails, the old file is kept, with a warning."""
        if self._path is None or self._place is None:
            return
        requested, self._reopen = self._reopen, False
        try:
            place: os.stat_result | None = self._path.stat()
        except FileNotFoundError:
            place = None
        if not requested and place is not None and os.path.samestat(place, self._place):
            return
        try:
            fd = _open(self._path, self._mode)
        except OSError as error:
            if not requested:
                raise
            note = f"the log cannot be reopened: {error.strerror}"
            self.write(json.dumps({"event": "warning", "level": "warning", "message": note}))
            return
        os.close(self._fd)
        self._fd, self._place, self._torn = fd, os.fstat(fd), False


def _open(path: Path, mode: int) -> int:
    """Open the log. Raises OSError, for a FIFO without a reader as well."""
    if not is_stream(path):
        return open_for_append(path, mode)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    os.set_blocking(fd, True)
    return fd


HIDDEN_CHARS: Final = 8
MALFORMED_A_MINUTE: Final = 60  # malformed requests to the daemon that are logged
# Without local variables, which may hold pages and secrets.
_TRACEBACKS: Final = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)


class EventLog:
    """Writes events, each as a line of JSON with its time, level and name. `recent` keeps the
    latest of them.

    worker: the number of this process, if it is one of several with the same log.
    """

    def __init__(self, file: LogFile, level: LogLevel, *, worker: int | None = None) -> None:
        self.file = file
        self._always: Mapping[str, object] = {} if worker is None else {"worker": worker}
        self.recent = RecentLog()
        self._lines = _LineWriter(file, self.recent)
        self._logger = structlog.wrap_logger(
            self._lines,
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
                _TRACEBACKS,
                _in_order,
                structlog.processors.JSONRenderer(separators=(",", ":"), ensure_ascii=False),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        )
        self.level = level

    def hide(self, secrets: Iterable[str]) -> None:
        """Write HIDDEN in place of these strings from now on, wherever they occur. Strings shorter
        than HIDDEN_CHARS are kept: they may be part of other words."""
        self._lines.hidden += tuple(
            json.dumps(one, ensure_ascii=False)[1:-1] for one in secrets if len(one) >= HIDDEN_CHARS
        )

    def event(self, level: LogLevel, name: str, **values: object) -> None:
        if LEVELS[level] >= LEVELS[self.level]:
            self._logger.log(LEVELS[level], name, **values, **self._always)

    def handler(self) -> logging.Handler:
        """A handler for what libraries log with `logging`."""
        return _LibraryHandler(self)


class _LineWriter:
    """The logger that structlog wraps."""

    def __init__(self, file: LogFile, recent: RecentLog) -> None:
        self._file = file
        self._recent = recent
        self.hidden: tuple[str, ...] = ()  # as they are in JSON

    def msg(self, line: str) -> None:
        for secret in self.hidden:
            line = line.replace(secret, HIDDEN)
        self._file.write(line)
        self._recent.add(line)

    debug = info = warning = error = critical = log = msg


def _in_order(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Time, level and name first, for human readers."""
    first = {name: event.pop(name) for name in ("at", "level", "event") if name in event}
    return {**first, **event}


class _LibraryHandler(logging.Handler):
    def __init__(self, log: EventLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._minute = self._malformed = 0

    def emit(self, record: logging.LogRecord) -> None:
        level = LogLevel.ERROR if record.levelno >= logging.ERROR else LogLevel.WARNING
        message = redact(record.getMessage())
        values: dict[str, object] = {"logger": record.name, "message": message}
        error = record.exc_info[1] if record.exc_info else None
        if record.name == "aiohttp.server" and _is_client_error(error):
            # A malformed request, which the error quotes with any token in it, or a lost
            # connection. Anyone can cause any number of them.
            minute = int(record.created // 60)
            if minute != self._minute:
                self._minute, self._malformed = minute, 0
            self._malformed += 1
            if self._malformed > MALFORMED_A_MINUTE:
                return
            level = LogLevel.WARNING
            values["error"] = type(error).__name__
            if self._malformed == MALFORMED_A_MINUTE:
                values["note"] = "further ones in this minute are not logged"
        elif record.exc_info:
            values["exc_info"] = record.exc_info
        self._log.event(level, "library", **values)


def _is_client_error(error: BaseException | None) -> bool:
    """Whether the client caused it: a malformed request, or a lost connection."""
    return isinstance(error, ConnectionError) or type(error).__module__.startswith("aiohttp.")


class OutcomeLog(Observer):
    """Logs an event for every outcome of a URL, for unreachable origins, commits and holds."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def contacted(self, seen: Contacted) -> None:
        """Log robots.txt and sitemaps at level debug; pages are logged with their outcomes."""
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
        level, name, values = LogLevel.INFO, type(outcome).__name__.lower(), dict[str, object]()
        match outcome:
            case Visited():
                values = {
                    "status": outcome.status,
                    "content_type": outcome.content_type,
                    "body_bytes": outcome.body_bytes,
                    "elapsed_s": round(outcome.elapsed_s, 6),
                    "links": len(outcome.links),
                }
            case Blocked():
                values = {
                    "reason": outcome.reason.value,
                    "dialect": outcome.dialect,
                    "rule": outcome.rule,
                    "line": outcome.line,
                }
            case Failed():
                level = LogLevel.WARNING
                values = {"error": outcome.error, "attempts": outcome.attempts}
            case Retry():
                values = {
                    "error": outcome.error,
                    "attempts": outcome.attempts,
                    "due_in_s": round(outcome.due_in_s, 3),
                }
            case Revisited():
                if (plan := outcome.plan) is None:
                    return  # no request was made: the config excludes the URL now
                name = "not_checked" if plan.failures else "unchanged"
                level = LogLevel.INFO if plan.failures else LogLevel.DEBUG
                values = {"due_in_s": round(plan.due_in_s, 3)}
            case Dropped():
                values = {"reason": outcome.reason}
            case Moved():
                values = {"to": outcome.to_slot}
            case _:
                return  # a sitemap: logged as a contact
        self._log.event(level, name, url=url, host=outcome.slot, **values)

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
        self._hold("hold_began", hold)

    def hold_ended(self, hold: Hold, elapsed_s: float) -> None:
        self._hold("hold_ended", hold, elapsed_s=round(elapsed_s, 3))

    def _hold(self, name: str, hold: Hold, **values: object) -> None:
        self._log.event(
            LogLevel.WARNING, name, reason=hold.reason.value, sentence=hold.sentence, **values
        )
