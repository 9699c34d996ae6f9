"""The history of a crawl as it crosses a `Store`: what was counted in each minute, and
marks for what happened to the crawl itself."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from msgspec import Struct, field

from storage.log_histogram import Histogram, added

MINUTE_S: Final = 60
HOUR_S: Final = 3_600
MINUTES_KEPT_S: Final = 48 * HOUR_S  # then they are folded into hours
HOURS_KEPT_S: Final = 90 * 24 * HOUR_S  # so are marks
MERGED_AFTER_S: Final = 900  # the minutes of several sessions, into one row
# Further bounds, which only many workers or very many restarts reach.
MINUTE_ROWS_MAX: Final = 100_000
MARKS_MAX: Final = 10_000
FOLDED_AT_ONCE: Final = 600  # rows, in one transaction
MERGED_AT_ONCE: Final = 30  # minutes


class HistoryCounts(Struct, frozen=True, kw_only=True):
    """What one session counted in one step. The fields are the columns of its row, in their order.

    at: its begin, Unix seconds, a multiple of `step_s` (MINUTE_S, or HOUR_S once it is folded).
    session: who counted it; of a folded or merged one, who did that.
    observed_s: how long a crawl ran in it.
    queued: URLs of the whole crawl at the end of the step.
    counts, durations: the increases of the counters and histograms of the session, by name.
    """

    step_s: int = MINUTE_S
    at: int
    session: int = 0
    observed_s: float = 0.0
    queued: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    durations: Mapping[str, Histogram] = field(default_factory=dict)


class MarkKind(enum.StrEnum):
    """What happened to the crawl."""

    START = "start"  # of a process
    STOP = "stop"
    RELOAD = "reload"  # of the config
    PAUSE = "pause"  # of the whole crawl, by an operator
    RESUME = "resume"
    HOLD = "hold"  # a problem of the crawler's own machine or network
    TROUBLE = "trouble"  # a check of the health was bad


class Mark(Struct, frozen=True, kw_only=True):
    """One event in the life of a crawl. `session` and `number` name it. The fields are the columns
    of its row, in their order.

    at: Unix seconds. until: of a start, a hold and a trouble, when it ended (the process, in the
    case of a start), or up to when it is known to have lasted; otherwise `at`. lasting: it had not
    ended. reason, sentence: of a hold and a trouble (the name of the check); of a reload, what it
    changed; of a start, `paused` if the crawl was. actor: who gave the command, `via` which way
    ("page", "api", "socket", "signal"); "" where nobody did.
    """

    session: int
    number: int
    at: float
    until: float
    lasting: bool = False
    kind: MarkKind
    reason: str = ""
    sentence: str = ""
    actor: str = ""
    via: str = ""


class History(Struct, frozen=True, kw_only=True):
    """Counts by their begin, and marks by their time."""

    counts: Sequence[HistoryCounts]
    marks: Sequence[Mark]


def together(
    counts: Iterable[HistoryCounts], *, at: int, step_s: int, session: int = 0
) -> HistoryCounts:
    """The sum of counts, as one step. Sessions that crawled in the same minute saw the same queue,
    and nobody observed more of it than there was."""
    rows = sorted(counts, key=_moment)
    moments = [list(some) for _, some in groupby(rows, key=_moment)]
    observed_s = sum(
        min(float(some[0].step_s), sum(one.observed_s for one in some)) for some in moments
    )
    return HistoryCounts(
        at=at,
        step_s=step_s,
        session=session,
        observed_s=min(float(step_s), observed_s),
        queued=max((one.queued for one in moments[-1]), default=0) if moments else 0,
        counts=added(one.counts for one in rows),
        durations={
            name: added(one.durations.get(name, {}) for one in rows)
            for name in sorted({name for one in rows for name in one.durations})
        },
    )


def _moment(one: HistoryCounts) -> tuple[int, int]:
    """Return a key that sorts by time: of an hour in part folded, its single minutes are later."""
    return (one.at, -one.step_s)
