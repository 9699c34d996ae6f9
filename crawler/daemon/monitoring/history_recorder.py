"""Records the increases of the counters in each minute, marks what happens to the crawl itself, and
keeps both in the database, so that they survive a restart."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Final

from msgspec import structs

from crawler.clock import Clock
from crawler.daemon.health import Health, HealthState
from crawler.daemon.monitoring.metrics import Metrics
from crawler.observer import Observer
from crawler.operator_commands import CrawlState
from crawler.periodic import PeriodicSteps
from crawler.steering.control import Control
from policies.holds import Hold
from storage.history import MINUTE_S, History, HistoryCounts, Mark, MarkKind
from storage.store import StoreError

# What waits for a database that cannot be written; beyond it, the oldest is lost.
MINUTES_WAITING_MAX: Final = 2_880
MARKS_WAITING_MAX: Final = 1_000
SAMPLES_APART_S: Final = 15.0  # a longer time between two samples counts as a gap of that length
SAME_SPAN_S: Final = 60.0  # a hold or trouble that returns within it continues the one before
LAST_WRITE_S: Final = 2.0  # at the end of the crawl
AGAIN_S: Final = 1.0  # after a write that failed
TEXT_SHOWN: Final = 500  # characters
_COMMANDS: Final = {
    "pause": MarkKind.PAUSE,
    "resume": MarkKind.RESUME,
    "reload": MarkKind.RELOAD,
}


class HistoryRecorder(Observer):
    """The history of one run. It belongs to the observers of the crawl; `recording` is open while
    the crawl runs, and `sample` is called every few seconds, also when a minute is over.

    queued: URLs of the whole crawl, to be set when they are known.
    """

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self.queued = 0
        self._clock = clock
        self._metrics = metrics
        self._session = 0
        self._at = self._minute()  # the minute that is being counted
        self._before = metrics.sampled()  # at its begin
        self._observed_s = 0.0  # in it
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

    def sample(self) -> None:
        """The crawl runs. Count in the next minute from now on, if this one is over."""
        minute, now_s = self._minute(), self._clock.monotonic()
        # A clock set back by less than an hour: the minute lasts until that time has come again.
        if minute != self._at and not 0 < self._at - minute < 3_600:
            self._begin_minute(minute)
        if self._sampled_s is not None:
            self._observed_s += min(SAMPLES_APART_S, max(0.0, now_s - self._sampled_s))
        self._sampled_s = now_s

    def _minute(self) -> int:
        return int(self._clock.wall()) // MINUTE_S * MINUTE_S

    def _counted(self) -> list[HistoryCounts]:
        """What was counted in the minute until now, as one step; none if no crawl ran."""
        found = self._metrics.sampled().since(self._before)
        if not self._observed_s and not found.counts:
            return []
        return [
            HistoryCounts(
                at=self._at,
                session=self._session,
                observed_s=min(float(MINUTE_S), self._observed_s),
                queued=self.queued,
                counts=found.counts,
                durations=found.durations,
            )
        ]

    def _begin_minute(self, minute: int) -> None:
        for counts in self._counted():
            self._minutes[counts.at] = counts
        while len(self._minutes) > MINUTES_WAITING_MAX:
            del self._minutes[next(iter(self._minutes))]
        self._at, self._before, self._observed_s = minute, self._metrics.sampled(), 0.0
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
        counts = [*self._minutes.values(), *self._counted()]
        return History(counts=counts, marks=list(self._marks.values()))
