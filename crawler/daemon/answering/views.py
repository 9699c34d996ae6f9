"""Rows of the store and values of the control as the daemon's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from crawler.daemon import shapes
from crawler.steering.status import HostNow, Status
from crawler.version import __version__
from storage.columns import VIEWS
from storage.store import Row, Stats

FLAGS = frozenset({"paused", "withdrawn", "truncated", "indexable", "followable", "archivable"})


def status(now: Status, stats: Stats) -> shapes.Status:
    return {
        "state": now.state.value,
        "held": [
            {"reason": hold.reason.value, "sentence": hold.sentence, "since": hold.since}
            for hold in now.held
        ],
        "visited": stats.visited,
        "blocked": stats.blocked,
        "failed": stats.failed,
        "queued": stats.queued,
        "hosts": stats.hosts,
        "bytes": stats.body_bytes,
        "in_flight": now.in_flight,
        "pages_per_s": now.pages_per_s,
        "bytes_per_s": now.bytes_per_s,
        "uptime_s": now.uptime_s,
        "memory_bytes": now.memory_bytes,
        "hosts_held": now.hosts_held,
        "hosts_by_state": {state.value: count for state, count in now.hosts_by_state.items()},
        "fetching": [{"url": one.url, "since_s": one.since_s} for one in now.fetching],
        "uncommitted": now.uncommitted,
        "version": __version__,
    }


def host_row(row: Row, wait_reason: str, now: HostNow | None) -> shapes.HostRow:
    """A row of `hosts`; other keys in `row` are left out."""
    columns = {name: row[name] for name in VIEWS["hosts"]}
    held = None if now is None else host_now(now)
    return cast("shapes.HostRow", {**plain_row(columns), "wait_reason": wait_reason, "now": held})


def host_now(now: HostNow) -> shapes.HostNow:
    return {
        "state": now.state.value,
        "next_at": now.next_at,
        "reason": now.reason,
        "in_flight": now.in_flight,
        "in_hand": now.in_hand,
        "delay_s": now.delay_s,
        "delay_source": now.delay_source,
    }


def blocked_row(row: Row) -> shapes.BlockedRow:
    return cast("shapes.BlockedRow", plain_row(row))


def robots_rows(rows: object) -> list[shapes.RobotsRow]:
    """Those of `Reader.host`."""
    return [cast("shapes.RobotsRow", plain_row(row)) for row in _rows(rows)]


def contact_rows(rows: object) -> list[shapes.ContactRow]:
    """Those of `Reader.host`."""
    return [cast("shapes.ContactRow", plain_row(row)) for row in _rows(rows)]


def _rows(rows: object) -> list[Row]:
    given = rows if isinstance(rows, list | tuple) else ()
    return [row for row in given if isinstance(row, Mapping)]


def plain_row(row: Row) -> dict[str, object]:
    """A row with its flags as true and false; the other values are JSON as they stand."""
    return {
        name: bool(value) if name in FLAGS and value is not None else value
        for name, value in row.items()
    }
