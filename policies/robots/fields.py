"""The values of fields other than rules: delays, rates, hours, parameters, signals of use."""

from __future__ import annotations

import math

from msgspec import Struct

from policies.pacing import Window, parse_window

_UNITS_S = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


def number(text: str) -> float | None:
    """The number that `text` begins with: `10`, `0.5`, `.5`, `10s`. None: none, or negative."""
    digits = 0
    dots = 0
    for char in text:
        if char == "." and not dots:
            dots = 1
        elif char.isascii() and char.isdigit():
            digits += 1
        else:
            break
    if not digits:
        return None
    found = float(text[: digits + dots])
    return found if math.isfinite(found) else None


class RequestRate(Struct, frozen=True, kw_only=True):
    """`Request-rate: 1/10m 0600-0845`: so many pages in so many seconds, perhaps at some hours."""

    pages: float
    seconds: float
    window: Window | None
    line: int  # from 1

    @property
    def seconds_per_page(self) -> float:
        return self.seconds / self.pages


def request_rate(text: str, line: int) -> RequestRate | None:
    """None: not a rate, or one of nothing."""
    rate, _, hours = text.strip().partition(" ")
    pages_text, slash, period = rate.partition("/")
    pages = number(pages_text)
    unit = period.lstrip("0123456789.").lower()
    seconds = number(period)
    if not slash or not pages or not seconds or unit not in _UNITS_S:
        return None
    window = None
    if hours.strip():
        window = visit_window(hours)
        if window is None:
            return None
    seconds *= _UNITS_S[unit]
    if not math.isfinite(seconds / pages):
        return None
    return RequestRate(pages=pages, seconds=seconds, window=window, line=line)


def visit_window(text: str) -> Window | None:
    """`0600-0845` (UTC; it may cross midnight). None: not a time of day."""
    if len(text) > 40:
        return None
    try:
        return parse_window(text)
    except ValueError:
        return None


class CleanParam(Struct, frozen=True, kw_only=True):
    """`Clean-param: ref&sid /forum/*.php`: parameters that do not change the page, and where."""

    params: tuple[str, ...]
    path: str  # "": everywhere
    line: int  # from 1


def clean_param(text: str, line: int) -> CleanParam | None:
    """None: no parameter named."""
    params, _, path = text.strip().partition(" ")
    names = tuple(filter(None, params.split("&")))
    return CleanParam(params=names, path=path.strip(), line=line) if names else None


class Usage(Struct, frozen=True, kw_only=True):
    """`Content-Usage: /path/ train-ai=n` or `Content-Signal: search=yes, ai-train=no`."""

    field: str
    path: str  # "": everything the group governs
    values: tuple[tuple[str, str], ...]
    line: int  # from 1


def usage(field: str, text: str, line: int) -> Usage:
    """Whatever reads as `key=value`, keys in lower case; the rest is left out."""
    path = ""
    text = text.strip()
    if text.startswith("/"):
        path, _, text = text.partition(" ")
    values: list[tuple[str, str]] = []
    for part in text.replace(";", ",").split(","):
        key, equals, value = part.partition("=")
        if equals and key.strip():
            values.append((key.strip().lower(), value.strip()))
    return Usage(field=field, path=path, values=tuple(values), line=line)
