"""Strings, times and counts, formatted for display."""

from __future__ import annotations

from crawler.explain.formatting import at, counted, plain


def test_a_count_has_its_noun() -> None:
    assert [counted(n, "host") for n in (0, 1, 1200)] == ["0 hosts", "1 host", "1,200 hosts"]


def test_characters_that_affect_a_terminal_are_replaced() -> None:
    assert plain("a\x1b[31mb\u202ec\n") == "a\ufffd[31mb\ufffdc\ufffd"


def test_times_are_dates_in_utc() -> None:
    assert at(1_700_000_000) == "2023-11-14 22:13:20Z"
    assert [at(value) for value in (0, None, 1e12)] == ["-", "-", "-"]
