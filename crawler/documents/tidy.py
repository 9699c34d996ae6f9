"""The bytes of an XML document made fit for a parser that must forgive: as they come, in pieces.

Out go the declaration, comments, instructions and the document type, so that no entity is ever
declared; an ampersand that begins no reference of XML's own is escaped, because `?a=1&b=2` stands
in sitemaps as it is, and a forgiving parser would make another URL of it.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

_CONTROL: Final = bytes({*range(0x20), 0x7F} - {9, 10, 13})
_OPENING: Final = re.compile(rb"<!\[CDATA\[|<!--|<\?|<!DOCTYPE", re.IGNORECASE)
_OPENING_BYTES: Final = len(b"<!DOCTYPE")
# XML 1.0, 4.6 and 4.1: five names, and characters by number. Any other name would be an entity.
_BARE: Final = re.compile(
    rb"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});)",
)
_REFERENCE_BYTES: Final = len(b"&#x10FFFF;")
_TYPE_ENDS: Final = re.compile(rb"[\[>]")
_SUBSET_ENDS: Final = re.compile(rb"\]\s{0,16}>")
_ENDS: Final = {
    b"<![CDATA[": re.compile(rb"\]\]>"),
    b"<!--": re.compile(rb"-->"),
    b"<?": re.compile(rb"\?>"),
    b"<!DOCTYPE": _TYPE_ENDS,
}
_END_BYTES: Final = 18  # of the longest of those ends


class Tidy:
    """`feed` gives what may be parsed by now, as UTF-8; what a border cuts in two waits.

    encoding: Python's name of a text encoding. Never raises for what it is fed.
    """

    def __init__(self, encoding: str) -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self._held = b""
        self._end: re.Pattern[bytes] | None = None  # what ends the part we are in, if not text
        self._shown = False  # that part is passed on (CDATA)

    def feed(self, data: bytes, *, last: bool = False) -> bytes:
        fresh = self._decoder.decode(data, last).encode("utf-8", "replace")
        text = self._held + fresh.translate(None, _CONTROL)
        out: list[bytes] = []
        at, size = 0, len(text)
        while at < size:
            if self._end is not None:
                found = self._end.search(text, at)
                if found is None:
                    at = self._pass(text, at, size if last else max(at, size - _END_BYTES), out)
                    break
                at = self._pass(text, at, found.end(), out)
                self._end = _SUBSET_ENDS if found[0] == b"[" else None
                continue
            found = _OPENING.search(text, at)
            if found is None:
                end = size if last else _settled(text, at)
                out.append(_BARE.sub(b"&amp;", text[at:end]))
                at = end
                break
            out.append(_BARE.sub(b"&amp;", text[at : found.start()]))
            self._end = _ENDS[found[0].upper()]
            self._shown = found[0].upper() == b"<![CDATA["
            at = self._pass(text, found.start(), found.end(), out)
        self._held = text[at:]
        return b"".join(out)

    def _pass(self, text: bytes, start: int, end: int, out: list[bytes]) -> int:
        if self._shown:
            out.append(text[start:end])
        return end


def _settled(text: bytes, start: int) -> int:
    """Up to where no opening and no reference can be cut in two by the end."""
    size = len(text)
    at = text.find(b"<", max(start, size - _OPENING_BYTES))
    amp = text.find(b"&", max(start, size - _REFERENCE_BYTES))
    return min(size if at < 0 else at, size if amp < 0 else amp)
