"""Snapshots of a running crawl, and the summary at its end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import NamedTuple

from crawler.clock import Clock
from crawler.events import (
    LOOKED_AT_MAX,
    WAITING_SHOWN,
    FrequentReason,
    Progress,
    SlowHost,
    Summary,
    WaitingHost,
)
from crawler.frontier.reasons import PAUSED, READY, Reason, Wait, latest_backoff, run_limit_reached
from crawler.periodic import PeriodicSteps
from crawler.scheduling.scheduler import Scheduler
from crawler.steering.live_state import HostState, host_state
from policies.scope import SKIP_KEYS
from storage.reader import Reader
from storage.store import Row, Stats, Store, StoreError

OBSERVE_EVERY_S = 0.25
# Thousands of hosts take longer than requests may wait, so other work is done after each slice, and
# all looks together take at most a twentieth of the time.
HOSTS_IN_SLICE = 64
PAUSE_TIMES = 19
WORKERS_EVERY_S = 1.0
SLOW_HOSTS_SHOWN = 5
FETCHING_SHOWN = 8
REASONS_SHOWN = 5
_HELD_UP = (HostState.WAITING, HostState.ROBOTS, HostState.PAUSED, HostState.CLOSED)


class Snapshots:
    """Takes snapshots of a running crawl. reader: of its database, if other workers share it."""

    def __init__(
        self, scheduler: Scheduler, store: Store, clock: Clock, *, reader: Reader | None = None
    ) -> None:
        self._scheduler = scheduler
        self._store = store
        self._clock = clock
        self._reader = reader
        self._others: Sequence[Row] = ()
        self._began_s = clock.monotonic()
        self._pause_s = 0.0  # at least, before the next look

    async def report(self, observe: Callable[[Progress], None]) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._report(observe))
            if self._reader is not None:
                group.create_task(self._watch_others(self._reader))

    async def _watch_others(self, reader: Reader) -> None:
        looks = PeriodicSteps("the look at the other workers")
        while True:
            await looks.take(partial(self._count_others, reader))
            await self._clock.sleep_until(self._clock.monotonic() + WORKERS_EVERY_S)

    async def _count_others(self, reader: Reader) -> None:
        own = self._scheduler.crawl.session
        with suppress(StoreError):  # the crawl says what is wrong with the database
            self._others = [row for row in await reader.workers() if row["id"] != own]

    def _of_others(self, column: str) -> float:
        values = [row[column] for row in self._others]
        return sum(value for value in values if isinstance(value, int | float))

    async def _report(self, observe: Callable[[Progress], None]) -> None:
        next_s, looks = self._began_s, PeriodicSteps("the look at the progress")
        while True:
            next_s = max(next_s + OBSERVE_EVERY_S, self._clock.monotonic() + self._pause_s)
            await self._clock.sleep_until(next_s)
            stats = await looks.take(self._store.stats)
            if stats is not None:
                observe(await self.snapshot(stats))

    async def snapshot(self, stats: Stats) -> Progress:
        frontier, now_s = self._scheduler.frontier, self._clock.monotonic()
        states: Counter[str] = Counter()
        slow: list[SlowHost] = []
        slice_s, self._pause_s = now_s, 0.0
        for n, host in enumerate(list(frontier.permits), 1):
            if n % HOSTS_IN_SLICE == 0:
                self._pause_s += PAUSE_TIMES * (self._clock.monotonic() - slice_s)
                await asyncio.sleep(0)
                slice_s = self._clock.monotonic()
            wait_s, reason = frontier.waiting.why(host)
            state = host_state(host, wait_s)
            states[state] += 1
            if state in _HELD_UP and (wait_s or reason is not READY):
                slow.append(SlowHost(host=host.slot, wait_s=wait_s, reason=reason.sentence))
        self._pause_s += PAUSE_TIMES * (self._clock.monotonic() - slice_s)
        slow.sort(key=lambda one: -one.wait_s)
        return Progress(
            elapsed_s=now_s - self._began_s,
            visited=stats.visited,
            blocked=stats.blocked,
            failed=stats.failed,
            queued=stats.queued,
            pages_per_s=(
                self._scheduler.committer.rates.per_s(now_s)[0] + self._of_others("pages_per_s")
            ),
            bytes=stats.body_bytes,
            in_flight=frontier.permits.in_flight + int(self._of_others("in_flight")),
            hosts_by_state=states,
            slowest=tuple(slow[:SLOW_HOSTS_SHOWN]),
            fetching=tuple(list(self._scheduler.downloader.urls)[:FETCHING_SHOWN]),
            held=frontier.holds.current,
            workers=1 + len(self._others),
        )


async def summarise(
    reader: Reader, scheduler: Scheduler, clock: Clock, *, elapsed_s: float, interrupted: bool
) -> Summary:
    """The summary of a crawl, read from the views."""
    stats = await reader.stats()
    holds = scheduler.frontier.holds.current
    waiting = [(host, until, reason) for host, (until, reason) in scheduler.waiting.items()]
    limit = scheduler.frontier.permits.pages_closed_by
    counts_all = limit is not None or scheduler.bounds_pages  # the URLs held back, per host
    held_back: Counter[str] = Counter()
    if stats.queued:
        async with aclosing(reader.iterate("hosts")) as rows:
            async for row in rows:
                host, queued = str(row["host"]), int(str(row["queued"]))
                if not queued:
                    continue
                pages, body_bytes = int(str(row["visited"])), int(str(row["body_bytes"]))
                full = scheduler.host_limit(host, pages=pages, body_bytes=body_bytes)
                if (by := full or limit) is not None:
                    held_back[by] += queued
                if host not in scheduler.waiting and len(waiting) < WAITING_SHOWN:
                    until, reason = stored_wait(row, clock.wall(), limit=limit)
                    if holds:
                        until, reason = None, Reason(Wait.CLOSED, holds[0].sentence)
                    waiting.append((host, until, reason))
                if len(waiting) >= WAITING_SHOWN and not counts_all:
                    break  # there may be a hundred thousand
    return Summary(
        visited=stats.visited,
        blocked=stats.blocked,
        failed=stats.failed,
        queued=stats.queued,
        hosts=stats.hosts,
        bytes=stats.body_bytes,
        elapsed_s=elapsed_s,
        waiting=tuple([await _with_reason(reader, *each) for each in waiting[:WAITING_SHOWN]]),
        skipped={
            str(row["reason"]): int(str(row["count"])) async for row in reader.iterate("skipped")
        },
        held_back=held_back,
        interrupted=interrupted,
        held=holds,
        ended_by=SKIP_KEYS[limit] if limit is not None and stats.queued else None,
        errors=await frequent_errors(reader) if stats.failed else (),
        rules=await frequent_rules(reader) if stats.blocked else (),
    )


async def _with_reason(
    reader: Reader, host: str, until: float | None, reason: Reason
) -> WaitingHost:
    """A backoff whose cause is not known is explained by the host's latest contacts."""
    if (
        reason.wait is Wait.BACKOFF
        and reason.status is None
        and (row := await reader.host(host)) is not None
    ):
        reason = latest_backoff(row["contacts"])
    return WaitingHost(host=host, until=until, reason=reason.sentence)


# ---------------------------------------------------------------- the most frequent reasons


async def frequent_errors(reader: Reader) -> tuple[FrequentReason, ...]:
    """The most frequent errors of `failed`."""
    return await _most_frequent(reader, "failed", lambda row: (str(row["error"]), ""))


async def frequent_rules(reader: Reader) -> tuple[FrequentReason, ...]:
    """The rules that block the most URLs; a URL blocked without a rule counts for its reason."""

    def rule(row: Row) -> tuple[str, str]:
        return str(row["rule"] or row["reason"]), str(row["robots_url"])

    return await _most_frequent(reader, "blocked", rule)


async def _most_frequent(
    reader: Reader, view: str, group: Callable[[Row], tuple[str, str]]
) -> tuple[FrequentReason, ...]:
    counts: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], str] = {}
    async with aclosing(reader.iterate(view, limit=LOOKED_AT_MAX)) as rows:
        async for row in rows:
            key = group(row)
            counts[key] += 1
            examples.setdefault(key, str(row["url"]))
    return tuple(
        FrequentReason(words=key[0], where=key[1], count=count, example=examples[key])
        for key, count in counts.most_common(REASONS_SHOWN)  # ties in the order they were found
    )


class StoredWait(NamedTuple):
    until: float | None  # Unix seconds; None: until an operator acts
    reason: Reason


def stored_wait(row: Row, now_s: float, *, limit: str | None = None) -> StoredWait:
    """`row`: of the `hosts` view. `limit`: of the run, if one is reached."""
    if row["paused"]:
        return StoredWait(None, PAUSED)
    backoff, next_at = row["backoff_until"], row["next_at"]
    if isinstance(backoff, int | float) and backoff > now_s:
        status = row["backoff_status"]
        known = status if isinstance(status, int) else None
        return StoredWait(float(backoff), Reason(Wait.BACKOFF, status=known))
    if limit is not None:
        return StoredWait(None, run_limit_reached(limit))
    until = float(next_at) if isinstance(next_at, int | float) else None
    source = f" ({row['delay_source']})" if row["delay_source"] else ""
    return StoredWait(until, Reason(Wait.STORED, f"its turn{source}"))
