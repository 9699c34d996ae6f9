"""Robots states of origins, the copy before, and every robots.txt body that is referred to."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from msgspec import structs

from policies import quarantine
from policies.retries import FailureCode
from policies.robots_state import RobotsState
from policies.url import host_of, registrable_domain
from storage.engine.name_ids import NameIds
from storage.engine.statements import Statements, Value, record
from storage.timekeeper import Moment

COPY_BYTES_MAX = 8_192  # larger files are large: they count for their domain, and no lease has them


def read_copy(row: Sequence[Value]) -> RobotsState:
    """Return a robots state from a row: its fields in their order, with the body packed."""
    status, packed, *values = row
    body = zlib.decompress(packed) if isinstance(packed, bytes) else None
    return record(RobotsState, (status, body, *values))


# What the large files of one registrable domain may take, packed; those of others have theirs.
DOMAIN_BYTES_MAX: Final = 67_108_864
DROPPED_AT_ONCE: Final = 1_000  # bodies, in one transaction
DROPPED: Final = (
    b"# This robots.txt was dropped, because those of its domain took too much space.\n"
)


@dataclass(slots=True)
class RobotsCopies:
    """The robots.txt copies of all origins. For the store's thread only."""

    sql: Statements
    names: NameIds

    def put(
        self, slot: str, origin: str, access: RobotsState, at: Moment, *, rejudge: bool
    ) -> bool:
        """Store a copy. False: its file is large, and those of its domain take all the space that
        there is for them."""
        now_s = at.now_s
        body = None if access.body is None else self._body(access.body, origin)
        if body is None and access.body is not None:
            return False
        key = self.names.origins({origin: slot}, now_s)[origin].id
        replaced = self.names.body_of(key)
        dropped: Value = None
        if replaced not in (None, body):
            (dropped,) = self.sql.row("earlier_body", key) or (None,)
            self.sql.run("put_earlier_copy", key, access.fetched_at)
        access = structs.replace(access, truncated=bool(access.truncated))  # as it is read again
        status, _, *values = structs.astuple(access)
        self.sql.run("put_copy", key, status, body, *values)
        if dropped is not None:
            self.sql.many("drop_bodies", [(dropped,)])
        self.sql.run("put_robots_at", _due_at(access, at), key)
        self.names.forget_body(key)
        if rejudge:
            self.sql.run("mark_to_rejudge", now_s, key)
        return True

    def drop(self, slot: int) -> None:
        """Delete the copies of a host's origins."""
        bodies = list(self.sql.rows("bodies_of_slot", slot))
        self.sql.run("drop_copies", slot)
        self.sql.run("drop_earlier_copies", slot)
        self.sql.many("drop_bodies", bodies)

    def release(self, host: str | None, at: Moment) -> list[int]:
        """Release quarantined robots.txt; return the host of each."""
        hosts: list[int] = []
        for name, slot, slot_id in self.sql.rows(
            "failing_robots", host, str(FailureCode.QUARANTINED)
        ):
            known = self.get(str(name))
            if known is not None and quarantine.is_quarantined(known):
                released = quarantine.released(known, now_s=at.wall_s)
                self.put(str(slot), str(name), released, at, rejudge=False)
                hosts.append(int(slot_id or 0))
        self.sql.many("release_slots", [(slot_id,) for slot_id in hosts], at.now_s)
        return hosts

    def _body(self, body: bytes, origin: str) -> int | None:
        """Return the id of a body, stored once; None: there is no space for it."""
        digest = blake2b(body, digest_size=16).digest()
        row = self.sql.row("body_id", digest)
        if row is None:
            packed, domain = zlib.compress(body, 6), None
            if len(body) > COPY_BYTES_MAX:
                domain = registrable_domain(host_of(origin + "/"))
                if not self._has_space(domain, len(packed)):
                    return None
            counted = None if domain is None else len(packed)
            row = self.sql.row("new_body", digest, len(body), packed, domain, counted)
            row = row or self.sql.row("body_id", digest)  # another session was faster
        assert row is not None
        return int(row[0] or 0)

    def _has_space(self, domain: str, more_bytes: int) -> bool:
        """Whether a domain has space for a large file, after dropping files that only explain
        earlier verdicts."""
        (stored,) = self.sql.row("bytes_of_domain", domain) or (0,)
        over = int(stored or 0) + more_bytes - DOMAIN_BYTES_MAX
        if over > 0:
            for key, size in self.sql.rows("unused_bodies", domain, DROPPED_AT_ONCE):
                mark = blake2b(b"dropped %d" % int(key or 0), digest_size=16).digest()
                self.sql.run("drop_earlier_copy", key)
                self.sql.run("empty_body", mark, zlib.compress(DROPPED), key)
                over -= int(size or 0)
                if over <= 0:
                    break
        return over <= 0

    def get(self, origin: str) -> RobotsState | None:
        row = self.sql.row("copy", origin)
        return None if row is None else read_copy(row)

    def next_due(self, now_s: float) -> tuple[float | None, float | None]:
        """Return the seconds until the first robots.txt may be requested, and until the first of
        those that are due already; None: there is none."""
        best_s = delay_s = None
        for due_in, free_in in self.sql.rows("next_robots", now_s, now_s):
            due_in_s, free_in_s = float(due_in or 0.0), float(free_in or 0.0)
            if best_s is not None and (best_s == 0.0 or due_in_s >= best_s):
                break
            at_s = max(0.0, due_in_s, free_in_s)
            best_s = at_s if best_s is None else min(best_s, at_s)
            if due_in_s <= 0.0:
                delay_s = best_s
        return best_s, delay_s

    def mark_late(self, origins: Iterable[int], now_s: float) -> None:
        """Mark origins of pages that were requested before the origins had an answer."""
        self.sql.many("mark_late", [(key,) for key in dict.fromkeys(origins)], now_s)


def _due_at(access: RobotsState, at: Moment) -> float | None:
    """Return when to request the robots.txt again, by the store's time, which no step of the wall
    clock moves; None: not requested yet."""
    due_at = access.expires_at if access.retry_at is None else access.retry_at
    return None if due_at is None else at.now_s + max(0.0, due_at - at.wall_s)
