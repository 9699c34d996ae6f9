"""Snapshots of a running crawl, and the summary at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace

from crawler.clock import Clock
from crawler.engine.engine import Engine
from crawler.events import (
    LOOKED_AT_MAX,
    WAITING_SHOWN,
    FrequentReason,
    Progress,
    SlowHost,
    Summary,
    WaitingHost,
)
from crawler.explain.wait_reasons import latest_backoff_reason
from crawler.politeness.pace import BACKING_OFF
from crawler.steering.live_state import HostState, host_state
from crawler.steering.waits import stored_wait
from policies.scope import Skip
from storage.store import Reader, Row, Stats, Store

OBSERVE_EVERY_S = 0.25
SLOW_HOSTS_SHOWN = 5
FETCHING_SHOWN = 8
REASONS_SHOWN = 5
_HELD_UP = (HostState.WAITING, HostState.ROBOTS, HostState.PAUSED, HostState.CLOSED)


class Snapshots:
    """Takes snapshots of a running crawl."""

    def __init__(self, engine: Engine, store: Store, clock: Clock) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock
        self._began_s = clock.monotonic()

    async def report(self, observe: Callable[[Progress], None]) -> None:
        next_s = self._began_s
        while True:
            next_s = max(next_s + OBSERVE_EVERY_S, self._clock.monotonic())
            await self._clock.sleep_until(next_s)
            observe(self.snapshot(await self._store.stats()))

    def snapshot(self, stats: Stats) -> Progress:
        engine, now_s = self._engine, self._clock.monotonic()
        states: Counter[str] = Counter()
        slow: list[SlowHost] = []
        for host in engine.turns:
            wait_s, why = engine.turns.why(host)
            state = host_state(host, wait_s)
            states[state] += 1
            if state in _HELD_UP and (wait_s or why != "ready"):
                slow.append(SlowHost(host=host.slot, wait_s=wait_s, reason=why))
        slow.sort(key=lambda one: -one.wait_s)
        return Progress(
            elapsed_s=now_s - self._began_s,
            visited=stats.visited,
            blocked=stats.blocked,
            failed=stats.failed,
            queued=stats.queued,
            pages_per_s=engine.rates.per_s(now_s)[0],
            bytes=stats.body_bytes,
            in_flight=engine.turns.in_flight,
            hosts_by_state=states,
            slowest=tuple(slow[:SLOW_HOSTS_SHOWN]),
            fetching=tuple(list(engine.contacts.urls)[:FETCHING_SHOWN]),
            held=engine.holds.current,
        )


async def summarise(
    reader: Reader, engine: Engine, clock: Clock, *, elapsed_s: float, interrupted: bool
) -> Summary:
    """The summary of a crawl, read from the views."""
    stats = await reader.stats()
    waiting = [
        WaitingHost(host=host, until=until, reason=reason)
        for host, (until, reason) in engine.waiting.items()
    ]
    spent = not engine.turns.pages_open
    counts_all = spent or engine.bounds_pages  # the URLs held back, per host
    held_back: Counter[str] = Counter()
    if stats.queued:
        async with aclosing(reader.iterate("hosts")) as rows:
            async for row in rows:
                host, queued = str(row["host"]), int(str(row["queued"]))
                if not queued:
                    continue
                pages, body_bytes = int(str(row["visited"])), int(str(row["body_bytes"]))
                limit = engine.host_limit(host, pages=pages, body_bytes=body_bytes)
                if limit is not None:
                    held_back[limit] += queued
                elif spent:
                    held_back[Skip.MAX_PAGES] += queued
                if host not in engine.waiting and len(waiting) < WAITING_SHOWN:
                    until, _, reason = stored_wait(row, clock.wall(), spent=spent)
                    if engine.holds.current:
                        until, reason = None, engine.holds.current[0].sentence
                    waiting.append(WaitingHost(host=host, until=until, reason=reason))
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
        waiting=tuple([await _with_reason(reader, each) for each in waiting[:WAITING_SHOWN]]),
        skipped={
            str(row["reason"]): int(str(row["count"])) async for row in reader.iterate("skipped")
        },
        held_back=held_back,
        interrupted=interrupted,
        held=engine.holds.current,
        errors=await frequent_errors(reader) if stats.failed else (),
        rules=await frequent_rules(reader) if stats.blocked else (),
    )


async def _with_reason(reader: Reader, each: WaitingHost) -> WaitingHost:
    """Name the response that made a host back off."""
    if each.reason != BACKING_OFF:
        return each
    row = await reader.host(each.host)
    return replace(each, reason=latest_backoff_reason(row["contacts"])) if row else each


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
