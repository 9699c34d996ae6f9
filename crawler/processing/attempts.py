"""Outcomes of URLs without an answer: forbidden, retried, or given up. Pure."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from crawler.fetching.request import Answer, Failure
from crawler.frontier.frontier import REFUSALS
from policies import declarations
from policies.retries import (
    BACKOFF_S_MAX,
    FailureCode,
    GiveUp,
    RetryRules,
    after_failure,
    after_refusal,
)
from policies.robots import Verdict
from policies.url import origin_of
from storage.store import (
    SUSPECT_REST_S,
    Blocked,
    BlockReason,
    Failed,
    Plan,
    Queued,
    Retry,
    Revisited,
    Visited,
)

_GOLDEN: Final = 0.6180339887  # whose multiples by whole numbers lie evenly between two of them


def blocked_by(verdict: Verdict, id_: int, slot: str, url: str, *, now_s: float) -> Blocked:
    """A verdict as the store keeps it."""
    return Blocked(
        id=id_,
        slot=slot,
        reason=BlockReason.NOINDEX_LINE if verdict.noindex else BlockReason.ROBOTS,
        dialect=verdict.dialect,
        rule=verdict.rule,
        line=verdict.line,
        robots_url=origin_of(url) + "/robots.txt",
        blocked_at=now_s,
    )


_TARGET_CHARS_MAX: Final = 500


def given_up(queued: Queued, slot: str, fault: str, *, now_s: float) -> Failed | Revisited:
    """Return the outcome after a fault of our own: the URL fails. One that was visited stays so,
    and its next visit is as far away as the last was."""
    if queued.before is not None:
        before = queued.before.plan
        in_s = max(before.interval_s, BACKOFF_S_MAX)
        plan = structs.replace(before, due_in_s=in_s, failures=before.failures + 1)
        return Revisited(id=queued.id, slot=slot, plan=plan)
    error = f"{FailureCode.INTERNAL}: {fault}"
    attempts = queued.attempts + queued.refusals + 1
    return Failed(id=queued.id, slot=slot, error=error, attempts=attempts, last_at=now_s)


def redirected_too_often(queued: Queued, slot: str, target: str, *, now_s: float) -> Failed:
    """Return the outcome of a URL that is one redirect too many."""
    shown = target if len(target) <= _TARGET_CHARS_MAX else f"{target[:_TARGET_CHARS_MAX]}…"
    error = (
        f"{FailureCode.REDIRECTS}: {queued.hops} consecutive redirects led here, and this URL "
        f"redirects again, to {shown}"
    )
    attempts = queued.attempts + queued.refusals + 1
    return Failed(id=queued.id, slot=slot, error=error, attempts=attempts, last_at=now_s)


def must_read(plan: Plan) -> Plan:
    """The plan of a page that must be read again whole, and that counts as changed then: what is
    recorded of it does not go with its latest answer."""
    return structs.replace(plan, etag=None, last_modified=None, declared=declarations.UNKNOWN)


def deferred(queued: Queued, slot: str) -> Retry | Revisited:
    """Return the outcome of a suspect that must wait for another one in flight."""
    if queued.before is not None:
        plan = structs.replace(queued.before.plan, due_in_s=SUSPECT_REST_S * (1 + _spread(queued)))
        return Revisited(id=queued.id, slot=slot, plan=plan, deferred=True)
    return Retry(
        id=queued.id,
        slot=slot,
        due_in_s=SUSPECT_REST_S * (1 / 3 + _spread(queued)),
        attempts=queued.attempts,
        refusals=queued.refusals,
        error="it was in flight when the process died: such URLs are fetched one at a time",
    )


def _spread(queued: Queued) -> float:
    """A part of one, another for each URL. Hundreds of suspects that fall due together would find
    one of them in flight, all but the first, and again and again."""
    return queued.id * _GOLDEN % 1.0


def unkept(page: Visited, fault: str) -> Failed | Revisited:
    """Return the outcome of a page that a sink could not take, by a fault of its own."""
    if page.again:
        plan = None if page.plan is None else must_read(page.plan)
        return Revisited(id=page.id, slot=page.slot, plan=plan)
    error = f"{FailureCode.INTERNAL}: {fault}, in a sink"
    return Failed(id=page.id, slot=page.slot, error=error, attempts=1, last_at=page.fetched_at)


def after_try(
    queued: Queued, slot: str, result: Answer | Failure, *, max_attempts: int, now_s: float
) -> Failed | Retry:
    """Return the outcome after a failure, a refusal or an error of the server: whether it is tried
    again.

    `now_s`: Unix seconds.
    """
    if isinstance(result, Answer) and result.status in REFUSALS:
        fate = after_refusal(queued.refusals, attempts=queued.attempts)
        error = f"refused: the server answered {result.status} (too busy for us)"
    else:
        if isinstance(result, Answer):
            code, permanent = FailureCode.HTTP, False
            error = f"http: the server answered {result.status}"
        else:
            code, permanent, error = result.code, result.permanent, result.error
        rules = RetryRules(max_attempts=max_attempts)
        fate = after_failure(
            code, queued.attempts, rules, refusals=queued.refusals, permanent=permanent
        )
    if isinstance(fate, GiveUp):
        return Failed(id=queued.id, slot=slot, error=error, attempts=fate.attempts, last_at=now_s)
    return Retry(
        id=queued.id,
        slot=slot,
        due_in_s=fate.in_s,
        attempts=fate.attempts,
        refusals=fate.refusals,
        error=error,
    )
