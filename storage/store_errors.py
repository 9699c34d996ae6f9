"""Errors a store raises, and bounds of its contract."""

from __future__ import annotations

from typing import Final

from policies.errors import CourtlyError

SUSPECT_REST_S: Final = 3.0  # a process killed again soon finds no suspect in flight
SEEDS_AT_ONCE: Final = 5_000  # URLs in one list of `Store.seeds`


class StoreError(CourtlyError):
    """The store cannot continue: its medium is damaged, was replaced, or is read-only. Nothing that
    was committed is lost. The message is one sentence for the operator."""


class StoreRefused(StoreError):  # noqa: N818 - it is a kind of StoreError, named for what happened
    """The store was not opened, and nothing was changed: the file is not a store, was written by
    another version, or is in use."""
