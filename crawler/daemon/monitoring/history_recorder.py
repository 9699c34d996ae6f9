"""Counts what happens in each minute, marks what happens to the crawl itself, and keeps both in the
database, so that they survive a restart."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Final

from msgspec import structs

from crawler.clock import Clock
from crawler.daemon.health import Health, HealthState
from crawler.daemon.monitoring.metrics import outcome_of
from crawler.observer import Contacted, Observer
from crawler.operator_commands import CrawlState
from crawler.periodic import PeriodicSteps
from crawler.steering.control import Control
from policies.holds import Hold
from storage.history import MINUTE_S, History, HistoryCounts, Mark, MarkKind
from storage.log_histogram import bucket_of
from storage.store import Failed, Outcome, StoreError

# What waits for a database that cannot be written; beyond it, the oldest is lost.
MINUTES_WAITING_MAX: Final = 2_880
MARKS_WAITING_MAX: Final = 1_000
SAMPLES_APART_S: Final = 15.0  # a longer time between two samples counts as a gap of that length
SAME_SPAN_S: Final = 60.0  # a hold or trouble that returns within it continues the one before
LAST_WRITE_S: Final = 2.0  # at the end of the crawl
AGAIN_S: Final = 1.0  # after a write that failed
TEXT_SHOWN: Final = 500  # characters
_CLASSES: Final = {
    "2xx": "success",
    "3xx": "redirects",
    "4xx": "client_errors",
    "5xx": "server_errors",
}
_COMMANDS: Final = {
    "pause": MarkKind.PAUSE,
    "resume": MarkKind.RESUME,
    "reload": MarkKind.RELOAD,
}


class HistoryRecorder(Observer):
    """The history of one run. It belongs to the observers of the crawl; `recording` is open while
    the crawl runs, and `sample` is called every few seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._session = 0
        self._now = _Minute(self._minute())
        self._sampled_s: float | None = None
        self._minutes: dict[int, HistoryCounts] = {}  # that are over, by their begin
        self._marks: dict[int, Mark] = {}  # to be written, by number
        self._number = 0
        self._start: Mark | None = None
        self._spans: dict[tuple[MarkKind, str], Mark] = {}  # holds and troubles: the last of each
        self._due = asyncio.Event()

    @property
    def session(self) -> int:
        """The session of this process in its database; 0 before `recording`."""
        return self._session

    # ------------------------------------------------------------ the observer

    def contacted(self, seen: Contacted) -> None:
        now = self._current()
        name = _CLASSES.get(outcome_of(seen), "unanswered")
        now.counts[name] = now.counts.get(name, 0) + 1
        if seen.latency_s is not None:
            bucket = bucket_of(seen.latency_s)
            now.latency[bucket] = now.latency.get(bucket, 0) + 1
        bucket = bucket_of(seen.late_s)
        now.lateness[bucket] = now.lateness.get(bucket, 0) + 1

    def settled(self, url: str, outcome: Outcome) -> None:
        if isinstance(outcome, Failed):
            counts = self._current().counts
            counts["failed"] = counts.get("failed", 0) + 1

    def gave_up(self, slot: str, origin: str, error: str, count: int) -> None:
        counts = self._current().counts
        for name in ("failed", "given_up"):
            counts[name] = counts.get(name, 0) + count

    def hold_began(self, hold: Hold) -> None:
        self._begin(MarkKind.HOLD, hold.reason.value, hold.sentence, since=hold.since)

    def hold_ended(self, hold: Hold, elapsed_s: float) -> None:
        self._finish(MarkKind.HOLD, hold.reason.value)

    def judged(self, health: Health) -> None:
        """Mark the checks that are bad, except during holds, which make some of them so. Every few
        seconds."""
        holds = [mark for mark in self._spans.values() if mark.kind is MarkKind.HOLD]
        held = any(mark.lasting for mark in holds)
        held_until = max((mark.until for mark in holds), default=0.0)
        for check in health.checks:
            name = check.check.value
            if check.state is not HealthState.BAD:
                self._finish(MarkKind.TROUBLE, name)
            elif not held and not self._lasts(MarkKind.TROUBLE, name):
                since = None if check.since is None else max(check.since, held_until)
                self._begin(MarkKind.TROUBLE, name, check.sentence, since=since)

    def _lasts(self, kind: MarkKind, reason: str) -> bool:
        mark = self._spans.get((kind, reason))
        return mark is not None and mark.lasting

    def _begin(self, kind: MarkKind, reason: str, sentence: str, *, since: float | None) -> None:
        now_s = self._clock.wall()
        last = self._spans.get((kind, reason))
        if last is not None and now_s - last.until < SAME_SPAN_S:
            mark = structs.replace(last, until=max(last.until, now_s), lasting=True)
        else:
            mark = self._new(
                kind,
                at=now_s if since is None else min(since, now_s),
                until=now_s,
                lasting=True,
                reason=reason,
                sentence=sentence,
            )
        self._keep_span(mark)

    def _finish(self, kind: MarkKind, reason: str) -> None:
        mark = self._spans.get((kind, reason))
        if mark is not None and mark.lasting:
            until = max(mark.at, self._clock.wall())
            self._keep_span(structs.replace(mark, until=until, lasting=False))

    def _keep_span(self, mark: Mark) -> None:
        self._spans[mark.kind, mark.reason] = mark
        self._keep(mark)
        self._due.set()

    def commanded(self, what: str, values: Mapping[str, Any], actor: Mapping[str, Any]) -> None:
        """Mark a command of an operator that changed the crawl, if it concerns all of it. actor: as
        in `crawler.daemon.actor.logged_actor`."""
        kind = _COMMANDS.get(what)
        if kind is None:
            return
        changes = values.get("changes") or ()
        mark = self._new(
            kind,
            at=self._clock.wall(),
            sentence="; ".join(map(str, changes)),
            actor=str(actor.get("by", "")),
            via=str(actor.get("via", "")),
        )
        self._keep(mark)
        self._due.set()

    # ------------------------------------------------------------ minutes

    def sample(self, queued: int) -> None:
        """The crawl runs, and has so many queued URLs. Every few seconds."""
        now, now_s = self._current(), self._clock.monotonic()
        if self._sampled_s is not None:
            now.observed_s += min(SAMPLES_APART_S, max(0.0, now_s - self._sampled_s))
        self._sampled_s = now_s
        now.queued = queued

    def _minute(self) -> int:
        return int(self._clock.wall()) // MINUTE_S * MINUTE_S

    def _current(self) -> _Minute:
        """The minute that is being counted. One that is over is to be written."""
        minute = self._minute()
        # A clock set back by less than an hour: the minute lasts until that time has come again.
        if minute != self._now.at and not 0 < self._now.at - minute < 3_600:
            self._begin_minute(minute)
        return self._now

    def _begin_minute(self, minute: int) -> None:
        if self._now.is_any:
            self._minutes[self._now.at] = self._now.frozen(self._session)
        while len(self._minutes) > MINUTES_WAITING_MAX:
            del self._minutes[next(iter(self._minutes))]
        self._now = _Minute(minute, queued=self._now.queued)
        self._heard()
        self._due.set()

    def _heard(self) -> None:
        """The run, and what is not over, last until now."""
        now_s = self._clock.wall()
        if self._start is not None:
            self._start = structs.replace(self._start, until=max(self._start.at, now_s))
            self._keep(self._start)
        for key, mark in self._spans.items():
            if mark.lasting:
                self._spans[key] = structs.replace(mark, until=max(mark.at, now_s))
                self._keep(self._spans[key])

    # ------------------------------------------------------------ marks

    def _new(self, kind: MarkKind, *, at: float, until: float | None = None, **values: Any) -> Mark:
        self._number += 1
        values["sentence"] = values.get("sentence", "")[:TEXT_SHOWN]
        return Mark(
            session=self._session,
            number=self._number,
            kind=kind,
            at=at,
            until=at if until is None else until,
            **values,
        )

    def _keep(self, mark: Mark) -> None:
        self._marks[mark.number] = mark
        while len(self._marks) > MARKS_WAITING_MAX:
            del self._marks[next(iter(self._marks))]

    # ------------------------------------------------------------ writing

    @contextlib.asynccontextmanager
    async def recording(self, control: Control) -> AsyncIterator[None]:
        """Write the history while this is open, from the start of the process to its stop. A
        database that cannot be written delays nothing but the history."""
        self._session = control.session
        paused = control.state is CrawlState.PAUSED
        self._start = self._new(
            MarkKind.START,
            at=self._clock.wall(),
            reason="paused" if paused else "",
            lasting=True,
        )
        self._keep(self._start)
        self._due.set()
        why = ""
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(self._write_forever(control))
                try:
                    yield
                finally:
                    task.cancel()
        except BaseException as error:
            why = "" if isinstance(error, asyncio.CancelledError) else "error"
            raise
        finally:
            self._begin_minute(self._minute())
            self._end(why)
            # The crawl has reported why its database cannot be used.
            with contextlib.suppress(StoreError, TimeoutError):
                async with asyncio.timeout(LAST_WRITE_S):
                    await self._write(control)

    def _end(self, why: str) -> None:
        """Mark the stop. Nothing lasts any more."""
        stop = self._new(MarkKind.STOP, at=self._clock.wall(), reason=why)
        if self._start is not None:
            self._start = structs.replace(self._start, until=stop.at, lasting=False)
            self._keep(self._start)
        for key, mark in self._spans.items():
            if mark.lasting:
                self._spans[key] = structs.replace(mark, until=stop.at, lasting=False)
                self._keep(self._spans[key])
        self._keep(stop)

    async def _write_forever(self, control: Control) -> None:
        writes = PeriodicSteps("the writing of the history")
        while True:
            await self._due.wait()
            self._due.clear()
            await writes.take(partial(self._write, control))
            if writes.failing:
                await self._clock.sleep_until(self._clock.monotonic() + AGAIN_S)
                self._due.set()

    async def _write(self, control: Control) -> None:
        minutes, marks = dict(self._minutes), dict(self._marks)
        await control.put_history(list(minutes.values()), list(marks.values()))
        for at, counts in minutes.items():
            if self._minutes.get(at) is counts:
                del self._minutes[at]
        for number, mark in marks.items():
            if self._marks.get(number) is mark:
                del self._marks[number]

    def newest(self) -> History:
        """Return what is not written yet, or not as it is now, the current minute included: in
        place of what the database has of it."""
        counts = list(self._minutes.values())
        if self._now.is_any:
            counts.append(self._now.frozen(self._session))
        return History(counts=counts, marks=list(self._marks.values()))


class _Minute:
    """The minute that is being counted."""

    __slots__ = ("at", "counts", "latency", "lateness", "observed_s", "queued")

    def __init__(self, at: int, *, queued: int = 0) -> None:
        self.at = at
        self.observed_s = 0.0
        self.queued = queued
        self.counts: dict[str, int] = {}
        self.latency: dict[int, int] = {}
        self.lateness: dict[int, int] = {}

    @property
    def is_any(self) -> bool:
        return self.observed_s > 0.0 or bool(self.counts)

    def frozen(self, session: int) -> HistoryCounts:
        return HistoryCounts(
            at=self.at,
            session=session,
            observed_s=min(float(MINUTE_S), self.observed_s),
            queued=self.queued,
            latency=dict(self.latency),
            lateness=dict(self.lateness),
            **self.counts,
        )
