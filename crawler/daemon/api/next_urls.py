"""Which URLs of a host are requested next, and when at the earliest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from crawler.daemon.responses import HostRow, NextUrl
from crawler.steering.control import Control
from crawler.steering.live_state import HostState, HostUrls
from storage.store import Reader, Row

NEXT_SHOWN: Final = 20
_HELD_MORE: Final = 100  # of one host in memory: some more for requests that are not committed yet


async def next_urls(
    control: Control, reader: Reader, row: HostRow, *, now_s: float
) -> list[NextUrl]:
    """The next URLs of a host, in order. row: the host. now_s: Unix seconds. Raises StoreError."""
    held = control.host_urls(row.host) or HostUrls(next=(), parked=(), held=frozenset())
    stored = await reader.next_urls(row.host, limit=NEXT_SHOWN + _HELD_MORE, now_s=now_s)
    by_id = {each["id"]: each for each in stored}
    found: list[NextUrl] = []
    first_at, delay_s = _first_at(control, row, now_s), _delay_s(row)
    for each in held.next:
        found.append(
            NextUrl(
                url=each.url,
                priority=each.priority,
                depth=each.depth,
                at=None if first_at is None else first_at + len(found) * delay_s,
                due_at=None,
                attempts=each.attempts,
                error=_text(by_id.get(each.id, {}).get("error")),
                sitemap=each.sitemap,
                waits_for="",
            )
        )
    found += [
        NextUrl(
            url=each.url,
            priority=each.priority,
            depth=each.depth,
            at=None,
            due_at=None,
            attempts=each.attempts,
            error=None,
            sitemap=each.sitemap,
            waits_for="robots.txt",
        )
        for each in held.parked
    ]
    for stored_row in _others(stored, held):
        found.append(_of_row(stored_row, first_at, len(found) * delay_s, now_s))
    return found[:NEXT_SHOWN]


def _others(stored: Sequence[Row], held: HostUrls) -> list[Row]:
    """The rows of URLs that are neither in memory nor in flight."""
    return [row for row in stored if row["id"] not in held.held]


def _of_row(row: Row, first_at: float | None, after_s: float, now_s: float) -> NextUrl:
    due_at = row["due_at"]
    waits_until = float(due_at) if isinstance(due_at, int | float) and due_at > now_s else None
    at = None
    if first_at is not None:
        at = max(first_at + after_s, waits_until or 0.0)
    return NextUrl(
        url=str(row["url"]),
        priority=_number(row["priority"]),
        depth=int(_number(row["depth"])),
        at=at,
        due_at=waits_until,
        attempts=int(_number(row["attempts"])),
        error=_text(row["error"]),
        sitemap=bool(row["sitemap"]),
        waits_for="" if waits_until is None else "retry",
    )


def _first_at(control: Control, row: HostRow, now_s: float) -> float | None:
    """When the next request to a host may begin; None if nobody can say."""
    if row.paused or control.stands_still is not None:
        return None
    if row.now is None:
        return max(now_s, row.next_at or 0.0, row.backoff_until or 0.0)
    if row.now.next_at is not None:
        return max(now_s, row.now.next_at)
    return now_s + row.now.delay_s if row.now.state is HostState.IN_FLIGHT else None


def _delay_s(row: HostRow) -> float:
    return row.delay_s if row.now is None else row.now.delay_s


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0.0


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
