"""The lines of a robots.txt as Google's published library reads them (github.com/google/robotstxt).

It differs from the other dialects: a name needs only to begin like a known one, a line ends at its
first NUL and after 2,083 × 8 - 1 bytes, only ASCII blanks count as blanks, and the first colon ends
the name. It reads user-agent, allow, disallow and sitemap, but no ACAP.
"""

from __future__ import annotations

import re

from policies.robots.syntax import KIND_MASK, Leniency, LineKind, RobotsSource

LINE_BYTES_MAX = 2_083 * 8 - 1
_BLANKS = b" \t\n\x0b\x0c\r"
_NAMES: tuple[tuple[bytes, LineKind], ...] = (
    *((name, LineKind.AGENT) for name in (b"user-agent", b"useragent", b"user agent")),
    (b"allow", LineKind.ALLOW),
    *(
        (name, LineKind.DISALLOW)
        for name in (
            b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw",
        )
    ),
    *((name, LineKind.SITEMAP) for name in (b"sitemap", b"site-map")),
)  # fmt: skip
# The beginning of a line that may contain one of them.
_BEGINNINGS = re.compile(
    rb"(?i:[ \t\n\x0b\x0c\r]*(?:" + b"|".join({re.escape(name) for name, _ in _NAMES}) + rb"))"
)
_KNOWN = frozenset({LineKind.AGENT, LineKind.ALLOW, LineKind.DISALLOW})
_ACAP = frozenset({LineKind.ACAP_CRAWLER, LineKind.ACAP_ALLOW, LineKind.ACAP_DISALLOW})
_OTHERWISE_KNOWN = _KNOWN | _ACAP
_WITHOUT_ACAP = bytes(
    LineKind.UNKNOWN if byte & KIND_MASK in _ACAP else byte for byte in range(256)
)


def _split(line: bytes) -> tuple[bytes, bytes, bool]:
    """The name and value of a line, and whether a colon separates them. Both are empty if the line
    has neither."""
    line = line[:LINE_BYTES_MAX].partition(b"\0")[0].partition(b"#")[0].strip(_BLANKS)
    name, colon, value = line.partition(b":")
    if colon:
        return name.strip(_BLANKS), value.strip(_BLANKS), True
    words = line.replace(b"\t", b" ").split(b" ", 1)
    if len(words) == 2:
        value = words[1].strip(b" ")
        if b" " not in value:
            return words[0].strip(_BLANKS), value.strip(_BLANKS), False
    return b"", b"", False


class LibrarySource(RobotsSource):
    """A body with its lines read in this way. Fields unknown to the library keep their kinds."""

    def __init__(self, source: RobotsSource) -> None:
        self.body = source.body
        self.encoding = source.encoding
        self.bom_bytes = source.bom_bytes
        self.cut_line = source.cut_line
        self.raw_lines = source.raw_lines
        self.unusual = source.unusual
        # Usual spellings are read alike, except for ACAP.
        kinds = bytearray(source.kinds.translate(_WITHOUT_ACAP))
        for i in source.unusual:
            if kinds[i] > LineKind.COMMENT:
                kinds[i] = self._kind(source.raw_lines[i], source.kinds[i])
        if self.cut_line is not None:
            kinds[self.cut_line - 1] = LineKind.UNKNOWN
        self.kinds = bytes(kinds)

    @staticmethod
    def _kind(line: bytes, otherwise: int) -> int:
        if _BEGINNINGS.match(line):
            name, _, colon = _split(line)
            name = name.lower()
            for beginning, kind in _NAMES:
                if name.startswith(beginning):
                    return kind if colon else kind | Leniency.NO_COLON
        return LineKind.UNKNOWN if otherwise & KIND_MASK in _OTHERWISE_KNOWN else otherwise

    def value(self, index: int) -> bytes:
        if self.kinds[index] & 0x1F in _KNOWN:
            return _split(self.raw_lines[index])[1]
        return super().value(index)
