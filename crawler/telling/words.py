"""Texts from the network, times and numbers, as they may be shown."""

from __future__ import annotations

import re
from datetime import UTC, datetime

# What a terminal obeys (controls), what ends a line for some programs (U+2028, U+2029), what turns
# the direction of a text around or cannot be seen (all format characters but the two joiners, which
# scripts and emoji need), and lone surrogates, which no encoding takes.
_FORMATS = (
    "\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff"
)
_ODD = re.compile(rf"[\x00-\x1f\x7f-\x9f{_FORMATS}\ud800-\udfff]")
_ODD_IN_LINES = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_FORMATS}\ud800-\udfff]")


def plain(text: str) -> str:
    """One line without what a terminal would obey, or what would turn the text around."""
    return _ODD.sub("\N{REPLACEMENT CHARACTER}", text)


def printable(text: str) -> str:
    """The same for several lines: line feeds and tabs stay."""
    return _ODD_IN_LINES.sub("\N{REPLACEMENT CHARACTER}", text)


def json_printable(text: str) -> str:
    """JSON that says the same, with such characters as escapes."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _ODD_IN_LINES.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + (code - 0x10000 >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def at(value: object) -> str:
    """Unix seconds as a date in UTC."""
    if not isinstance(value, int | float) or not 0 < value < 1e11:
        return "-"
    return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def counted(number: int, thing: str) -> str:
    """`1 host`, `1,200 hosts`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
