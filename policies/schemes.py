"""Schemes other than http and https: recognises typos of common schemes."""

from __future__ import annotations

import re
from typing import Final

# Registered or common schemes (IANA, "URI Schemes") that look like a typo of one of _COMMON.
_ORDINARY: Final = frozenset(
    {
        "dntp", "ftp", "ftps", "hcp", "httpg", "itms", "itmss", "mtp", "nntp", "ntp", "ptp", "rtmp",
        "rtmps", "rtp", "rtsp", "rtsps", "sctp", "sftp", "shttp", "smtp", "smtps", "tcp", "tftp",
        "tip", "xftp",
    }
)  # fmt: skip
_COMMON: Final = ("http", "https", "mailto", "javascript")
_SCHEME: Final = re.compile(
    r"[\x00-\x20]*+([a-z][a-z0-9+.\t\n\r-]*+):(.{0,7})", re.IGNORECASE | re.DOTALL
)
_IGNORED: Final = re.compile(r"[\t\n\r]")
_CHARS_MAX: Final = 64  # longer schemes are not typos; only host names are longer
_HOST: Final = re.compile(r"localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z][a-z0-9-]*")
_PORT: Final = re.compile(r"[0-9]{1,5}(?:[/?#]|$)")


def is_mistyped(href: str) -> bool:
    """Return whether the scheme of an href, which is not http or https, is a typo.

    It is one letter off ("htps:", "hhttp:", "mialto:"), two off before a slash ("htpt://"), ends in
    "http" or "https" ("xxhttps://"), or is a host before a port ("example.com:8080/", which URL
    parsers read as a scheme).
    """
    found = _SCHEME.match(href)
    if found is None:
        return False
    scheme = _IGNORED.sub("", found[1]).lower()
    rest = _IGNORED.sub("", found[2])
    if scheme in _COMMON or scheme in _ORDINARY:
        return False
    if _PORT.match(rest) and len(scheme) <= 253 and _HOST.fullmatch(scheme):
        return True
    if len(scheme) > _CHARS_MAX or "+" in scheme:
        return False
    if scheme.endswith(("http", "https")):
        return True
    letters = 2 if rest[:1] in ("/", "\\") else 1
    return any(
        abs(len(scheme) - len(common)) <= 2
        and _distance(scheme, common) <= (letters if common.startswith("http") else 1)
        for common in _COMMON
    )


def _distance(one: str, other: str) -> int:
    """The optimal string alignment distance: the number of letters to insert, delete, replace or
    swap with a neighbour."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for n, letter in enumerate(one, 1):
        older, before, row = before, row, [n]
        for m, wanted in enumerate(other, 1):
            least = min(before[m] + 1, row[m - 1] + 1, before[m - 1] + (letter != wanted))
            if n > 1 and m > 1 and letter == other[m - 2] and one[n - 2] == wanted:
                least = min(least, older[m - 2] + 1)
            row.append(least)
    return row[-1]
