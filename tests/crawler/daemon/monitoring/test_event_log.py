"""The log: JSON lines, one event for every outcome, in a file that may be moved."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp.http_exceptions import BadHttpMessage
from msgspec import structs

from crawler.config import from_dict
from crawler.config.sections import LogLevel
from crawler.daemon.monitoring.event_log import MALFORMED_A_MINUTE, EventLog, LogFile, OutcomeLog
from crawler.daemon.notify import Notify
from crawler.daemon_process import Daemon
from storage.store import (
    Blocked,
    BlockReason,
    Dropped,
    Failed,
    Moved,
    Outcome,
    Plan,
    Retry,
    Revisited,
    StoreError,
    Visited,
)

VISITED = Visited(
    id=1, slot="a.test", status=200, fetched_at=1.0, content_type="text/html", body_bytes=5,
    elapsed_s=0.1234567891,
)  # fmt: skip
BLOCKED = Blocked(
    id=2, slot="a.test", reason=BlockReason.ROBOTS, dialect="slurp", rule="Disallow: /x", line=2,
    robots_url="http://a.test/robots.txt", blocked_at=1.0,
)  # fmt: skip
FAILED = Failed(id=3, slot="a.test", error="timeout: no answer", attempts=3, last_at=1.0)
RETRY = Retry(id=4, slot="a.test", due_in_s=2.0, attempts=1, refusals=0, error="timeout: no answer")
DROPPED = Dropped(id=5, slot="a.test", reason="scope.follow")
MOVED = Moved(id=6, slot="a.test", to_slot="b.test")
PLAN = Plan(due_in_s=60.0, interval_s=60.0, checked_at=1.0, changed_at=1.0)
UNCHANGED = Revisited(id=7, slot="a.test", plan=PLAN)
NOT_CHECKED = Revisited(id=8, slot="a.test", plan=structs.replace(PLAN, failures=1))
UNPLANNED = Revisited(id=9, slot="a.test", plan=None)  # nothing was asked: no event
OUTCOMES: list[Outcome] = [
    VISITED, BLOCKED, FAILED, RETRY, DROPPED, MOVED, UNCHANGED, NOT_CHECKED, UNPLANNED,
]  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "courtly.log"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def told(path: Path, level: LogLevel) -> list[str]:
    file = LogFile(path)
    log = OutcomeLog(EventLog(file, level))
    for outcome in OUTCOMES:
        log.settled("http://a.test/x", outcome)
    log.gave_up("a.test", "http://a.test", "dns: no such name", 7)
    log.committed(0.1, 1, 2)
    file.close()
    return [line["event"] for line in lines(path)]


@pytest.mark.parametrize(
    ("level", "events"),
    [
        (LogLevel.ERROR, []),
        (LogLevel.WARNING, ["failed", "gave_up"]),
        (
            LogLevel.INFO,
            ["visited", "blocked", "failed", "retry", "dropped", "moved", "not_checked", "gave_up"],
        ),
        (
            LogLevel.DEBUG,
            [
                "visited",
                "blocked",
                "failed",
                "retry",
                "dropped",
                "moved",
                "unchanged",
                "not_checked",
                "gave_up",
                "committed",
            ],
        ),
    ],
)
def test_every_outcome_is_one_event_at_its_level(
    path: Path, level: LogLevel, events: list[str]
) -> None:
    assert told(path, level) == events


def test_time_level_and_name_come_first(path: Path) -> None:
    told(path, LogLevel.INFO)
    first = lines(path)[0]
    assert list(first)[:4] == ["at", "level", "event", "url"]
    assert first["at"].endswith("Z")
    assert (first["status"], first["elapsed_s"]) == (200, 0.123457)


def test_strings_from_the_web_cannot_break_a_line(path: Path) -> None:
    file = LogFile(path)
    OutcomeLog(EventLog(file, LogLevel.INFO)).settled('http://a.test/\n"},{\ud800\u2028', VISITED)
    file.close()
    (line,) = path.read_bytes().splitlines()
    assert json.loads(line)["event"] == "visited"


def put(file: LogFile, line: str) -> None:
    """Write a line, and wait until it is written or lost."""
    file.write(line)
    ends_s = time.monotonic() + 10
    while file._waiting_bytes and time.monotonic() < ends_s:
        time.sleep(0.005)
    assert not file._waiting_bytes


def test_a_moved_file_is_opened_again(path: Path) -> None:
    file = LogFile(path)
    put(file, "{}")
    path.rename(path.with_suffix(".1"))
    put(file, '{"event": 2}')
    assert lines(path) == [{"event": 2}]
    assert lines(path.with_suffix(".1")) == [{}]
    path.unlink()
    put(file, '{"event": 3}')
    assert lines(path) == [{"event": 3}]
    file.reopen()
    file.write('{"event": 4}')
    assert file.close()
    assert [line["event"] for line in lines(path)] == [3, 4]


def test_lines_that_cannot_be_written_are_counted(path: Path) -> None:
    """A full disk does not end the crawl."""
    file = LogFile(path)
    full = os.open("/dev/full", os.O_WRONLY)
    held = os.dup(file._fd)
    os.dup2(full, file._fd)
    for _ in range(3):
        put(file, "{}")
    assert file.lost == 3
    os.dup2(held, file._fd)
    put(file, '{"event": "next"}')
    for fd in (full, held):
        os.close(fd)
    file.close()
    assert [(line["event"], line.get("count")) for line in lines(path)] == [
        ("log_lines_lost", 3),
        ("next", None),
    ]


def test_a_deleted_folder_is_not_an_error(path: Path) -> None:
    deep = path.parent / "deep"
    deep.mkdir()
    file = LogFile(deep / "x.log")
    put(file, "{}")
    (deep / "x.log").unlink()
    deep.rmdir()
    put(file, "{}")
    assert file.lost == 1
    deep.mkdir()
    put(file, "{}")
    assert file.close()
    assert [line.get("count") for line in lines(deep / "x.log")] == [1, None]


def test_the_old_file_is_kept_if_it_cannot_be_reopened(path: Path) -> None:
    file = LogFile(path)
    put(file, "{}")
    path.unlink()
    path.mkdir()
    file.reopen()
    put(file, "{}")
    assert file.close()
    assert file.lost == 1  # what the place holds now is no file; the warning was written


def test_a_pipe_that_nobody_reads_never_makes_it_wait(path: Path) -> None:
    """A bounded number of lines waits for a reader; a later line counts the lost ones."""
    os.mkfifo(path)
    with pytest.raises(OSError, match="No such device"):
        LogFile(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    file = LogFile(path)
    line = json.dumps({"event": "x", "text": "y" * 900})
    began_s = time.monotonic()
    for _ in range(5_000):
        file.write(line)
    assert not file.close(within_s=0.2)
    assert time.monotonic() - began_s < 5
    lost = file.lost
    assert lost > 3_000
    found = b""
    ends_s = time.monotonic() + 10
    missing = 0
    while missing < lost and time.monotonic() < ends_s:
        with contextlib.suppress(BlockingIOError):
            found += os.read(reader, 1_000_000)
        whole = found[: found.rfind(b"\n") + 1]
        events = [json.loads(one) for one in whole.splitlines()]
        missing = sum(one.get("count", 0) for one in events)
    assert missing == lost
    assert len([one for one in events if one["event"] == "x"]) == 5_000 - lost
    file.close()
    os.close(reader)


def test_a_missing_folder_is_reported_at_start(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LogFile(tmp_path / "nowhere" / "x.log")


def test_library_logs_are_included_with_tracebacks(path: Path) -> None:
    file = LogFile(path)
    logger = logging.getLogger("courtly.test")
    handler = EventLog(file, LogLevel.INFO).handler()
    logger.addHandler(handler)
    try:
        raise ValueError("odd")  # noqa: TRY301
    except ValueError:
        logger.exception("a request failed: %s", "GET")
    logger.removeHandler(handler)
    file.close()
    (line,) = lines(path)
    assert (line["level"], line["message"]) == ("error", "a request failed: GET")
    assert "ValueError" in json.dumps(line["exception"])


@pytest.mark.parametrize("kind", [BadHttpMessage, ConnectionResetError])
def test_malformed_requests_do_not_fill_the_disk(path: Path, kind: type[Exception]) -> None:
    file = LogFile(path)
    handler = EventLog(file, LogLevel.INFO).handler()
    error = kind("Authorization: Bearer hunter2")
    for number in range(1_000):
        made = {"name": "aiohttp.server", "levelno": logging.ERROR, "msg": "Error handling request"}
        record = logging.makeLogRecord({**made, "exc_info": (type(error), error, None)})
        record.created = 6_000.0 + number / 10
        handler.emit(record)
    file.close()
    found = lines(path)
    assert len(found) == 2 * MALFORMED_A_MINUTE
    assert found[MALFORMED_A_MINUTE - 1]["note"] == "further ones in this minute are not logged"
    assert {line["error"] for line in found} == {kind.__name__}
    assert "hunter2" not in path.read_text()


async def test_the_last_line_is_the_fatal_error(path: Path) -> None:
    config = from_dict({"daemon": {"log": str(path)}})
    daemon = Daemon(config, announce=print, notify=Notify({}))
    daemon.died(ExceptionGroup("two", [OSError("odd"), StoreError("there is no room left")]))
    daemon.log.file.close()
    (line,) = lines(path)
    assert (line["event"], line["level"]) == ("died", "error")
    assert (line["error"], line["message"]) == ("StoreError", "there is no room left")
