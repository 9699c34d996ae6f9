"""Why a host backs off, in words: the response that caused it."""

from __future__ import annotations

from collections.abc import Mapping

RETRY_AFTER = "backing off as its Retry-After header asks"


def backoff_reason(status: object) -> str:
    """Name the response that started the backoff; any other status came with a Retry-After."""
    match status:
        case 429:
            return "backing off after a 429 response (too many requests)"
        case 503:
            return "backing off after a 503 response (service unavailable)"
        case 401 | 403:
            return f"backing off after repeated {status} responses"
    return RETRY_AFTER


def latest_backoff_reason(contacts: object) -> str:
    """`backoff_reason` of the latest response among the contacts of `Reader.host`, oldest first."""
    ring = contacts if isinstance(contacts, list | tuple) else ()
    for contact in reversed(ring):
        if isinstance(contact, Mapping) and contact["status"] is not None:
            return backoff_reason(contact["status"])
    return RETRY_AFTER
