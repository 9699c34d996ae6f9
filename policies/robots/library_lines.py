"""The lines of a robots.txt as Google's published library reads them (github.com/google/robotstxt).

It differs from the reading that all other dialects share: names are told by how they begin, a line
counts up to its first NUL and 2,083 × 8 - 1 bytes, only ASCII blanks are blanks, and a colon
anywhere ends the name. It knows user-agent, allow, disallow and sitemap, and nothing of ACAP.
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
# How a line begins that may hold one of them.
_BEGINNINGS = re.compile(
    rb"(?i:[ \t\n\x0b\x0c\r]*(?:" + b"|".join({re.escape(name) for name, _ in _NAMES}) + rb"))"
)
_ITS_OWN = frozenset({LineKind.AGENT, LineKind.ALLOW, LineKind.DISALLOW})
_ACAP = frozenset({LineKind.ACAP_CRAWLER, LineKind.ACAP_ALLOW, LineKind.ACAP_DISALLOW})
_NOT_ITS = _ITS_OWN | _ACAP
_WITHOUT_ACAP = bytes(
    LineKind.UNKNOWN if byte & KIND_MASK in _ACAP else byte for byte in range(256)
)


def _split(line: bytes) -> tuple[bytes, bytes, bool]:
    """Name and value, and whether there is a colon between them; an empty name: neither."""
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
    """A body whose lines are read in this way; what the library does not know stays as it was."""

    def __init__(self, source: RobotsSource) -> None:
        self.body = source.body
        self.encoding = source.encoding
        self.bom_bytes = source.bom_bytes
        self.cut_line = source.cut_line
        self.raw_lines = source.raw_lines
        self.unusual = source.unusual
        # Names spelled as usual are read alike, those of ACAP apart.
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
        return LineKind.UNKNOWN if otherwise & KIND_MASK in _NOT_ITS else otherwise

    def value(self, index: int) -> bytes:
        if self.kinds[index] & 0x1F in _ITS_OWN:
            return _split(self.raw_lines[index])[1]
        return super().value(index)
