"""Parsing and formatting durations and sizes."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.config.units import format_bytes, format_duration, parse_duration_s, parse_size_bytes


def test_durations() -> None:
    text: Any
    for text, seconds in [
        (30, 30.0), (1.5, 1.5), ("30", 30.0), ("0.5", 0.5), ("250ms", 0.25), ("10s", 10.0),
        ("10m", 600.0), ("1.5h", 5400.0), ("24h", 86_400.0), ("2d", 172_800.0),
        (" 1h 30m ", 5400.0), ("1h30m", 5400.0),
    ]:  # fmt: skip
        assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "m", "10x", "-5s", "1,5h", "10 parsecs", "inf", "nan", "١s", "5M"]
)
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a duration is seconds or a string such as"):
        parse_duration_s(text)


def test_sizes() -> None:
    text: Any
    for text, size in [
        (4096, 4096), ("10MB", 10**7), ("500KB", 500_000), ("500kB", 500_000), ("1KiB", 1024),
        ("1.5MiB", 1_572_864), ("1 GB", 10**9), ("7B", 7), ("12", 12),
    ]:  # fmt: skip
        assert parse_size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "MB", "10M", "-1KB", "10TB", "1e6"])
def test_an_invalid_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a size is bytes or a string such as"):
        parse_size_bytes(text)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (parse_duration_s, parse_size_bytes):
        with contextlib.suppress(ValueError):
            assert read(text) >= 0


def test_durations_in_words() -> None:
    for seconds, words in [
        (0, "0 s"), (0.25, "250 ms"), (1.5, "1.5 s"), (59.4, "59 s"), (60, "1 min"),
        (90, "1 min 30 s"), (3600, "1 h"), (5400, "1 h 30 min"), (86_400, "24 h"),
        (3 * 86_400 + 3600, "3 d 1 h"), (math.inf, "for ever"),
    ]:  # fmt: skip
        assert format_duration(seconds) == words


def test_sizes_in_words() -> None:
    for count, words in [
        (0, "0 B"),
        (999, "999 B"),
        (1500, "1.5 KB"),
        (10_000_000, "10 MB"),
        (999_600, "1 MB"),
        (2.5e15, "2,500 TB"),
    ]:
        assert format_bytes(count) == words
