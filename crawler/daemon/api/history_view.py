"""The history of a crawl as the API and the page show it: points of equal steps, with percentiles,
and marks with their ends."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final

from msgspec import Struct, field, structs

from crawler.clock import Clock
from crawler.daemon.monitoring.history_recorder import HistoryRecorder
from crawler.daemon.problem import invalid
from storage.history import HOURS_KEPT_S, MINUTE_S, History, HistoryCounts, Mark, MarkKind, together
from storage.log_histogram import Histogram, percentile
from storage.reader import Reader

POINTS_MAX: Final = 3_000  # all minutes that are kept, or all hours
SPAN_DEFAULT_S: Final = 3_600.0
STEPS: Final = (60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400)
_POINTS_WANTED: Final = 400
_FOUND_SPANS: Final = frozenset((MarkKind.HOLD, MarkKind.TROUBLE))
SPANS: Final = _FOUND_SPANS | {MarkKind.PAUSE}  # marks that last
LATEST_S: Final = 1e11  # Unix seconds, in the year 5138
_HEARD_S: Final = 150.0  # a process writes its history once a minute


class HistoryPoint(Struct, frozen=True, kw_only=True):
    """One step, which begins `at` (Unix seconds) and is `step_s` long. Steps without a point: no
    crawl ran.

    observed_s: for how much of it a crawl ran. success, redirects, client_errors, server_errors:
    responses with a status of 2xx to 5xx; unanswered: requests without a usable response.
    latency_p50_s, latency_p95_s: percentiles of the time to the end of the response header;
    lateness_p50_s, lateness_p95_s: of how long after their host's delay requests began. They are
    right within 9 %, and `null` if there were none. failed: URLs that failed; given_up: those of
    them that failed together because their origin could not be connected to. queued: URLs at the
    end.
    """

    at: int
    step_s: int
    observed_s: float
    success: int
    redirects: int
    client_errors: int
    server_errors: int
    unanswered: int
    latency_p50_s: float | None
    latency_p95_s: float | None
    lateness_p50_s: float | None
    lateness_p95_s: float | None
    failed: int
    given_up: int
    queued: int


class HistoryMark(Struct, frozen=True, kw_only=True):
    """What happened to the crawl. `kind`: `start` and `stop` of a process, `reload`, `pause`,
    `resume`, `hold`, `trouble` (a check of the health was bad).

    ended_at: of a pause, a hold, a trouble and a start (when the process ended); `null` while it
    lasts, and for the others. clean: false for a start whose process ended without a stop. reason,
    sentence: of a hold; the name of a check and its cause; the changes of a reload; `paused` of a
    start, `error` of a stop. by, via: who gave the command, and which way. session: the process.
    """

    at: float
    kind: MarkKind
    ended_at: float | None
    clean: bool
    reason: str
    sentence: str
    by: str
    via: str
    session: int


class HistoryAnswer(Struct, frozen=True, kw_only=True):
    """GET /api/history. Steps without a point are gaps: no crawl ran. What is older than two days
    has steps of at least an hour."""

    from_: float = field(name="from")
    to: float
    step_s: int
    points: Sequence[HistoryPoint]
    marks: Sequence[HistoryMark]


class HistoryView:
    """Reads the history: what the database has, and what the recorder of this process has not
    written yet. shared: other processes write to the same database."""

    def __init__(
        self, reader: Reader, recorder: HistoryRecorder, clock: Clock, *, shared: bool
    ) -> None:
        self._reader = reader
        self._recorder = recorder
        self._clock = clock
        self._shared = shared

    async def history(
        self, *, from_: float | None = None, to: float | None = None, step: int | None = None
    ) -> HistoryAnswer:
        """The history of a span (Unix seconds; by default, the last hour), in steps of `step`
        seconds. Raises Problem (422)."""
        now_s = self._clock.wall()
        to_s = now_s if to is None else to
        from_s = to_s - SPAN_DEFAULT_S if from_ is None else from_
        _check_span(from_s, to_s)
        step_s = _step(from_s, to_s, step)
        stored = await self._reader.history(from_s=from_s, to_s=to_s)
        newest = self._recorder.newest()
        return HistoryAnswer(
            from_=from_s,
            to=to_s,
            step_s=step_s,
            points=points(_merged(stored, newest), from_s=from_s, to_s=to_s, step_s=step_s),
            marks=marks(
                _merged_marks(stored, newest),
                from_s=from_s,
                to_s=to_s,
                heard_s=now_s - _HEARD_S if self._shared else math.inf,
                own=self._recorder.session,
            ),
        )


def _check_span(from_s: float, to_s: float) -> None:
    for name, value in (("to", to_s), ("from", from_s)):
        if not 0 <= value <= LATEST_S:
            raise invalid(name, "must be a time in Unix seconds")
    if from_s >= to_s:
        raise invalid("from", "must be before `to`")


def _step(from_s: float, to_s: float, step: int | None) -> int:
    """The length of a step: the one asked for, or a round one that gives some hundred points."""
    if step is None:
        wanted = (to_s - from_s) / _POINTS_WANTED
        return next((each for each in STEPS if each >= wanted), int(wanted) + 1)
    if step < MINUTE_S:
        raise invalid("step", f"must be at least {MINUTE_S} seconds")
    if min(to_s - from_s, HOURS_KEPT_S) / step > POINTS_MAX:
        raise invalid("step", f"gives more than {POINTS_MAX:,} points: choose a longer one")
    return step


def _merged(stored: History, newest: History) -> list[HistoryCounts]:
    """All counts; what the process has in memory is newer than what it has written."""
    found = {(one.step_s, one.at, one.session): one for one in stored.counts}
    found |= {(one.step_s, one.at, one.session): one for one in newest.counts}
    return list(found.values())


def _merged_marks(stored: History, newest: History) -> list[Mark]:
    found = {(one.session, one.number): one for one in stored.marks}
    found |= {(one.session, one.number): one for one in newest.marks}
    return sorted(found.values(), key=lambda one: (one.at, one.session, one.number))


def points(
    counts: Iterable[HistoryCounts], *, from_s: float, to_s: float, step_s: int
) -> list[HistoryPoint]:
    """Points in steps that begin at multiples of `step_s`. Counts of longer steps, which are folded
    already, are points of their own."""
    bins: dict[tuple[int, int], list[HistoryCounts]] = {}
    for one in counts:
        if one.at + one.step_s > from_s and one.at < to_s:
            length_s = max(step_s, one.step_s)
            bins.setdefault((one.at // length_s * length_s, length_s), []).append(one)
    ordered = sorted(bins.items(), key=itemgetter(0))
    return [_point(together(some, at=at, step_s=length_s)) for (at, length_s), some in ordered]


def _point(one: HistoryCounts) -> HistoryPoint:
    counts = Counter(one.counts)
    latency, lateness = (one.durations.get(name, {}) for name in ("latency", "lateness"))
    return HistoryPoint(
        at=one.at,
        step_s=one.step_s,
        observed_s=round(one.observed_s, 1),
        success=counts["success"],
        redirects=counts["redirects"],
        client_errors=counts["client_errors"],
        server_errors=counts["server_errors"],
        unanswered=counts["unanswered"],
        latency_p50_s=_percentile(latency, 0.5),
        latency_p95_s=_percentile(latency, 0.95),
        lateness_p50_s=_percentile(lateness, 0.5),
        lateness_p95_s=_percentile(lateness, 0.95),
        failed=counts["failed"],
        given_up=counts["given_up"],
        queued=one.queued,
    )


def _percentile(histogram: Histogram, share: float) -> float | None:
    found = percentile(histogram, share)
    return None if found is None else round(found, 4)


def marks(
    found: Sequence[Mark], *, from_s: float, to_s: float, heard_s: float, own: int
) -> list[HistoryMark]:
    """The marks of a span, oldest first, and the pauses and holds that reach into it. found: with
    the last start, pause or resumption before it. heard_s: other processes from which nothing was
    heard since then have ended. own: the session of this process."""
    shown: list[HistoryMark] = []
    pause: int | None = None  # where the one is that lasts
    for mark in found:
        starts, stays = mark.kind is MarkKind.START, mark.kind is MarkKind.START and mark.reason
        if pause is not None and (mark.kind is MarkKind.RESUME or (starts and not stays)):
            shown[pause] = structs.replace(shown[pause], ended_at=mark.at)
            pause = None
        if mark.kind is MarkKind.PAUSE or stays:
            if pause is None:  # stays: the command came while no crawl ran to mark it
                pause = len(shown)
                shown.append(_shown(structs.replace(mark, kind=MarkKind.PAUSE, reason=""), None))
            if not starts:
                continue
        alive = mark.session == own or mark.until >= heard_s
        over = (starts or mark.kind in _FOUND_SPANS) and not (mark.lasting and alive)
        clean = not (starts and mark.lasting and not alive)
        shown.append(_shown(mark, mark.until if over else None, clean=clean))
    return [one for one in shown if one.at < to_s and (one.at >= from_s or _reaches(one, from_s))]


def _reaches(mark: HistoryMark, from_s: float) -> bool:
    """Whether a pause, hold or trouble that began before a span reaches into it."""
    if mark.kind not in SPANS:
        return False
    return mark.ended_at is None or mark.ended_at >= from_s


def _shown(mark: Mark, ended_at: float | None, *, clean: bool = True) -> HistoryMark:
    return HistoryMark(
        at=mark.at,
        kind=mark.kind,
        ended_at=ended_at,
        clean=clean,
        reason=mark.reason,
        sentence=mark.sentence,
        by=mark.actor,
        via=mark.via,
        session=mark.session,
    )
