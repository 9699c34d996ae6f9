"""The form of request header fields, and the fields that belong to the connection."""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

# They are set by the program that makes the connection (RFC 9110, sections 7.2, 7.6, 8.6 and
# 10.1.1; RFC 9112, sections 6 and 7). A second Host would name a site that nobody has checked.
_OF_CONNECTIONS: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


# Everything else that a caller sets may be a secret, whatever it is called, or concern one site
# alone, as conditions and ranges do.
_HARMLESS: Final = frozenset(
    {
        "accept",
        "accept-charset",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "dnt",
        "pragma",
        "save-data",
        "sec-gpc",
    }
)
# They echo the request with its headers, or open a tunnel (RFC 9110, sections 9.3.6 and 9.3.8).
# TRACK is TRACE as some servers call it.
_REFUSED_METHODS: Final = frozenset({"CONNECT", "TRACE", "TRACK"})


def may_leave_origin(name: str) -> bool:
    """Return whether a header that was given for one origin may be sent to another, where a
    redirect leads."""
    return name.lower() in _HARMLESS


def is_refused_method(method: str) -> bool:
    """Return whether a method, in any case, echoes the request or opens a tunnel."""
    return method.upper() in _REFUSED_METHODS


def is_token(text: str) -> bool:
    """Return whether a string can be a method or the name of a header."""
    return _TOKEN.fullmatch(text) is not None


def field_value(value: str) -> str:
    """Return a header value without surrounding space: visible ASCII characters, spaces and tabs
    (RFC 9110, section 5.5). Raises ValueError with a phrase."""
    if not value.isascii():
        raise ValueError("must be ASCII: it is sent in a header")
    if _CONTROL.search(value):
        raise ValueError("must be one line without control characters: it is sent in a header")
    return value.strip()


def is_of_connection(name: str) -> bool:
    """Return whether a header describes the connection or the length of the message, or is meant
    for a proxy, so that no caller may set it."""
    lower = name.lower()
    return lower in _OF_CONNECTIONS or lower.startswith("proxy-")
