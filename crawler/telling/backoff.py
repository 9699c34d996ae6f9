"""Why a host is left alone for a while: in words, from the contacts that are remembered of it."""

from __future__ import annotations

from collections.abc import Mapping

ASKED = "it asked us to come back later (Retry-After)"


def words(contacts: object) -> str:
    """What its latest answer was. `contacts`: those of `Reader.host`, oldest first."""
    given = contacts if isinstance(contacts, list | tuple) else ()
    ring = [each for each in given if isinstance(each, Mapping)]
    return of_status(
        next((each["status"] for each in reversed(ring) if each["status"] is not None), None)
    )


def of_status(status: object) -> str:
    """By the answer that made it so."""
    match status:
        case 429:
            return "it answered 429 (too many requests) and is left alone"
        case 503:
            return "it answered 503 (too busy) and is left alone"
        case 401 | 403:
            return f"it refused us again and again (status {status}) and is left alone"
    return ASKED
