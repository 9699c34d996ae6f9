"""The lines of a robots.txt as Google's published library reads them (github.com/google/robotstxt).

It differs from the reading that all other dialects share: names are told by how they begin, a line
counts up to its first NUL and 2,083 × 8 - 1 bytes, only ASCII blanks are blanks, and a colon
anywhere ends the name. It knows user-agent, allow, disallow and sitemap, and nothing of ACAP.
"""

from __future__ import annotations

from policies.robots.syntax import USUAL, Kind, Leniency, Source

LINE_BYTES_MAX = 2_083 * 8 - 1
_BLANKS = b" \t\n\x0b\x0c\r"
_NAMES: tuple[tuple[bytes, Kind], ...] = (
    *((name, Kind.AGENT) for name in (b"user-agent", b"useragent", b"user agent")),
    (b"allow", Kind.ALLOW),
    *(
        (name, Kind.DISALLOW)
        for name in (
            b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw",
        )
    ),
    *((name, Kind.SITEMAP) for name in (b"sitemap", b"site-map")),
)  # fmt: skip
_ITS_OWN = frozenset({Kind.AGENT, Kind.ALLOW, Kind.DISALLOW})
_NOT_ITS = _ITS_OWN | {Kind.ACAP_CRAWLER, Kind.ACAP_ALLOW, Kind.ACAP_DISALLOW}


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


class LibrarySource(Source):
    """A body whose lines are read in this way; what the library does not know stays as it was."""

    def __init__(self, source: Source) -> None:
        self.body = source.body
        self.encoding = source.encoding
        self.bom_bytes = source.bom_bytes
        self.cut_line = source.cut_line
        self.raw_lines = source.raw_lines
        kinds = bytearray(source.kinds)
        for i, line in enumerate(source.raw_lines):
            usual = USUAL.get(line[: line.find(b":") + 1])
            if usual is None or usual in _NOT_ITS - _ITS_OWN:
                kinds[i] = self._kind(line, kinds[i])
        if self.cut_line is not None:
            kinds[self.cut_line - 1] = Kind.UNKNOWN
        self.kinds = bytes(kinds)

    @staticmethod
    def _kind(line: bytes, otherwise: int) -> int:
        if line:
            name, _, colon = _split(line)
            name = name.lower()
            for beginning, kind in _NAMES:
                if name.startswith(beginning):
                    return kind if colon else kind | Leniency.NO_COLON
        known = Kind(otherwise & 0x1F)
        return Kind.UNKNOWN if known in _NOT_ITS else otherwise

    def value(self, index: int) -> bytes:
        if self.kinds[index] & 0x1F in _ITS_OWN:
            return _split(self.raw_lines[index])[1]
        return super().value(index)
