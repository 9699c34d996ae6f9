"""Commands of operators, and work on many URLs: some thousands in a transaction, so that other
calls need not wait for a million."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct, structs

from policies.retries import FailureCode
from policies.scope import Skip
from storage.engine import refused_values
from storage.engine.counters import FAILED, QUEUED, CounterChanges
from storage.engine.refused_values import RefusedError
from storage.engine.statements import Statements
from storage.engine.transactions import Transactions, Work
from storage.engine.url_changes import UrlChanges, url_rows
from storage.engine.writer import Writer
from storage.records import HostUpdate
from storage.url_records import UrlState

BULK_URLS: Final = 2_000  # in one transaction: other callers wait some 20 ms for it


class _HostFailure(Struct, frozen=True, kw_only=True):
    """Why URLs of a host fail, as `fail_host` is given it. `origin`: those of that origin alone."""

    error: str
    attempts: int
    last_at: float  # Unix seconds
    origin: str | None


async def fail_host(
    calls: Transactions,
    session: int,
    update: HostUpdate,
    *,
    error: str,
    attempts: int,
    last_at: float,
    origin: str | None = None,
) -> int:
    """Fail every queued URL of a leased host, or of one of its origins; return how many.

    This is one transaction for every few thousand URLs, so that other calls need not wait for
    a million. After a crash in between, the rest is still queued. The first one writes the
    clock, and the last one releases the host if `update` says so."""
    failure = _HostFailure(error=error, attempts=attempts, last_at=last_at, origin=origin)
    plain = refused_values.plain_update(update)
    try:
        return await _fail_host(calls, update, failure)
    except RefusedError:
        pass
    try:
        return await _fail_host(calls, plain, failure)
    except RefusedError as refusal:
        failure = _HostFailure(
            error=refused_values.error_instead("the error message for failed URLs", refusal),
            attempts=1,
            last_at=calls.time.wall_s(),
            origin=origin,
        )
    try:
        return await _fail_host(calls, plain, failure)
    except RefusedError as refusal:  # there is no such origin
        refused_values.log("an origin", refusal)
        return 0


async def _fail_host(calls: Transactions, update: HostUpdate, failure: _HostFailure) -> int:
    """Fail the URLs of a host as `fail_host` does. Raises RefusedError before any URL has
    failed."""

    def fail(update: HostUpdate, *, with_clock: bool) -> Work[int]:
        return partial(_fail_some, update=update, failure=failure, with_clock=with_clock)

    held = structs.replace(update, release=False)  # until all have failed
    failed = some = await calls.run(fail(held, with_clock=True))
    while some == BULK_URLS:
        some = await calls.run(fail(held, with_clock=False))
        failed += some
    if update.release:
        failed += await calls.run(fail(structs.replace(update, contacts=()), with_clock=True))
    return failed


def _fail_some(
    writer: Writer, *, update: HostUpdate, failure: _HostFailure, with_clock: bool
) -> int:
    """Fail up to BULK_URLS queued URLs of a leased host and return how many. `with_clock`: also
    write the host's clock."""
    writer.leases.lock([update])
    leased = writer.leases.leased(update)
    if leased is None:
        return 0
    queued = (leased.id, failure.origin, BULK_URLS)
    some = writer.sql.read(list[tuple[int, int]], "some_queued", *queued)
    tally = CounterChanges()
    if some:
        text = writer.names.texts([failure.error])[failure.error]
        ids = msgspec.json.encode([key for key, _ in some]).decode()
        writer.sql.run("drop_some_tries", ids)
        writer.sql.run("fail_some", ids, text, failure.attempts, failure.last_at)
        writer.sql.run("fail_some_urls", ids)
        for origin_id, count in Counter(origin_id for _, origin_id in some).items():
            tally.count(origin_id, leased.id, QUEUED, -count)
            tally.count(origin_id, leased.id, FAILED, count)
    writer.finish(tally, {})
    if with_clock:
        writer.leases.write_clocks([(leased, update)], writer.at)
    return len(some)


async def retry_failed(
    calls: Transactions, host: str | None = None, code: str | None = None
) -> int:
    """Queue failed URLs again, as if never tried, and forget connection failures and backoffs
    of their hosts; return how many URLs. Several transactions, as `fail_host`.

    code: only URLs that failed with this code. Quarantined robots.txt are released (and
    counted) for `quarantined` and for None."""
    await calls.run_or(partial(_forgive, host=host), None)
    queued = await _failed_in_bulk(calls, partial(_retry_some, host=host, code=code))
    if code in (None, FailureCode.QUARANTINED):
        queued += await calls.run_or(partial(_release_robots, host=host), 0)
    return queued


async def drop_failed(calls: Transactions, host: str | None = None, code: str | None = None) -> int:
    """Take failed URLs, of one host or with one code, out of view, as `Dropped`; return how
    many. They count as skipped, and a later link or seed queues them again. Several
    transactions, as `fail_host`."""
    return await _failed_in_bulk(calls, partial(_drop_some, host=host, code=code))


async def _failed_in_bulk(calls: Transactions, work: Callable[..., tuple[int, int]]) -> int:
    """Do something to failed URLs, BULK_URLS in a transaction; return to how many. work: with a
    writer and the argument `after`, returns how many, and the last id."""
    done, last, some = 0, 0, BULK_URLS
    while some == BULK_URLS:
        some, last = await calls.run_or(partial(work, after=last), (0, last))
        done += some
    return done


def _release_robots(writer: Writer, host: str | None) -> int:
    """Have quarantined robots.txt fetched again; return how many."""
    hosts = writer.copies.release(host, writer.at)
    writer.leases.settle(dict.fromkeys(hosts))
    return len(hosts)


def _forgive(writer: Writer, host: str | None) -> None:
    """Forget the connection failures and backoffs of hosts with failed URLs."""
    slots = writer.sql.read(list[int], "failed_slots", host)
    writer.sql.many("forgive_slots", [(slot,) for slot in slots], writer.at.now_s)


def _retry_some(
    writer: Writer, host: str | None, code: str | None, *, after: int
) -> tuple[int, int]:
    """Queue up to BULK_URLS failed URLs with ids above `after` again; return how many, and the
    last id."""
    some = _some_failed(writer, after, host, code)
    if not some:
        return 0, after
    tally = CounterChanges()
    ids = msgspec.json.encode([key for key, *_ in some]).decode()
    writer.sql.run("retry_some", ids)
    writer.sql.run("drop_some_failures", ids)
    places = Counter((origin, slot, name) for _, origin, slot, name in some)
    for (origin, slot, name), count in places.items():
        tally.count(origin, slot, FAILED, -count)
        tally.queued(origin, slot, name, count)
    writer.finish(tally, {})
    return len(some), some[-1][0]


def _drop_some(
    writer: Writer, host: str | None, code: str | None, *, after: int
) -> tuple[int, int]:
    """Take up to BULK_URLS failed URLs with ids above `after` out of view; return how many, and the
    last id."""
    some = _some_failed(writer, after, host, code)
    if not some:
        return 0, after
    tally = CounterChanges()
    changes = UrlChanges(writer.sql, writer.names, tally)
    texts = writer.names.texts([Skip.DROPPED])
    rows = url_rows(writer.sql, [key for key, *_ in some]).values()
    dropped = [row for row in rows if row.state == UrlState.FAILED]
    for row in dropped:
        changes.dropped(row, texts, Skip.DROPPED)
    changes.write()
    keys = [(row.id,) for row in dropped]
    writer.links.forget(writer.sql.read_many(list[tuple[int, str]], "url_names", keys))
    writer.finish(tally, {Skip.DROPPED: len(dropped)})
    return len(some), some[-1][0]


def _some_failed(
    writer: Writer, after: int, host: str | None, code: str | None
) -> list[tuple[int, int, int, str]]:
    """The ids of failed URLs, of their origins and hosts, and the names of their hosts."""
    shape = list[tuple[int, int, int, str]]
    return writer.sql.read(shape, "some_failed", after, host, BULK_URLS, code)


def set_controls(
    writer: Writer,
    slots: Sequence[str],
    *,
    paused: bool | None = None,
    slow_s: float | None = None,
    clear_slow: bool = False,
) -> int:
    """Pause or slow hosts until further notice, in one transaction, for which other calls wait:
    a few hundred at a time. Return how many are known.

    An existing lease is not affected. None leaves a setting unchanged; `clear_slow` removes the
    delay. A changed delay applies to a free host as by `recheck_delays`."""
    change_slow = slow_s is not None or clear_slow
    known = 0
    for slot in slots:
        known += writer.sql.row("control", paused, change_slow, slow_s, slot) is not None
        if change_slow:
            writer.leases.recheck_delays(slot, writer.at.now_s)
    return known


def recheck_delays(writer: Writer, session: int) -> None:
    """Let free hosts that only wait for their politeness delay be claimed now, because delays
    may have become shorter. Whoever leases such a host computes what is left of its delay from
    `HostClock.rested_s`. Hosts that wait for anything else, and those whose lease would not
    contain all their robots copies, are left unchanged."""
    writer.leases.recheck_delays(None, writer.at.now_s)


def set_paused(writer: Writer, paused: bool) -> None:
    """Remember whether an operator has paused the crawl. Leases are granted either way."""
    writer.sql.run("put_paused", paused)


def paused(writer: Writer) -> bool:
    """Return the value of the last `set_paused`; False before the first."""
    return is_paused(writer.sql)


def is_paused(sql: Statements) -> bool:
    """Return whether an operator has paused the crawl, as `Store.paused`."""
    row = sql.row("paused")
    return bool(row and row[0])
