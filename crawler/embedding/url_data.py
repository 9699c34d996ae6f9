"""Data that a program adds with a URL, and gets back with its page: any JSON value."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from crawler.errors import InvalidRequest
from policies.retries import FailureCode

DATA_BYTES_MAX: Final = 16_384  # of one URL, as JSON


def encoded(data: Any) -> str | None:
    """Return data as JSON text, in ASCII; None for None. Raises InvalidRequest."""
    if data is None:
        return None
    try:
        text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest("data", f"must be a JSON value ({error})") from error
    if len(text) > DATA_BYTES_MAX:
        raise InvalidRequest(
            "data", f"must be at most {DATA_BYTES_MAX:,} bytes as JSON, not {len(text):,}"
        )
    return text


def checked_priority(priority: object) -> float:
    """Return the priority of a URL. Raises InvalidRequest."""
    if isinstance(priority, bool) or not isinstance(priority, int | float):
        raise InvalidRequest("priority", f"must be a number, not {priority!r}")
    if not (math.isfinite(priority) and abs(priority) <= _PRIORITY):
        raise InvalidRequest("priority", f"must be between -1e9 and 1e9, not {priority!r}")
    return float(priority)


def checked_depth(depth: object) -> int:
    """Return the depth of a URL; 0 for None. Raises InvalidRequest."""
    if depth is None:
        return 0
    if isinstance(depth, bool) or not isinstance(depth, int) or not 0 <= depth <= _DEPTH:
        raise InvalidRequest("depth", f"must be a whole number from 0 to {_DEPTH:,}, not {depth!r}")
    return depth


def checked_code(code: object) -> FailureCode:
    """Return the failure code. Raises InvalidRequest."""
    try:
        return FailureCode(str(code))
    except ValueError:
        known = ", ".join(FailureCode)
        raise InvalidRequest("code", f"must be one of {known}, not {code!r}") from None


_PRIORITY: Final = 1e9
_DEPTH: Final = 1_000_000
