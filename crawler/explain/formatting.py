"""Format strings from the network, times and counts for display."""

from __future__ import annotations

import re
from datetime import UTC, datetime

# Control characters, which a terminal interprets; U+2028 and U+2029, which end a line for some
# programs; format characters, which reverse the direction of text or are invisible (the two joiners
# stay: scripts and emoji need them); and lone surrogates, which cannot be encoded.
_FORMATS = (
    "\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff"
)
_ODD = re.compile(rf"[\x00-\x1f\x7f-\x9f{_FORMATS}\ud800-\udfff]")
_ODD_IN_LINES = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_FORMATS}\ud800-\udfff]")


def plain(text: str) -> str:
    """Replace line ends and all characters that would affect a terminal or the text direction."""
    return _ODD.sub("\N{REPLACEMENT CHARACTER}", text)


def printable(text: str) -> str:
    """Return what `plain` does for several lines: line feeds and tabs stay."""
    return _ODD_IN_LINES.sub("\N{REPLACEMENT CHARACTER}", text)


def json_printable(text: str) -> str:
    """Equivalent JSON with those characters escaped."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _ODD_IN_LINES.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + (code - 0x10000 >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def at(value: object) -> str:
    """Unix seconds as a date and time in UTC; "-" for none."""
    if not isinstance(value, int | float) or not 0 < value < 1e11:
        return "-"
    return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def counted(number: int, thing: str) -> str:
    """A count with its noun: `1 host`, `1,200 hosts`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def connections_failed(number: int) -> str:
    """Return how many connections to a host have failed since the last one that succeeded."""
    if number == 1:
        return "the last connection attempt failed"
    return f"{number:,} consecutive connection attempts failed"
