"""Sessions of a crawl, the store's time between them, and what a killed process left in flight."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from math import inf
from typing import Final

import msgspec

from policies import quarantine
from policies.retries import FailureCode
from policies.robots_state import UNKNOWN
from policies.url import canonical
from storage.engine.counters import CounterChanges
from storage.engine.in_flight import LeftInFlight
from storage.engine.link_table import SUSPECT
from storage.engine.name_ids import NameIds
from storage.engine.robots_copies import RobotsCopies
from storage.engine.statements import Statements
from storage.engine.url_changes import UrlChanges, url_rows
from storage.store_errors import SUSPECT_REST_S
from storage.timekeeper import Moment
from storage.url_records import Failed, UrlState

SESSIONS_KEPT: Final = 1_000
# No store writes values beyond these: the file is damaged.
_TIME_S_MAX: Final = 1e11  # three thousand years
_SESSION_MAX: Final = 2**31


class CrawlSessions:
    """The sessions of a crawl. For the store's thread only."""

    def __init__(self, sql: Statements, names: NameIds, copies: RobotsCopies) -> None:
        self._sql = sql
        self._names = names
        self._copies = copies
        self._written: tuple[float, float] = (-inf, 0.0)  # time and shift last written
        self._begun = False

    def last_time(self, at: Moment) -> tuple[float, float, float | None] | None:
        """The arguments of `Timekeeper.resume`: the store's time when it was last written, how far
        it was ahead of the wall clock, and how long ago that was, if the machine's uptime tells."""
        if self._sql.shared:
            return None  # the server's clock runs without us
        row = self._sql.row("crawl")
        if row is None:
            return None
        last_s, shift_s = float(row[1] or 0.0), float(row[2] or 0.0)
        if not (0.0 <= last_s < _TIME_S_MAX and abs(shift_s) < _TIME_S_MAX):
            raise msgspec.ValidationError(f"no time: {last_s}, {shift_s}")
        boot, uptime_s = self._sql.row("uptime") or (None, None)
        passed_s = None
        if boot is not None and uptime_s is not None:
            passed_s = at.uptime.since(str(boot), float(uptime_s))
        return last_s, shift_s, passed_s

    def put_time(self, at: Moment) -> None:
        """Write the time once a second, so that the next session does not start before it."""
        if self._sql.shared or not self._begun:
            return  # the server's clock runs without us; or ours does not continue the last one yet
        last_s, shift_s = self._written
        if at.now_s - last_s > 1.0 or at.shift_s != shift_s:
            self._written = (at.now_s, at.shift_s)
            self._sql.run("put_time", at.now_s, at.shift_s, at.uptime.boot, at.uptime.uptime_s)

    def resume(self) -> None:
        """Continue a session that another object of this class began."""
        self._begun = True

    def next_number(self, at: Moment) -> int:
        """Number a new session."""
        if self._sql.row("crawl") is None:
            self._sql.run("new_crawl", at.now_s)
            self._written = (-inf, 0.0)
        (number,) = self._sql.row("new_session") or (None,)
        if not isinstance(number, int) or not 0 < number < _SESSION_MAX:
            raise msgspec.ValidationError(f"invalid session number: {number!r}")
        return number

    def begin(self, session: int, name: str, at: Moment) -> None:
        if not self._sql.shared:
            boot, _ = self._sql.row("uptime") or (None, None)
            if boot != at.uptime.boot:  # how long ago the last session was, nobody has measured
                self._sql.run("distrust", session - 1)
        self._sql.run("begin_session", session, name, at.wall_s)
        self._begun = True
        if self._sql.shared:
            self._sql.run("place_session", session, socket.gethostname(), os.getpid())
        self._sql.run("forget_sessions", session - SESSIONS_KEPT)

    def suspect(self, left: LeftInFlight, tally: CounterChanges, at: Moment) -> None:
        """Quarantine what was in flight for the second time when a process died; make the rest
        suspects."""
        changes = UrlChanges(self._sql, self._names, tally)
        suspects = []
        error = str(FailureCode.QUARANTINED) + (
            ": the process died twice while this URL was in flight; `courtly retry quarantined` "
            "queues it again"
        )
        for row in url_rows(self._sql, left.urls).values():
            if not (row.state in (UrlState.QUEUED, UrlState.VISITED) or row.planned):
                continue
            if row.flags & SUSPECT:
                failure = Failed(
                    id=row.id, slot=row.slot_name or "", error=error, attempts=2, last_at=at.wall_s
                )
                changes.failed(row, failure, self._names.texts([error]))
            else:
                suspects.append(row.id)
        changes.write()
        encoded = msgspec.json.encode(suspects).decode()
        self._sql.run("suspect", encoded, at.now_s + SUSPECT_REST_S)
        self._suspect_robots(left.robots, at)

    def _suspect_robots(self, robots: Sequence[tuple[str, str]], at: Moment) -> None:
        for slot, origin in robots:
            if not slot or "/" in origin[8:] or canonical(f"{origin}/") != f"{origin}/":
                continue  # the file is damaged
            known = self._copies.get(origin) or UNKNOWN
            died = quarantine.died_with(known, now_s=at.wall_s)
            self._copies.put(slot, origin, died, at, rejudge=False)
