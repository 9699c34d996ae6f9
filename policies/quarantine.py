"""A robots.txt that was in flight when the process died: a suspect once, quarantined twice.

In flight: being fetched, read or stored. `RobotsState.error` keeps it.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from policies.retries import FailureCode
from policies.robots.dialect import DAY_S
from policies.robots_state import RobotsState

QUARANTINE_S: Final = 7 * DAY_S
"""After so long it is fetched again, with nobody's help."""

_SUSPECT: Final = "the process ended while it was read"
_QUARANTINED: Final = (
    f"{FailureCode.QUARANTINED}: the process ended twice while it was read; "
    "`courtly retry quarantined` has it fetched again"
)


def is_suspect(access: RobotsState) -> bool:
    """Must nothing else that is suspect be in flight with it?"""
    return access.error == _SUSPECT or is_quarantined(access)


def is_quarantined(access: RobotsState) -> bool:
    """Is its origin closed, whatever else is known or configured?"""
    return access.error == _QUARANTINED


def died_with(access: RobotsState, *, now_s: float) -> RobotsState:
    """What is known after the process died with it in flight. `now_s` in Unix seconds."""
    if not is_suspect(access):  # what is known is asked for again, to see whether it does it again
        expires_at = access.expires_at
        due_at = None if expires_at is None else min(expires_at, now_s)
        return replace(access, error=_SUSPECT, expires_at=due_at)
    since_s = access.unreachable_since
    return RobotsState(  # without the copy: nobody reads that again
        fetched_at=access.fetched_at,
        retry_at=now_s + QUARANTINE_S,
        failures=access.failures + 1,
        unreachable_since=now_s if since_s is None else min(since_s, now_s),
        error=_QUARANTINED,
    )


def released(access: RobotsState, *, now_s: float) -> RobotsState:
    """Due now, and no suspect. It remains unreachable until then, so that what it brings counts as
    late (law 4)."""
    return replace(access, retry_at=now_s, error=None)
