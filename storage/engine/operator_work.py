"""Commands of operators, and work on many URLs at a time, as they run inside a transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from policies.scope import Skip
from storage.engine.counters import FAILED, QUEUED, CounterChanges
from storage.engine.statements import Statements
from storage.engine.url_changes import UrlChanges, url_rows
from storage.engine.writer import Writer
from storage.store import HostUpdate, UrlState


class HostFailure(Struct, frozen=True, kw_only=True):
    """Why URLs of a host fail, as `Store.fail_host` is given it. `origin`: those of that origin
    alone."""

    error: str
    attempts: int
    last_at: float  # Unix seconds
    origin: str | None


def fail_some(
    writer: Writer,
    session: int,
    update: HostUpdate,
    failure: HostFailure,
    *,
    limit: int,
    with_clock: bool,
) -> int:
    """Fail up to `limit` queued URLs of a leased host and return how many. `with_clock`: also
    write the host's clock."""
    writer.leases.lock([update])
    leased = writer.leases.leased(update)
    if leased is None:
        return 0
    some = writer.sql.read(list[tuple[int, int]], "some_queued", leased.id, failure.origin, limit)
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


def release_robots(writer: Writer, host: str | None) -> int:
    """Have quarantined robots.txt fetched again; return how many."""
    hosts = writer.copies.release(host, writer.at)
    writer.leases.settle(dict.fromkeys(hosts))
    return len(hosts)


def forgive(writer: Writer, host: str | None) -> None:
    """Forget the connection failures and backoffs of hosts with failed URLs."""
    slots = writer.sql.read(list[int], "failed_slots", host)
    writer.sql.many("forgive_slots", [(slot,) for slot in slots], writer.at.now_s)


def retry_some(
    writer: Writer, host: str | None, code: str | None, *, after: int, limit: int
) -> tuple[int, int]:
    """Queue up to `limit` failed URLs with ids above `after` again; return how many, and the
    last id."""
    some = writer.sql.read(list[tuple[int, int, int, str]], "some_failed", after, host, limit, code)
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


def drop_some(
    writer: Writer, host: str | None, code: str | None, *, after: int, limit: int
) -> tuple[int, int]:
    """Take up to `limit` failed URLs with ids above `after` out of view; return how many, and the
    last id."""
    some = writer.sql.read(list[tuple[int, int, int, str]], "some_failed", after, host, limit, code)
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


def set_controls(
    writer: Writer,
    slots: Sequence[str],
    *,
    paused: bool | None = None,
    slow_s: float | None = None,
    clear_slow: bool = False,
) -> int:
    change_slow = slow_s is not None or clear_slow
    known = 0
    for slot in slots:
        known += writer.sql.row("control", paused, change_slow, slow_s, slot) is not None
        if change_slow:
            writer.leases.recheck_delays(slot, writer.at.now_s)
    return known


def recheck_delays(writer: Writer, session: int) -> None:
    writer.leases.recheck_delays(None, writer.at.now_s)


def set_paused(writer: Writer, paused: bool) -> None:
    writer.sql.run("put_paused", paused)


def paused(writer: Writer) -> bool:
    return is_paused(writer.sql)


def is_paused(sql: Statements) -> bool:
    """Whether an operator has paused the crawl."""
    row = sql.row("paused")
    return bool(row and row[0])
