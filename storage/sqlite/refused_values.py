"""Values that the database refuses, and what is stored instead of an outcome that has one."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from typing import Final

from msgspec import structs

from policies.retries import FailureCode
from storage.records import WAIT_INSTEAD_S
from storage.sqlite.schema import FAILURES
from storage.store import (
    Batch,
    Blocked,
    BlockReason,
    Failed,
    HostClock,
    HostUpdate,
    Link,
    Outcome,
    Plan,
    Revisited,
    SitemapRead,
    StoreError,
    Visited,
)

_NUMBER_MAX: Final = 2**62
_log = logging.getLogger("courtly.store")
# What SQLite, or the module, says of a value; all other errors of theirs speak of the file.
_OF_VALUES: Final = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
)


class RefusedError(Exception):
    """A call was undone because of a value in it; the store is as it was before."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


def is_of_value(error: BaseException) -> bool:
    """Does this error speak of a value, and neither of the database nor of passing trouble?"""
    if isinstance(error, sqlite3.Error):
        return isinstance(error, _OF_VALUES) or str(error) == "integer overflow"
    return isinstance(error, Exception) and not isinstance(error, (*FAILURES, StoreError))


def log(what: str, error: RefusedError) -> str:
    """Log what cannot be stored, with the traceback; give the type of the error."""
    cause = error.cause
    name = type(cause).__name__
    _log.error("%s cannot be stored: %s", what, name, exc_info=cause)
    cause.__traceback__ = error.__traceback__ = None  # its frames hold the whole commit
    return name


def without_link(link: Link, error: RefusedError) -> None:
    log(f"the link {link.url[:2_000]!a}", error)


def without_host(slot: str, error: RefusedError) -> None:
    log(f"the host {slot[:2_000]!a}", error)


def without_plan(planned: tuple[int, Plan], error: RefusedError) -> None:
    log(f"the plan of URL {planned[0]}", error)


def instead_of(outcome: Outcome, error: RefusedError, *, now_s: float) -> Outcome:
    """The URL fails; one that was visited before stays as it was, and is not visited again."""
    sentence = error_instead(f"what became of URL {outcome.id}", error)
    again = isinstance(outcome, Visited | SitemapRead) and outcome.again
    if again or isinstance(outcome, Revisited):
        return Revisited(id=outcome.id, slot=outcome.slot, plan=None)
    return Failed(id=outcome.id, slot=outcome.slot, error=sentence, attempts=1, last_at=now_s)


def verdict_instead(
    verdict: tuple[str, int | Blocked], error: RefusedError, *, now_s: float
) -> tuple[str, Blocked] | None:
    """A page is withdrawn all the same, without the strings that cannot be stored."""
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
    """Can it be stored in any column of its kind?"""
    match value:
        case str():
            return value.isascii() or value.encode("utf-8", "replace").decode() == value
        case bool() | None:
            return True
        case int() | float():
            return -_NUMBER_MAX < value < _NUMBER_MAX  # not for NaN
    return False


def plain_update(update: HostUpdate) -> HostUpdate:
    """What of a host can be stored: a clock's fields that cannot are as if new, but for the wait,
    which no value shortens."""
    given = structs.asdict(update.clock)
    fields = {name: value for name, value in given.items() if _is_plain(value)}
    if "next_in_s" not in fields:
        fields["next_in_s"] = WAIT_INSTEAD_S
    contacts = [one for one in update.contacts if all(map(_is_plain, structs.astuple(one)))]
    return structs.replace(update, clock=HostClock(**fields), contacts=contacts)


def plain(batch: Batch) -> Batch:
    """What of a commit, besides its outcomes, can be stored."""
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
                held=[id_ for id_ in want.held if _is_plain(id_)],
                closed=[origin for origin in want.closed if _is_plain(origin)],
            )
            for want in batch.prefetch
        ],
    )


def begun(batch: Batch) -> Batch:
    """The hosts of a commit alone: none is given back yet, and none gets URLs."""
    hosts = [structs.replace(update, release=False) for update in batch.hosts]
    return Batch(hosts=hosts, skipped=batch.skipped)


def part(batch: Batch, outcomes: Sequence[Outcome]) -> Batch:
    """Some outcomes of a commit that has begun."""
    slots = {outcome.slot for outcome in outcomes}
    hosts = [
        structs.replace(update, release=False, contacts=())
        for update in batch.hosts
        if update.slot in slots
    ]
    return Batch(outcomes=outcomes, hosts=hosts)


def ended(batch: Batch) -> Batch:
    """The end of a commit of which all outcomes are stored."""
    ids = {outcome.id for outcome in batch.outcomes}
    hosts: list[HostUpdate] = [structs.replace(update, contacts=()) for update in batch.hosts]
    wants = [
        structs.replace(want, held=[id_ for id_ in want.held if id_ not in ids])
        for want in batch.prefetch
    ]
    return Batch(hosts=hosts, prefetch=wants)
