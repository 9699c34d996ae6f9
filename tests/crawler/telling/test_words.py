"""Texts, times and counts as they may be shown."""

from __future__ import annotations

from crawler.telling.words import at, counted, plain


def test_things_are_counted_in_words() -> None:
    assert [counted(n, "host") for n in (0, 1, 1200)] == ["0 hosts", "1 host", "1,200 hosts"]


def test_nothing_that_a_terminal_would_obey_is_left() -> None:
    assert plain("a\x1b[31mb\u202ec\n") == "a\ufffd[31mb\ufffdc\ufffd"


def test_times_are_dates_in_utc() -> None:
    assert at(1_700_000_000) == "2023-11-14 22:13:20Z"
    assert [at(value) for value in (0, None, 1e12)] == ["-", "-", "-"]
