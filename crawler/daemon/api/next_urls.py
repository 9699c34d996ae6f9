"""Which URLs of a host are requested next, and when at the earliest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from crawler.daemon.responses import HostRow, NextUrl
from crawler.steering.control import Control
from crawler.steering.live_state import HostState, HostUrls
from crawler.threads import in_thread
from policies import robots
from policies.robots import RuleSet
from policies.robots_policy import Governed, robots_policy
from policies.url import host_of, origin_of, path_of
from storage.paging import ROWS_MAX
from storage.reader import Reader
from storage.row_values import number
from storage.store import Row

NEXT_SHOWN: Final = 20
_MORE_IN_MEMORY: Final = 100  # of one host: some more for requests not committed yet


async def next_urls(
    control: Control, reader: Reader, row: HostRow, *, now_s: float
) -> list[NextUrl]:
    """The next URLs of a host, in order, without those that its robots.txt forbids as it is known:
    when their turn comes, they are blocked and not requested. row: the host. now_s: Unix seconds.
    Raises StoreError."""
    held = control.host_urls(row.host) or HostUrls(next=(), parked=(), held=frozenset())
    rules = _KnownRules(control, reader, now_s)
    limit = NEXT_SHOWN + _MORE_IN_MEMORY
    found, complete = await _found(control, reader, row, held, rules, limit=limit)
    if len(found) < NEXT_SHOWN and not complete:
        found, _ = await _found(control, reader, row, held, rules, limit=ROWS_MAX)
    return found[:NEXT_SHOWN]


async def _found(
    control: Control,
    reader: Reader,
    row: HostRow,
    held: HostUrls,
    rules: _KnownRules,
    *,
    limit: int,
) -> tuple[list[NextUrl], bool]:
    """The next URLs, of the first `limit` that are stored, and whether these are all."""
    now_s = rules.now_s
    stored = await reader.next_urls(row.host, limit=limit, now_s=now_s)
    by_id = {each["id"]: each for each in stored}
    found: list[NextUrl] = []
    first_at, delay_s = _first_at(control, row, now_s), _delay_s(row)
    for each in held.next:
        if await rules.forbid(each.url):
            continue
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
        if len(found) >= NEXT_SHOWN:
            break
        if not await rules.forbid(str(stored_row["url"])):
            found.append(_of_row(stored_row, first_at, len(found) * delay_s, now_s))
    return found, len(stored) < limit


class _KnownRules:
    """The robots.txt files that are in memory or stored. now_s: Unix seconds."""

    def __init__(self, control: Control, reader: Reader, now_s: float) -> None:
        self.now_s = now_s
        self._control = control
        self._reader = reader
        self._by_origin: dict[str, RuleSet | None] = {}

    async def forbid(self, url: str) -> bool:
        """Whether the robots.txt of a URL's origin, as it is known, forbids it."""
        name = origin_of(url)
        if name not in self._by_origin:
            rules = self._control.rules_of(name)
            self._by_origin[name] = await self._stored(name) if rules is None else rules
        known = self._by_origin[name]
        return known is not None and not known.allowed(path_of(url))

    async def _stored(self, origin: str) -> RuleSet | None:
        copy = await self._reader.robots_copy(origin)
        if copy is None:
            return None
        rules, tokens = self._control.config.robots_of(host_of(f"{origin}/"))
        policy = robots_policy(copy, now_s=self.now_s, rules=rules)
        if not isinstance(policy, Governed):
            return None
        body = policy.body

        def read() -> RuleSet:  # a hostile file takes up to a second
            dialects = [robots.DIALECTS[name] for name in rules.dialect]
            parsed = robots.parse(body).rule_set(tokens, dialects)
            parsed.read_whole()
            return parsed

        return await in_thread(read)


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
        priority=number(row["priority"]),
        depth=int(number(row["depth"])),
        at=at,
        due_at=waits_until,
        attempts=int(number(row["attempts"])),
        error=_text(row["error"]),
        sitemap=bool(row["sitemap"]),
        waits_for="" if waits_until is None else "retry",
    )


def _first_at(control: Control, row: HostRow, now_s: float) -> float | None:
    """When the next request to a host may begin; None if nobody can say."""
    if row.paused or control.overall_reason is not None:
        return None
    if row.now is None:
        return max(now_s, row.next_at or 0.0, row.backoff_until or 0.0)
    if row.now.next_at is not None:
        return max(now_s, row.now.next_at)
    return now_s + row.now.delay_s if row.now.state is HostState.IN_FLIGHT else None


def _delay_s(row: HostRow) -> float:
    return row.delay_s if row.now is None else row.now.delay_s


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
