"""What is known of an origin's robots.txt, as a rule for its pages now, by the dialect's row.

Nothing opens by accident: what holds while there is no copy is a value with its reason.
"""

from __future__ import annotations

from msgspec import Struct

from policies.access_state import (
    Access,
    RobotsRules,
    Unreachable,
    copy_age_s,
    due,
    next_due_at,
)
from policies.quarantine import is_quarantined
from policies.robots.dialect import dialects
from policies.robots.row import DAY_S, Aspect, Dialect, Door


class Rules(Struct, frozen=True, kw_only=True):
    """Pages are judged by this copy."""

    body: bytes
    copy_at: float  # Unix seconds
    stale: bool  # it has expired, or a refresh fails
    truncated: bool = False


class Open(Struct, frozen=True, kw_only=True):
    """All pages may be asked for."""

    reason: str
    answered: bool  # False: for lack of an answer; pages fetched now are judged again later (law 4)


class Closed(Struct, frozen=True, kw_only=True):
    """No page may be asked for."""

    reason: str
    until_s: float | None  # Unix seconds: when it is asked again, or may open; None: unknown


class Unknown(Struct, frozen=True, kw_only=True):
    """robots.txt must be asked for first."""


Standing = Rules | Open | Closed | Unknown


def standing(access: Access, *, now_s: float, rules: RobotsRules) -> Standing:
    """What is known, as a rule for the origin's pages now. Of several dialects the strictest."""
    if not rules.obey:
        return Open(reason="robots.obey = false", answered=True)
    if is_quarantined(access):  # no dialect, and no setting, opens that
        return Closed(reason=f"robots.txt cannot be had ({access.error})", until_s=access.retry_at)
    return min(
        (_standing(access, row, now_s=now_s, rules=rules) for row in dialects(rules.dialect)),
        key=_openness,
    )


def _openness(standing: Standing) -> int:
    match standing:
        case Unknown():
            return 0
        case Closed():
            return 1
        case Rules():
            return 2
        case Open():
            # Between two open doors the one without an answer is looked at again later.
            return 4 if standing.answered else 3


def _standing(access: Access, row: Dialect, *, now_s: float, rules: RobotsRules) -> Standing:
    if access.unreachable_since is not None:
        return _without_answer(access, row, now_s=now_s, override=rules.unreachable)
    if access.body is not None:
        if copy_age_s(access, now_s) > row.copy_max_s:
            return Unknown()
        stale = access.gone_since is not None or due(access, now_s)
        return _rules(access, stale=stale)
    if access.fetched_at is None:
        return Unknown()
    said = access.error or f"answered {access.status}"
    if access.status in (401, 403):
        return _door(access, row, row.denied, Aspect.DENIED, f"robots.txt {said}", answered=True)
    return _door(access, row, row.missing, Aspect.MISSING, f"robots.txt {said}", answered=True)


def _without_answer(
    access: Access, row: Dialect, *, now_s: float, override: Unreachable | None
) -> Standing:
    since_s = access.unreachable_since if access.unreachable_since is not None else now_s
    why = f"robots.txt cannot be had ({access.error or 'no answer'})"
    if override is None and row.closed_first_s:
        return _in_stages(access, row, why, now_s=now_s, since_s=since_s)
    if access.body is not None and copy_age_s(access, now_s) <= row.copy_max_s:
        return _rules(access, stale=True)
    if override is not None:
        reason = f'{why}, and robots.unreachable = "{override}"'
        if override is Unreachable.OPEN:
            return Open(reason=reason, answered=False)
        return Closed(reason=reason, until_s=access.retry_at)
    return _door(access, row, row.unreachable, Aspect.UNREACHABLE, why, answered=False)


def _in_stages(access: Access, row: Dialect, why: str, *, now_s: float, since_s: float) -> Standing:
    """Closed at first; then by the last copy for so long as it counts; then as the site answers."""
    if now_s < since_s + row.closed_first_s:
        hours = row.closed_first_s / 3600
        first_end_s = since_s + row.closed_first_s
        return Closed(
            reason=f"{why}, and {row.name} stays away for the first {hours:.0f} hours",
            until_s=first_end_s if access.retry_at is None else min(first_end_s, access.retry_at),
        )
    if now_s < since_s + row.copy_max_s:
        if access.body is not None:
            return _rules(access, stale=True)
        return _door(access, row, row.unreachable, Aspect.UNREACHABLE, why, answered=False)
    days = row.copy_max_s / DAY_S
    if row.open_if_answering and access.status is not None:
        reason = f"{why} for {days:.0f} days, but the site answers: {row.name} takes it as open"
        return Open(reason=reason, answered=False)
    reason = f"{why} for {days:.0f} days, and the site does not answer: {row.name} stays away"
    return Closed(reason=reason, until_s=access.retry_at)


def _door(
    access: Access, row: Dialect, door: Door, aspect: Aspect, why: str, *, answered: bool
) -> Standing:
    note = f" ({row.ours[aspect]})" if aspect in row.ours else ""
    reason = f"{why}: {row.name} takes that as {door.value}{note}"
    if door is Door.OPEN:
        return Open(reason=reason, answered=answered)
    return Closed(reason=reason, until_s=next_due_at(access))


def _rules(access: Access, *, stale: bool) -> Rules:
    return Rules(
        body=access.body or b"",
        copy_at=access.copy_at or 0.0,
        stale=stale,
        truncated=access.truncated,
    )
