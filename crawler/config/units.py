"""Parse and format durations and sizes."""

from __future__ import annotations

import math
import re

_SECONDS_IN = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_BYTES_IN = {
    "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30,
}  # fmt: skip
_NUMBER = r"(\d{1,15}(?:\.\d{1,9})?)"
_STEP = re.compile(rf"{_NUMBER}\s*(ms|s|m|h|d)\s*", re.ASCII)
_DURATION = re.compile(rf"\s*({_STEP.pattern})+\Z", re.ASCII)
_PLAIN = re.compile(rf"\s*{_NUMBER}\s*\Z", re.ASCII)
_SIZE = re.compile(rf"\s*{_NUMBER}\s*([KMG]i?B|B)\s*\Z", re.IGNORECASE | re.ASCII)


def parse_duration_s(value: float | str) -> float:
    """Return the seconds of `30`, `1.5`, `"10m"`, `"1.5h"`, `"250ms"`, `"2d"`, `"1h 30m"`, `"30"`.

    Raises ValueError with a sentence. Numbers are returned as they are, even if negative or NaN.
    """
    if not isinstance(value, str):
        return float(value)
    if plain := _PLAIN.match(value):
        return float(plain[1])
    if not _DURATION.match(value):
        raise ValueError(
            'a duration is seconds or a string such as "250ms", "10m", "1.5h" or "2d", '
            f"not {value!r}"
        )
    return math.fsum(float(number) * _SECONDS_IN[unit] for number, unit in _STEP.findall(value))


def parse_size_bytes(value: float | str) -> float:
    """Return the bytes of `4096`, `"10MB"` (10⁶), `"500KB"`, `"1KiB"`. Raises ValueError."""
    if not isinstance(value, str):
        return value
    if plain := _PLAIN.match(value):
        return int(float(plain[1]))
    found = _SIZE.match(value)
    if not found:
        raise ValueError(
            f'a size is bytes or a string such as "500KB", "10MB" (10⁶) or "1MiB", not {value!r}'
        )
    return int(float(found[1]) * _BYTES_IN[found[2].lower()])


def format_duration(seconds: float) -> str:
    """Format seconds with at most two units: "250 ms", "1 min 30 s", "24 h"."""
    if math.isinf(seconds):
        return "for ever"
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _pair(whole, 60, "min", "s")
    if whole < 2 * 86_400:
        return _pair(round(whole / 60), 60, "h", "min")
    return _pair(round(whole / 3600), 24, "d", "h")


def _pair(small: int, step: int, unit: str, small_unit: str) -> str:
    whole, rest = divmod(small, step)
    return f"{whole} {unit} {rest} {small_unit}" if rest else f"{whole} {unit}"


def format_bytes(count: float) -> str:
    """Format bytes in powers of ten: "512 B", "10 MB"."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB" if count < 999.5 else f"{count:,.0f} TB"
