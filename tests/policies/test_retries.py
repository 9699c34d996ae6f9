"""Attempts, refusals and lost connections, and the headers that set a wait."""

from __future__ import annotations

import datetime as dt
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.retries import (
    RETRY_AFTER_S_MAX,
    FailureCode,
    GiveUp,
    RetryLater,
    RetryRules,
    after_failure,
    after_no_connection,
    after_refusal,
    backoff_s,
    http_date_s,
    is_address_refused,
    retry_after_s,
    retry_delay_s,
    tried_for_s,
)
from tests.tables import each

RULES = RetryRules()
NOW_S = 1_000_000_000.0  # Sun, 09 Sep 2001 01:46:40 GMT


@each("code", [FailureCode.TIMEOUT, FailureCode.PROTOCOL, FailureCode.BODY, FailureCode.HTTP])
def test_failures_after_connecting_are_attempts(code: FailureCode) -> None:
    assert after_failure(code, 0, RULES) == RetryLater(in_s=2.0, attempts=1)
    assert after_failure(code, 1, RULES) == RetryLater(in_s=10.0, attempts=2)
    assert after_failure(code, 2, RULES) == GiveUp(attempts=3)


def test_one_attempt_means_no_second() -> None:
    assert after_failure(FailureCode.HTTP, 0, RetryRules(max_attempts=1)) == GiveUp(attempts=1)


@pytest.mark.parametrize("code", [FailureCode.ADDRESS, FailureCode.TOO_LARGE])
def test_what_would_recur_is_not_tried_again(code: FailureCode) -> None:
    assert after_failure(code, 0, RULES) == GiveUp(attempts=1)


def test_a_failure_known_to_be_permanent_is_not_tried_again() -> None:
    assert after_failure(FailureCode.PROTOCOL, 0, RULES, permanent=True) == GiveUp(attempts=1)
    assert [is_address_refused(error) for error in ("address: 10.0.0.1", "dns: x")] == [True, False]


def test_refusals_are_not_attempts_and_the_fifth_is_the_last() -> None:
    for met in range(4):
        assert after_refusal(met, attempts=2) == RetryLater(in_s=0.0, attempts=2, refusals=met + 1)
    assert after_refusal(4, attempts=2) == GiveUp(attempts=7)
    assert after_failure(FailureCode.HTTP, 2, RULES, refusals=4) == GiveUp(attempts=7)
    assert after_failure(FailureCode.HTTP, 1, RULES, refusals=4) == RetryLater(
        in_s=10.0, attempts=2, refusals=4
    )


def test_lost_connections_count_against_the_host_on_the_retry_clock() -> None:
    assert after_no_connection(0, RULES) == RetryLater(in_s=2.0, attempts=1)
    assert after_no_connection(1, RULES) == RetryLater(in_s=10.0, attempts=2)
    assert after_no_connection(2, RULES) == GiveUp(attempts=3)
    assert after_no_connection(0, RULES, permanent=True) == GiveUp(attempts=1)
    impatient = RetryRules(unreachable_for_s=42.0)
    assert after_no_connection(2, impatient) == RetryLater(in_s=30.0, attempts=3)
    assert after_no_connection(3, impatient) == GiveUp(attempts=4)
    assert [tried_for_s(n) for n in (0, 1, 2, 20)] == [0, 0, 2, tried_for_s(19) + 6 * 3600]
    assert tried_for_s(10**9) > 10**12


def test_retry_clock() -> None:
    """2 s, 10 s, 30 s, then 1 min doubling to 6 h."""
    assert [retry_delay_s(n) for n in range(8)] == [2, 2, 10, 30, 60, 120, 240, 480]
    assert retry_delay_s(12) == 15_360
    assert retry_delay_s(13) == retry_delay_s(10**9) == 6 * 3600


def test_backoff_doubles_from_a_minute_to_a_day() -> None:
    assert [backoff_s(n) for n in range(5)] == [60, 60, 120, 240, 480]
    assert backoff_s(11) == 61_440
    assert backoff_s(12) == backoff_s(10**9) == 86_400


@each(
    ("header", "wait_s"),
    [
        (None, None), ("", None), ("soon", None), ("120", 120.0), (" 120 ", 120.0), ("1.5", 1.5),
        ("0", 0.0), ("-7", 0.0), ("9" * 5000, RETRY_AFTER_S_MAX), ("inf", None), ("nan", None),
        ("1e3", None), ("1_0", None), ("١٢", None), ("120, 240", None),
        ("Sun, 09 Sep 2001 01:47:40 GMT", 60.0), ("sun, 9 sep 2001 1:47:40", 60.0),
        ("Sunday, 09-Sep-01 01:47:40 GMT", 60.0), ("Sun Sep  9 01:47:40 2001", 60.0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0), ("Sunday, 06-Nov-94 08:49:37 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", RETRY_AFTER_S_MAX),
        ("Sun, 09 Sep 2001 01:47:40 PST", None), ("Sun, 31 Feb 2002 01:47:40 GMT", None),
        ("Sun, 09 Xyz 2001 01:47:40 GMT", None), ("Sun, 09 Sep 2001 25:47:40 GMT", None),
        ("Sun, 09 Sep 0000 01:47:40 GMT", None), ("Sun, 00 Sep 2001 01:47:40 GMT", None),
        ("Sun, 30 Sep 2001 23:59:60 GMT", 1_894_400.0), ("Sun, 09 Sep 2001 01:47:61 GMT", None),
        ("Sun, 09 Sep 2001 01:60:40 GMT", None), ("Sun, 09 Sep 2001 24:47:40 GMT", None),
        ("Tue, 01-Jan-69 00:00:00 GMT", RETRY_AFTER_S_MAX), ("Thu, 01-Jan-70 00:00:00 GMT", 0.0),
    ],
)  # fmt: skip
def test_retry_after(header: str | None, wait_s: float | None) -> None:
    """RFC 9110, 10.2.3: seconds or an HTTP date; at most 30 days; the past is now."""
    assert retry_after_s(header, now_s=NOW_S) == wait_s


def test_the_longer_wait_counts_when_a_clock_is_wrong() -> None:
    header, sent = "Sun, 09 Sep 2001 01:47:40 GMT", "Sun, 09 Sep 2001 01:46:10 GMT"
    for date, now_s, wait_s in ((sent, NOW_S, 90.0), (sent, NOW_S - 60, 120.0), ("x", NOW_S, 60.0)):
        assert retry_after_s(header, now_s=now_s, date=date) == wait_s
    assert retry_after_s(header, now_s=NOW_S, max_s=7.0) == 7.0


@given(
    st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(9999, 12, 31)).map(  # noqa: DTZ001
        lambda moment: moment.replace(microsecond=0, tzinfo=dt.UTC)
    )
)
def test_http_dates_are_read_back(moment: dt.datetime) -> None:
    assert http_date_s(format_datetime(moment, usegmt=True)) == moment.timestamp()


@given(st.text(max_size=70) | st.text("0123456789:- ,GMTSunSep", max_size=70))
def test_no_header_raises(text: str) -> None:
    wait_s = retry_after_s(text, now_s=NOW_S)
    assert wait_s is None or 0.0 <= wait_s <= RETRY_AFTER_S_MAX
