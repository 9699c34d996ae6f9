"""Values that the database refuses, and their replacements."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from msgspec import structs

from policies.retries import FailureCode
from storage.records import WAIT_INSTEAD_S, Batch, HostClock, HostUpdate
from storage.url_records import (
    Blocked,
    BlockReason,
    Failed,
    Link,
    Outcome,
    Plan,
    Revisited,
    SitemapRead,
    Visited,
)

_NUMBER_MAX: Final = 2**62
_log = logging.getLogger("courtly.store")


class RefusedError(Exception):
    """A transaction was undone because of a value in it; nothing has changed."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


def log(what: str, error: RefusedError) -> str:
    """Log what cannot be stored, with the traceback; return the name of the exception."""
    cause = error.cause
    name = type(cause).__name__
    _log.error("%s cannot be stored: %s", what, name, exc_info=cause)
    cause.__traceback__ = error.__traceback__ = None  # its frames refer to the whole commit
    return name


def without_link(link: Link, error: RefusedError) -> None:
    log(f"the link {link.url[:2_000]!a}", error)


def without_host(slot: str, error: RefusedError) -> None:
    log(f"the host {slot[:2_000]!a}", error)


def without_plan(planned: tuple[int, Plan], error: RefusedError) -> None:
    log(f"the plan of URL {planned[0]}", error)


def instead_of(outcome: Outcome, error: RefusedError, *, now_s: float) -> Outcome:
    """Fail the URL; one that was visited before stays visited, without a plan."""
    sentence = error_instead(f"the outcome of URL {outcome.id}", error)
    again = isinstance(outcome, Visited | SitemapRead) and outcome.again
    if again or isinstance(outcome, Revisited):
        return Revisited(id=outcome.id, slot=outcome.slot, plan=None)
    return Failed(id=outcome.id, slot=outcome.slot, error=sentence, attempts=1, last_at=now_s)


def verdict_instead(
    verdict: tuple[str, int | Blocked], error: RefusedError, *, now_s: float
) -> tuple[str, Blocked] | None:
    """Withdraw the page without the strings that cannot be stored."""
    kind, one = verdict
    id_ = one.id if isinstance(one, Blocked) else one
    log(f"the verdict on URL {id_}", error)
    if not isinstance(one, Blocked) or not _is_plain(id_):
        return None
    return kind, Blocked(
        id=one.id,
        slot="",
        reason=BlockReason.ROBOTS,
        dialect="",
        rule=None,
        line=None,
        robots_url="",
        blocked_at=now_s,
    )


def error_instead(what: str, error: RefusedError) -> str:
    """Log the refusal; return an error that can be stored."""
    return f"{FailureCode.INTERNAL}: {log(what, error)}, when its outcome was stored"


def _is_plain(value: object) -> bool:
    """Whether a value can be stored in any column of its type."""
    match value:
        case str():
            return value.isascii() or value.encode("utf-8", "replace").decode() == value
        case bool() | None:
            return True
        case int() | float():
            return -_NUMBER_MAX < value < _NUMBER_MAX  # not for NaN
    return False


def plain_update(update: HostUpdate) -> HostUpdate:
    """Replace fields of the clock that cannot be stored by their defaults, and the wait by
    WAIT_INSTEAD_S."""
    given = structs.asdict(update.clock)
    fields = {name: value for name, value in given.items() if _is_plain(value)}
    if "next_in_s" not in fields:
        fields["next_in_s"] = WAIT_INSTEAD_S
    contacts = [one for one in update.contacts if all(map(_is_plain, structs.astuple(one)))]
    return structs.replace(update, clock=HostClock(**fields), contacts=contacts)


def plain(batch: Batch) -> Batch:
    """Remove what cannot be stored from a commit, except its outcomes."""
    return structs.replace(
        batch,
        hosts=[plain_update(update) for update in batch.hosts],
        skipped={
            reason: count
            for reason, count in batch.skipped.items()
            if _is_plain(reason) and _is_plain(count)
        },
        prefetch=[
            structs.replace(
                want,
                in_memory=[id_ for id_ in want.in_memory if _is_plain(id_)],
                closed=[origin for origin in want.closed if _is_plain(origin)],
            )
            for want in batch.prefetch
        ],
    )


def begun(batch: Batch) -> Batch:
    """The first part of a commit: its hosts and skip counts, without releases."""
    hosts = [structs.replace(update, release=False) for update in batch.hosts]
    return Batch(hosts=hosts, skipped=batch.skipped)


def part(batch: Batch, outcomes: Sequence[Outcome]) -> Batch:
    """A part of a commit: some of its outcomes."""
    slots = {outcome.slot for outcome in outcomes}
    hosts = [
        structs.replace(update, release=False, contacts=())
        for update in batch.hosts
        if update.slot in slots
    ]
    return Batch(outcomes=outcomes, hosts=hosts)


def ended(batch: Batch) -> Batch:
    """The last part of a commit: releases and prefetching, after all outcomes were stored."""
    ids = {outcome.id for outcome in batch.outcomes}
    hosts: list[HostUpdate] = [structs.replace(update, contacts=()) for update in batch.hosts]
    wants = [
        structs.replace(want, in_memory=[id_ for id_ in want.in_memory if id_ not in ids])
        for want in batch.prefetch
    ]
    return Batch(hosts=hosts, prefetch=wants)
