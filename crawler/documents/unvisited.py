"""URLs that gave no page, as given to the caller that iterates over outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from policies.retries import FailureCode
from policies.robots import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPage:
    """A URL that was given up. It is a row of the view `failed`.

    url: canonical.
    code, sentence: the last error, as a code and in words.
    attempts: requests made, with those that were refused.
    failed_at: of the last attempt, in Unix seconds.
    data: the JSON value added with the URL; None without one.
    referrer: the page that linked to it first; None for a seed.
    """

    url: str
    code: FailureCode
    sentence: str
    attempts: int
    failed_at: float
    data: Any = None
    referrer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedPage:
    """A URL that robots.txt forbids. It is a row of the view `blocked`.

    url: canonical.
    verdict: the rule and the line that decided, as in `RobotsDisallowed`.
    blocked_at: Unix seconds.
    data, referrer: as of a FailedPage.
    """

    url: str
    verdict: Verdict
    blocked_at: float
    data: Any = None
    referrer: str | None = None


def code_and_sentence(error: str) -> tuple[FailureCode, str]:
    """Split an error of the view `failed`, "CODE: sentence"."""
    code, _, sentence = error.partition(": ")
    return FailureCode(code), sentence
