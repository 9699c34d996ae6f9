"""Texts from the network, times and numbers, as they may be shown."""

from __future__ import annotations

import re
from datetime import UTC, datetime

# Control characters (a terminal obeys them) and those that turn the direction of a text around.
_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Without what a terminal would obey, or what would turn the text around."""
    return _ODD.sub("\N{REPLACEMENT CHARACTER}", text)


def at(value: object) -> str:
    """Unix seconds as a date in UTC."""
    if not isinstance(value, int | float) or not 0 < value < 1e11:
        return "-"
    return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def counted(number: int, thing: str) -> str:
    """`1 host`, `1,200 hosts`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
