"""What is known of an origin's robots.txt, as a policy for its pages now.

No origin is open by accident: what applies while there is no copy is a value with a reason.
"""

from __future__ import annotations

from msgspec import Struct

from policies.quarantine import is_quarantined
from policies.robots.dialect import DAY_S, Aspect, Dialect, Fallback
from policies.robots.dialects import dialects
from policies.robots_state import (
    NO_SPACE,
    RobotsRules,
    RobotsState,
    Unreachable,
    copy_age_s,
    is_due,
    next_due_at,
)


class Governed(Struct, frozen=True, kw_only=True):
    """The rules of this copy decide over pages."""

    body: bytes
    copy_at: float  # Unix seconds
    stale: bool  # it has expired, or a refresh failed
    truncated: bool = False


class Open(Struct, frozen=True, kw_only=True):
    """All pages may be fetched."""

    reason: str
    answered: bool  # False: for lack of an answer; what is fetched now is judged again (law 4)


class Closed(Struct, frozen=True, kw_only=True):
    """No page may be fetched."""

    reason: str
    until_s: float | None  # Unix seconds: when it is fetched again, or may open; None: unknown


class Unknown(Struct, frozen=True, kw_only=True):
    """robots.txt must be fetched first."""


RobotsPolicy = Governed | Open | Closed | Unknown


def robots_policy(state: RobotsState, *, now_s: float, rules: RobotsRules) -> RobotsPolicy:
    """The policy for an origin's pages now: the strictest of all dialects."""
    if not rules.obey:
        return Open(reason="robots.obey = false", answered=True)
    if is_quarantined(state) or state.error == NO_SPACE:  # whatever the dialect and the settings
        return Closed(reason=_not_fetched(state), until_s=state.retry_at)
    return min(
        (_policy(state, dialect, now_s=now_s, rules=rules) for dialect in dialects(rules.dialect)),
        key=_openness,
    )


def _openness(policy: RobotsPolicy) -> int:
    match policy:
        case Unknown():
            return 0
        case Closed():
            return 1
        case Governed():
            return 2
        case Open():
            # Of two open ones, the one without an answer: its pages are judged again later.
            return 4 if policy.answered else 3


def _policy(
    state: RobotsState, dialect: Dialect, *, now_s: float, rules: RobotsRules
) -> RobotsPolicy:
    if state.unreachable_since is not None:
        return _unreachable(state, dialect, now_s=now_s, override=rules.unreachable)
    if state.body is not None:
        if copy_age_s(state, now_s) > dialect.copy_max_s:
            return Unknown()
        return _governed(state, stale=state.gone_since is not None or is_due(state, now_s))
    if state.fetched_at is None:
        return Unknown()
    why = f"robots.txt {state.error or f'answered {state.status}'}"
    if state.status in (401, 403):
        return _fallback(state, dialect, dialect.denied, Aspect.DENIED, why)
    return _fallback(state, dialect, dialect.missing, Aspect.MISSING, why)


def _unreachable(
    state: RobotsState, dialect: Dialect, *, now_s: float, override: Unreachable | None
) -> RobotsPolicy:
    why = _not_fetched(state)
    if override is None and dialect.closed_first_s:
        return _in_stages(state, dialect, why, now_s=now_s)
    if state.body is not None and copy_age_s(state, now_s) <= dialect.copy_max_s:
        return _governed(state, stale=True)
    if override is not None:
        reason = f'{why}, and robots.unreachable = "{override}"'
        if override is Unreachable.OPEN:
            return Open(reason=reason, answered=False)
        return Closed(reason=reason, until_s=state.retry_at)
    return _fallback(state, dialect, dialect.unreachable, Aspect.UNREACHABLE, why)


def _in_stages(state: RobotsState, dialect: Dialect, why: str, *, now_s: float) -> RobotsPolicy:
    """Closed at first; then by the last copy while it is valid; then depending on whether the site
    answers."""
    since_s = state.unreachable_since if state.unreachable_since is not None else now_s
    first_end_s = since_s + dialect.closed_first_s
    if now_s < first_end_s:
        return Closed(
            reason=f"{why}, and {dialect.name} does not crawl the site for the "
            f"first {dialect.closed_first_s / 3600:.0f} hours",
            until_s=first_end_s if state.retry_at is None else min(first_end_s, state.retry_at),
        )
    if now_s < since_s + dialect.copy_max_s:
        if state.body is not None:
            return _governed(state, stale=True)
        return _fallback(state, dialect, dialect.unreachable, Aspect.UNREACHABLE, why)
    why = f"{why} for {dialect.copy_max_s / DAY_S:.0f} days"
    if dialect.open_if_answering and state.status is not None:
        reason = f"{why}, but the site responds, so {dialect.name} allows everything"
        return Open(reason=reason, answered=False)
    reason = f"{why}, and the site does not respond, so {dialect.name} does not crawl it"
    return Closed(reason=reason, until_s=state.retry_at)


def _not_fetched(state: RobotsState) -> str:
    return f"robots.txt could not be fetched ({state.error or 'no answer'})"


def _fallback(
    state: RobotsState, dialect: Dialect, fallback: Fallback, aspect: Aspect, why: str
) -> RobotsPolicy:
    note = f" ({dialect.ours[aspect]})" if aspect in dialect.ours else ""
    reason = f"{why}: {dialect.name} treats that as {fallback.value}{note}"
    if fallback is Fallback.OPEN:
        return Open(reason=reason, answered=aspect is not Aspect.UNREACHABLE)
    return Closed(reason=reason, until_s=next_due_at(state))


def _governed(state: RobotsState, *, stale: bool) -> Governed:
    return Governed(
        body=state.body or b"",
        copy_at=state.copy_at or 0.0,
        stale=stale,
        truncated=state.truncated,
    )
