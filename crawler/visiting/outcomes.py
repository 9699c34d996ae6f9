"""What becomes of a URL that gave no answer: forbidden, asked for again, or given up. Pure."""

from __future__ import annotations

from crawler.fetching.request import Answer, Failure
from crawler.politeness.contact import REFUSALS
from policies.retry import FailureCode, GiveUp, RetryRules, after_failure, after_refusal
from policies.robots import Verdict
from policies.url import origin_of
from storage.base import Blocked, BlockReason, Failed, Queued, Retry


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


def after_try(
    queued: Queued, slot: str, result: Answer | Failure, *, max_attempts: int, now_s: float
) -> Failed | Retry:
    """After a failure, a refusal or an error of the server: whether it is tried again.

    `now_s`: Unix seconds."""
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
