"""Dates, hints and priorities as sitemaps and feeds write them."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from policies.listing import (
    Changefreq,
    frontier_priority,
    parse_changefreq,
    parse_date,
    parse_priority,
)
from tests.tables import each

DAY = datetime(2024, 3, 5, tzinfo=UTC).timestamp()
HOUR = 3600.0


@each(
    ("text", "expected"),
    [
        ("2024", datetime(2024, 1, 1, tzinfo=UTC).timestamp()),
        ("2024-03", datetime(2024, 3, 1, tzinfo=UTC).timestamp()), (" 2024-03-05\n", DAY),
        ("2024-03-05T10:30Z", DAY + 10.5 * HOUR),
        ("2024-03-05T10:30:15+02:00", DAY + 8.5 * HOUR + 15),
        ("2024-03-05t10:30:15.123456-0130", DAY + 12 * HOUR + 15),
        ("2024-03-05 10:30:15", DAY + 10.5 * HOUR + 15),
        ("Tue, 05 Mar 2024 10:30:00 GMT", DAY + 10.5 * HOUR),
        ("5 Mar 2024 10:30 +0200", DAY + 8.5 * HOUR), ("", None), ("yesterday", None),
        ("2024-13-45", None), ("0000-00-00", None), ("2024-03-05T10:30:15+99:99" + "0" * 99, None),
    ],
)  # fmt: skip
def test_dates_in_the_forms_that_are_met(text: str, expected: float | None) -> None:
    assert parse_date(text) == expected


@given(st.text(max_size=80))
def test_no_text_raises(text: str) -> None:
    parse_date(text)
    parse_changefreq(text)
    priority = parse_priority(text)
    assert priority is None or 0.0 <= priority <= 1.0


def test_hints() -> None:
    assert parse_changefreq(" Daily ") is Changefreq.DAILY
    assert parse_changefreq("sometimes") is None
    assert (parse_priority("0.8"), parse_priority("7"), parse_priority("0,3")) == (0.8, 1.0, 0.3)
    assert parse_priority("nan") is None


def test_the_default_priority_is_that_of_a_link() -> None:
    """sitemaps.org: 0.5 is the default, 0.0 to 1.0 the range."""
    assert frontier_priority(None) == frontier_priority(0.5) == 0.0
    assert frontier_priority(1.0) == 0.5
    assert frontier_priority(0.0) == -0.5
    assert frontier_priority(0.8) == 0.3
