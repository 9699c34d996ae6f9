"""The history of a crawl in its database: written once a minute, and folded as it ages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

import msgspec
from msgspec import structs

from storage.engine.statements import Statements, Value, Values, record
from storage.engine.writer import Writer
from storage.history import (
    FOLDED_AT_ONCE,
    HOUR_S,
    HOURS_KEPT_S,
    MARKS_MAX,
    MERGED_AFTER_S,
    MERGED_AT_ONCE,
    MINUTE_ROWS_MAX,
    MINUTE_S,
    MINUTES_KEPT_S,
    History,
    HistoryCounts,
    Mark,
    MarkKind,
    together,
)
from storage.row_values import number

_KINDS: Final = frozenset(MarkKind)


def put_history(
    writer: Writer, session: int, counts: Sequence[HistoryCounts], marks: Sequence[Mark]
) -> None:
    """Write steps and marks of the history, in place of what was written of them before.

    Minutes that several sessions have counted are merged after MERGED_AFTER_S, a few with each
    call. Minutes are folded into hours after MINUTES_KEPT_S, a few hundred with each call;
    hours and marks are deleted after HOURS_KEPT_S. If there are more than MINUTE_ROWS_MAX
    minutes or MARKS_MAX marks, the oldest are folded or deleted earlier."""
    sql, now_s = writer.sql, int(writer.at.wall_s)
    sql.many("put_history", [_of_counts(one) for one in counts])
    sql.many("put_marks", [_of_mark(one) for one in marks])
    _merge(sql, session, now_s)
    _fold(sql, session, now_s)
    sql.run("drop_history", HOUR_S, now_s - HOURS_KEPT_S)
    before_s = max(float(now_s - HOURS_KEPT_S), _first(sql.row("marks_excess", MARKS_MAX)))
    sql.run("drop_marks", before_s, before_s)


def _merge(sql: Statements, session: int, now_s: int) -> None:
    """Make one row of the minutes that several sessions have counted, so that the history of many
    workers is read as fast as that of one. None of them writes such an old minute again."""
    found = sql.rows("merge_history", MINUTE_S, now_s - MERGED_AFTER_S, MERGED_AT_ONCE)
    minutes = sorted((_counts(row) for row in found), key=lambda one: one.at)
    merged = [
        together(some, at=at, step_s=MINUTE_S, session=session)
        for at, some in groupby(minutes, key=lambda one: one.at)
    ]
    sql.many("put_history", [_of_counts(one) for one in merged])


def _fold(sql: Statements, session: int, now_s: int) -> None:
    """Fold minutes of hours that are over into rows of this session."""
    before_s = (now_s - MINUTES_KEPT_S) // HOUR_S * HOUR_S
    excess_s = int(_first(sql.row("history_excess", MINUTE_S, MINUTE_ROWS_MAX)))
    found = sql.rows("fold_history", MINUTE_S, max(before_s, excess_s), FOLDED_AT_ONCE)
    minutes = sorted((_counts(row) for row in found), key=lambda one: one.at)
    hours: list[HistoryCounts] = []
    for hour, some in groupby(minutes, key=lambda one: one.at // HOUR_S * HOUR_S):
        row = sql.row("history_of_hour", HOUR_S, hour, session)
        begun = [] if row is None else [_counts(row)]
        hours.append(together([*begun, *some], at=hour, step_s=HOUR_S, session=session))
    sql.many("put_history", [_of_counts(one) for one in hours])


def read_history(sql: Statements, *, from_s: float, to_s: float) -> History:
    """Return the history of a span of time (Unix seconds), as `Store.put_history` has written
    it: the steps of all sessions that touch it; the marks in it, those that began before and
    lasted, and the last start, pause or resumption before it."""
    rows = [
        row
        for step_s in (HOUR_S, MINUTE_S)
        for row in sql.rows("history", step_s, int(from_s) - step_s, int(to_s) + 1)
    ]
    counts = sorted((_counts(row) for row in rows), key=lambda one: (one.at, one.session))
    marks = [
        record(Mark, row) for row in sql.rows("marks", to_s, from_s, from_s) if row[5] in _KINDS
    ]
    return History(counts=counts, marks=marks)


def _of_counts(one: HistoryCounts) -> Values:
    *values, counts, durations = structs.astuple(one)
    return (*values, msgspec.json.encode(counts).decode(), msgspec.json.encode(durations).decode())


def _counts(row: Values) -> HistoryCounts:
    *values, counts, durations = row
    decoded = (
        msgspec.json.decode(str(counts), type=dict[str, int]),
        msgspec.json.decode(str(durations), type=dict[str, dict[int, int]]),
    )
    return record(HistoryCounts, (*values, *decoded))


def _of_mark(one: Mark) -> Values:
    return tuple(map(_storable, structs.astuple(one)))


def _storable(value: Any) -> Value:
    """PostgreSQL stores no NUL in a string, and no bool as a number."""
    if isinstance(value, str):
        return value.replace("\0", "?").encode("utf-8", "replace").decode()
    return int(value) if isinstance(value, bool) else value


def _first(row: Values | None) -> float:
    return 0.0 if row is None else number(row[0])
