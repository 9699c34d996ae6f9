"""Retries and backoff: when a URL is tried again after a failure, or whether it is given up.

There are three separate counts: a URL's attempts (network failures after connecting, and 5xx), a
URL's refusals (429 and 503, which do not count as attempts), and an origin's connection failures in
a row (no connection was made, which is not the URL's failure).
"""

from __future__ import annotations

import calendar
import enum
import re
from typing import Final

from msgspec import Struct


class FailureCode(enum.StrEnum):
    """The code of a failed URL, at the beginning of its error."""

    DNS = "dns"
    ADDRESS = "address"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    PROTOCOL = "protocol"
    BODY = "body"
    TOO_LARGE = "too-large"
    REFUSED = "refused"
    HTTP = "http"
    REDIRECTS = "redirects"  # too many in a row
    QUARANTINED = "quarantined"  # in flight when the process died, twice
    INTERNAL = "internal"  # a fault of our own, or of a library


# Another attempt would fail in the same way: the address guard (law 9), our limit on the body.
PERMANENT: Final = frozenset({FailureCode.ADDRESS, FailureCode.TOO_LARGE})

REFUSALS_MAX: Final = 5  # a URL fails as `refused` at its fifth
DENIALS_MAX: Final = 20  # 401 or 403 in a row, after which the host is backed off
BACKOFF_S_MAX: Final = 86_400.0  # the longest backoff without a Retry-After: a day
# The longest Retry-After, unless `politeness.max_retry_after` is another: no maintenance takes
# longer, and a mistaken header (a date of the wrong year) must not keep a host away for good.
RETRY_AFTER_S_MAX: Final = 30 * 86_400.0

_RETRY_FIRST_S: Final = (2.0, 10.0, 30.0)
_RETRY_THEN_S: Final = 60.0
_RETRY_S_MAX: Final = 21_600.0
_BACKOFF_FIRST_S: Final = 60.0
_STEPS_TO_MAX: Final = 16  # failures after which the retry delay has reached its maximum
_DOUBLINGS_MAX: Final = 40  # beyond every maximum here, and far from overflow


def is_address_refused(error: str) -> bool:
    """Return whether an error ("CODE: sentence") says that the config does not allow an address."""
    return error.startswith(f"{FailureCode.ADDRESS}:")


class RetryRules(Struct, frozen=True, kw_only=True):
    """Limits of `[fetch]`.

    max_attempts: includes the first attempt.
    unreachable_for_s: how long to try an origin that cannot be connected to; None: `max_attempts`
      times.
    """

    max_attempts: int = 3
    unreachable_for_s: float | None = None


class RetryLater(Struct, frozen=True, kw_only=True):
    """Try again in `in_s` seconds or later, with these counts."""

    in_s: float
    attempts: int
    refusals: int = 0


class GiveUp(Struct, frozen=True, kw_only=True):
    """The decision to try no more. `attempts`: all requests made, refused ones included."""

    attempts: int


def after_failure(
    code: FailureCode,
    attempts: int,
    rules: RetryRules,
    *,
    refusals: int = 0,
    permanent: bool = False,
) -> RetryLater | GiveUp:
    """The decision after a request that failed after connecting, or was answered 5xx except 503.

    attempts, refusals: the counts before it. permanent: the failure is known to recur.
    """
    attempts += 1
    if permanent or code in PERMANENT or attempts >= rules.max_attempts:
        return GiveUp(attempts=attempts + refusals)
    return RetryLater(in_s=retry_delay_s(attempts), attempts=attempts, refusals=refusals)


def after_refusal(refusals: int, *, attempts: int = 0) -> RetryLater | GiveUp:
    """The decision after a 429 or 503. refusals, attempts: the counts before it.

    The URL itself does not wait (`in_s` is 0.0), because its host is backed off.
    """
    refusals += 1
    if refusals >= REFUSALS_MAX:
        return GiveUp(attempts=attempts + refusals)
    return RetryLater(in_s=0.0, attempts=attempts, refusals=refusals)


def after_no_connection(
    failures: int, rules: RetryRules, *, permanent: bool = False
) -> RetryLater | GiveUp:
    """The decision about an *origin* to which no connection could be made.

    failures: the count in a row before it; `attempts` of the result is the new count. permanent:
    the name does not exist, or its address may not be connected to. After GiveUp all queued URLs of
    the origin fail.
    """
    failures += 1
    if rules.unreachable_for_s is None:
        over = failures >= rules.max_attempts
    else:
        over = tried_for_s(failures) >= rules.unreachable_for_s
    if permanent or over:
        return GiveUp(attempts=failures)
    return RetryLater(in_s=retry_delay_s(failures), attempts=failures)


# ---------------------------------------------------------------- delays


def retry_delay_s(failures: int) -> float:
    """Return the seconds until the next attempt: 2 s, 10 s, 30 s, then 60 s doubling up to 6 h.

    failures: in a row, the last one included.
    """
    step = max(failures, 1) - 1
    if step < len(_RETRY_FIRST_S):
        return _RETRY_FIRST_S[step]
    doublings = min(step - len(_RETRY_FIRST_S), _DOUBLINGS_MAX)
    return min(_RETRY_THEN_S * 2.0**doublings, _RETRY_S_MAX)


def tried_for_s(failures: int) -> float:
    """Return seconds from the first to the last of `failures` in a row, by their retry delays.

    Not measured by the wall clock, so that time without attempts (no crawl was running, or our own
    network was down) does not count.
    """
    steps = min(failures, _STEPS_TO_MAX)
    tried_s = sum(retry_delay_s(n) for n in range(1, steps))
    return tried_s + (failures - steps) * _RETRY_S_MAX


def backoff_s(level: int) -> float:
    """The backoff of a host after a refusal without Retry-After: 60 s doubling up to 24 h.

    level: the refusals, this one included, less one for each success since. Levels below 1 count
    as 1.
    """
    doublings = min(max(level, 1) - 1, _DOUBLINGS_MAX)
    return min(_BACKOFF_FIRST_S * 2.0**doublings, BACKOFF_S_MAX)


# ---------------------------------------------------------------- headers

_SECONDS: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?\Z")
_MONTHS: Final = tuple("jan feb mar apr may jun jul aug sep oct nov dec".split())  # noqa: SIM905
_TIME = r"(?P<h>[0-9]{1,2}):(?P<m>[0-9]{2}):(?P<s>[0-9]{2})"
# RFC 9110, 5.6.7: IMF-fixdate and the RFC 850 form (also without a day name); asctime.
_DATES: Final = (
    re.compile(
        rf"(?:[a-z]+,?\s+)?(?P<day>[0-9]{{1,2}})[\s-](?P<month>[a-z]{{3}})[\s-]"
        rf"(?P<year>[0-9]{{4}}|[0-9]{{2}})\s+{_TIME}(?:\s*(?:gmt|utc|ut|z|[+-]0000))?\Z"
    ),
    re.compile(
        rf"[a-z]+\s+(?P<month>[a-z]{{3}})\s+(?P<day>[0-9]{{1,2}})\s+{_TIME}\s+(?P<year>[0-9]{{4}})\Z"
    ),
)
_DATE_CHARS_MAX: Final = 64  # the longest valid date has 33


def http_date_s(text: str) -> float | None:
    """An HTTP date (RFC 9110, 5.6.7, all three forms) in Unix seconds; None if it is not one.

    Two-digit years from 70 on are in the 20th century.
    """
    if len(text) > _DATE_CHARS_MAX:
        return None
    text = text.strip().lower()
    for form in _DATES:
        found = form.match(text)
        if found is None or found["month"] not in _MONTHS:
            continue
        year = int(found["year"])
        if len(found["year"]) == 2:
            year += 1900 if year >= 70 else 2000
        month, day = _MONTHS.index(found["month"]) + 1, int(found["day"])
        hour, minute, second = int(found["h"]), int(found["m"]), int(found["s"])
        if year < 1970 or not 1 <= day <= calendar.monthrange(year, month)[1]:
            return None
        if hour > 23 or minute > 59 or second > 60:  # 60: a leap second
            return None
        return float(calendar.timegm((year, month, day, hour, minute, second)))
    return None


def retry_after_s(
    header: str | None,
    *,
    now_s: float,
    date: str | None = None,
    max_s: float = RETRY_AFTER_S_MAX,
) -> float | None:
    """The seconds of a Retry-After header (RFC 9110, 10.2.3), at most `max_s`.

    It contains seconds or an HTTP date. From a date, the Date header of the response (`date`) and
    the Unix time `now_s` are subtracted, and the longer wait counts: neither a wrong clock here nor
    one there shortens it. 0.0 if the date has passed. None: there is no header, or it is neither.
    """
    if header is None:
        return None
    text = header.strip()
    if _SECONDS.match(text):
        wait_s = float(text)
    else:
        date_s = http_date_s(text)
        if date_s is None:
            return None
        sent_s = None if date is None else http_date_s(date)
        wait_s = date_s - (now_s if sent_s is None else min(now_s, sent_s))
    return min(max(wait_s, 0.0), max_s)
