"""Header values as text that can be kept anywhere.

aiohttp reads the bytes of a header as UTF-8 and hides what is none in lone surrogates, which
neither SQLite nor JSON takes.
"""

from __future__ import annotations

import re
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from crawler.fetching.request import Headers

# Their bytes belong to URLs: a browser escapes those that are no UTF-8 as they stand.
_OF_URLS: Final = frozenset({"location", "content-location", "link", "refresh"})
_HIDDEN_BYTE: Final = re.compile("[\udc80-\udcff]")


def readable(headers: Headers) -> Headers:
    """The same headers without lone surrogates: bytes that are no UTF-8 become `%XX` where a URL is
    read, else the characters of Latin-1 (RFC 9110 5.5), its control characters U+FFFD."""
    if "".join(headers.values()).isascii():
        return headers
    return CIMultiDictProxy(
        CIMultiDict(
            (
                name,
                _HIDDEN_BYTE.sub(_escaped if name.lower() in _OF_URLS else _latin, value),
            )
            for name, value in headers.items()
        )
    )


def _escaped(hidden: re.Match[str]) -> str:
    return f"%{ord(hidden[0]) & 0xFF:02X}"


def _latin(hidden: re.Match[str]) -> str:
    byte = ord(hidden[0]) & 0xFF
    return chr(byte) if byte >= 0xA0 else "\ufffd"
