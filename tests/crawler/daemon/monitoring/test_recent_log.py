"""The latest lines of the log stay in memory: bounded, by kind, and as they were written."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.config.sections import LogLevel
from crawler.daemon.api.url_lists import LEVELS, LogView
from crawler.daemon.monitoring import recent_log
from crawler.daemon.monitoring.event_log import EventLog, LogFile
from crawler.daemon.monitoring.recent_log import ACTIONS, RecentLog
from crawler.daemon.problem import Problem


class Nowhere(LogFile):
    """A log file that keeps its lines."""

    def __init__(self) -> None:
        super().__init__(None)
        self.lines: list[dict[str, Any]] = []

    def put(self, piece: bytes) -> None:
        self.lines.append(json.loads(piece))


@pytest.fixture
def log() -> EventLog:
    return EventLog(Nowhere(), LogLevel.INFO)


def names(recent: RecentLog, **wanted: Any) -> list[str]:
    return [line.event for line in recent.lines(**wanted)]


def test_it_has_what_was_written(log: EventLog) -> None:
    log.hide(["a-secret-token"])
    log.event(LogLevel.DEBUG, "robots", url="http://a.test/robots.txt")  # below the level
    log.event(LogLevel.INFO, "visited", url="http://a.test/", status=200)
    log.event(LogLevel.WARNING, "refused", why="with a-secret-token, “ü”")
    assert isinstance(log.file, Nowhere)
    assert [json.loads(line.text) for line in log.recent.lines()] == log.file.lines[::-1]
    assert [(line.number, line.level) for line in log.recent.lines()] == [
        (2, "warning"),
        (1, "info"),
    ]
    assert "a-secret-token" not in str(list(log.recent.lines()))


def test_a_flood_of_one_kind_displaces_no_other(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an operator did last week is still there after a million pages."""
    monkeypatch.setattr(recent_log, "LINES_MAX", 10)
    log.event(LogLevel.INFO, "steered", what="pause")
    log.event(LogLevel.WARNING, "hold_began", reason="network")
    for number in range(50):
        log.event(LogLevel.INFO, "visited", number=number)
        log.event(LogLevel.WARNING, "failed", number=number)
    for _ in range(8):
        log.event(LogLevel.WARNING, "unauthorized")
    assert names(log.recent, events=ACTIONS) == ["unauthorized"] * 8 + ["steered"]
    assert names(log.recent, events={"hold_began"}) == ["hold_began"]
    assert names(log.recent, events={"visited", "failed"}) == ["failed", "visited"] * 5
    assert (len(log.recent), log.recent.count) == (10 + 9 + 1, 110)


def test_its_size_is_bounded(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_log, "BYTES_MAX", 5_000)
    for number in range(100):
        log.event(LogLevel.INFO, "visited", number=number, url="x" * 300)
    lines = list(log.recent.lines())
    assert sum(len(line.text) for line in lines) <= 5_000
    assert [line.number for line in lines] == [*range(100, 100 - len(lines), -1)]
    assert len(lines) > 8


def test_a_line_that_is_too_long_is_kept_without_its_details(log: EventLog) -> None:
    log.event(LogLevel.ERROR, "library", message="x" * (recent_log.LINE_CHARS_MAX + 1))
    (line,) = log.recent.lines()
    assert (line.event, line.level) == ("library", "error")
    assert "too long to be kept" in json.loads(line.text)["note"]


def test_lines_are_added_by_any_thread(log: EventLog) -> None:
    def write() -> None:
        for _ in range(200):
            log.event(LogLevel.INFO, "visited")
            list(log.recent.lines(events={"visited"}))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [line.number for line in log.recent.lines()] == [*range(800, 0, -1)]


# ---------------------------------------------------------------- its view


async def test_a_filter_and_pages(log: EventLog) -> None:
    view = LogView(log.recent, "x.log")
    for number in range(25):
        level = LogLevel.WARNING if number % 5 == 0 else LogLevel.INFO
        log.event(level, "failed" if number % 5 == 0 else "visited", url=f"http://A.test/{number}")
    log.event(LogLevel.INFO, "steered", what="pause", by="alice")
    page = await view.lines(limit=10)
    assert [line.number for line in page.lines] == [*range(26, 16, -1)]
    assert page.lines[0].values == {"what": "pause", "by": "alice"}
    assert (page.after, page.kept, page.written) == ("17", 26, 26)
    log.event(LogLevel.INFO, "visited")  # the next page does not move
    page = await view.lines(limit=20, after="17")
    assert [line.number for line in page.lines] == [*range(16, 0, -1)]
    assert page.after is None
    assert [one.event for one in (await view.lines(level="warning")).lines] == ["failed"] * 5
    assert [one.event for one in (await view.lines(event="actions")).lines] == ["steered"]
    assert len((await view.lines(text="a.TEST/1", level="info")).lines) == 11
    assert len((await view.lines(text='"by":"alice"')).lines) == 1
    assert (await view.lines(event="nothing")).lines == []
    assert view.events() == ["failed", "steered", "visited"]


@pytest.mark.parametrize(
    ("wanted", "field"),
    [({"level": "loud"}, "level"), ({"after": "x"}, "after"), ({"after": "²"}, "after"),
     ({"after": "9" * 30}, "after")],
)  # fmt: skip
async def test_a_wrong_filter_is_refused(wanted: Any, field: str) -> None:
    with pytest.raises(Problem) as caught:
        await LogView(RecentLog()).lines(**wanted)
    assert caught.value.field == field


EVENTS = ("visited", "failed", "steered", "refused", "hold_began")


@given(
    st.lists(st.tuples(st.sampled_from(list(LEVELS)), st.sampled_from(EVENTS)), max_size=60),
    st.sampled_from(["", *LEVELS]),
    st.sampled_from(["", "actions", *EVENTS]),
    st.integers(1, 7),
)
async def test_pages_have_every_line_that_matches_once(
    written: list[tuple[LogLevel, str]], level: str, event: str, limit: int
) -> None:
    log = EventLog(Nowhere(), LogLevel.DEBUG)
    for one, name in written:
        log.event(one, name)
    view, found, after = LogView(log.recent), [], ""
    while True:
        page = await view.lines(level=level, event=event, limit=limit, after=after)
        found += [(line.level, line.event) for line in page.lines]
        if page.after is None:
            break
        after = page.after
    severe = LEVELS[LEVELS.index(LogLevel(level)) :] if level else LEVELS
    wanted = ACTIONS if event == "actions" else EVENTS if not event else (event,)
    assert found == [one for one in reversed(written) if one[0] in severe and one[1] in wanted]
