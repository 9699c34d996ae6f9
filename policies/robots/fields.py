"""Parses the values of fields other than rules: delays, rates, hours, parameters, content usage."""

from __future__ import annotations

import re

from msgspec import Struct

from policies.pacing import DELAY_S_MAX, Window, parse_window

NUMBER_MAX = 1e12
"""Larger numbers are read as this one; it is beyond every limit on delays."""

_NUMBER = re.compile(r"([0-9]*)\.?([0-9]{0,15})")
_SENSE_DIGITS_MAX = 308  # longer numbers are rejected
_UNITS_S = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


def number(text: str) -> float | None:
    """The number at the beginning of a string (`10`, `0.5`, `.5`, `10s`), at most NUMBER_MAX.

    None: there is none, it is negative, or it has hundreds of digits.
    """
    found = _NUMBER.match(text)
    assert found is not None  # it matches the empty string
    whole, fraction = found.groups()
    if not (whole or fraction):
        return None
    whole = whole.lstrip("0")
    if len(whole) > _SENSE_DIGITS_MAX:
        return None
    return min(float(f"{whole or 0}.{fraction or 0}"), NUMBER_MAX)


def delay_s(text: str) -> float | None:
    """The seconds of a Crawl-delay, at most DELAY_S_MAX. None: it is not a number."""
    found = number(text)
    return None if found is None else min(found, DELAY_S_MAX)


class RequestRate(Struct, frozen=True, kw_only=True):
    """`Request-rate: 1/10m 0600-0845`: a number of pages per period, perhaps at certain hours."""

    pages: float
    seconds: float
    window: Window | None
    line: int  # from 1

    @property
    def seconds_per_page(self) -> float:
        """The seconds per page, at most DELAY_S_MAX."""
        return min(self.seconds / self.pages, DELAY_S_MAX)


def request_rate(text: str, line: int) -> RequestRate | None:
    """None: it is not a rate, or its pages or period are zero."""
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
    return RequestRate(pages=pages, seconds=seconds, window=window, line=line)


def visit_window(text: str) -> Window | None:
    """Parse `0600-0845` (UTC; it may cross midnight); None if it is not a time of day."""
    if len(text) > 40:
        return None
    try:
        return parse_window(text)
    except ValueError:
        return None


class CleanParam(Struct, frozen=True, kw_only=True):
    """`Clean-param: ref&sid /forum/*.php`: parameters that do not change the page."""

    params: tuple[str, ...]
    path: str  # "": everywhere
    line: int  # from 1


def clean_param(text: str, line: int) -> CleanParam | None:
    """None: there is no parameter."""
    params, _, path = text.strip().partition(" ")
    names = tuple(filter(None, params.split("&")))
    return CleanParam(params=names, path=path.strip(), line=line) if names else None


class ContentUsage(Struct, frozen=True, kw_only=True):
    """`Content-Usage: /path/ train-ai=n` or `Content-Signal: search=yes, ai-train=no`."""

    field: str
    path: str  # "": everything the group governs
    values: tuple[tuple[str, str], ...]
    line: int  # from 1


def content_usage(field: str, text: str, line: int) -> ContentUsage:
    """The parts of the form `key=value`, keys in lower case; others are ignored."""
    path = ""
    text = text.strip()
    if text.startswith("/"):
        path, _, text = text.partition(" ")
    values: list[tuple[str, str]] = []
    for part in text.replace(";", ",").split(","):
        key, equals, value = part.partition("=")
        if equals and key.strip():
            values.append((key.strip().lower(), value.strip()))
    return ContentUsage(field=field, path=path, values=tuple(values), line=line)
