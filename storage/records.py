"""What a commit brings and what comes of it; rows and counts of the views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from storage.host_records import HostUpdate, Prefetch, Prefetched
from storage.url_records import Outcome


class Batch(Struct, frozen=True, kw_only=True):
    """One commit: all of it or nothing."""

    outcomes: Sequence[Outcome] = ()
    hosts: Sequence[HostUpdate] = ()
    skipped: Mapping[str, int] = field(
        default_factory=dict
    )  # reason -> how many more were left out
    prefetch: Sequence[Prefetch] = ()


class Completed(Struct, frozen=True, kw_only=True):
    stale: frozenset[str]  # slots whose lease was lost: their outcomes and clocks were not stored
    added: Mapping[str, int]  # slot -> URLs newly queued there (links, and URLs that came back)
    prefetched: Mapping[str, Prefetched]  # slot -> what its Prefetch brought
    refused: str | None = None  # of `robots_put`: the error because of which the copy is not stored


class Stats(Struct, frozen=True, kw_only=True):
    """Row counts of the views, and the sum of body bytes."""

    visited: int
    blocked: int
    failed: int
    queued: int
    hosts: int
    body_bytes: int


Row = Mapping[str, object]  # one row of a view, by column name


class RowPage(Struct, frozen=True, kw_only=True):
    """Some rows of a view. `after` asks for the next; None: these are the last."""

    rows: Sequence[Row]
    after: str | None
