"""Quarantine: a robots.txt that was in flight when the process died is suspect, the second time
quarantined.

In flight means that it was being fetched, read or stored. `RobotsState.error` records it.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from policies.retries import FailureCode
from policies.robots_state import QUARANTINE_S, RobotsState

_SUSPECT: Final = "the process ended while it was read"
QUARANTINED: Final = (
    f"{FailureCode.QUARANTINED}: the process ended twice while it was read; "
    "`courtly retry quarantined` has it fetched again"
)
"""The error of a quarantined file."""


def is_suspect(state: RobotsState) -> bool:
    """Return whether no other suspect file may be in flight at the same time."""
    return state.error == _SUSPECT or is_quarantined(state)


def is_quarantined(state: RobotsState) -> bool:
    """Return whether its origin is closed, whatever else is known or configured."""
    return state.error == QUARANTINED


def died_with(state: RobotsState, *, now_s: float) -> RobotsState:
    """The state after the process died with the file in flight. `now_s` in Unix seconds."""
    if not is_suspect(state):  # fetched again, to see whether it happens again
        expires_at = state.expires_at
        due_at = None if expires_at is None else min(expires_at, now_s)
        return replace(state, error=_SUSPECT, expires_at=due_at)
    since_s = state.unreachable_since
    return RobotsState(  # without the copy, which is never read again
        fetched_at=state.fetched_at,
        retry_at=now_s + QUARANTINE_S,
        failures=state.failures + 1,
        unreachable_since=now_s if since_s is None else min(since_s, now_s),
        error=QUARANTINED,
    )


def released(state: RobotsState, *, now_s: float) -> RobotsState:
    """The state of a released file: due now, not suspect. It stays unreachable until it is fetched,
    so that the result counts as a late robots.txt (law 4)."""
    return replace(state, retry_at=now_s, error=None)
