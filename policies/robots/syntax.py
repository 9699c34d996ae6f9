"""The lines of a robots.txt: one fast pass over any bytes, which loses nothing and never raises.

The pass only determines the *kind* of each line (a byte), since most lines of most files belong to
groups of other crawlers. Values are extracted on demand. The kind of a line that requires leniency
(a misspelling, a missing colon) has a flag, and each dialect decides which flags it accepts.
"""

from __future__ import annotations

import enum
import re
from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property

from msgspec import Struct

BYTES_MAX = 500 * 1024
"""How much of a file is used (RFC 9309, 2.5 requires at least this much)."""

LINE_BYTES_MAX = 16_664
"""How much of a line is used: eight times 2,083 octets, once the longest URL in browsers, as in
Google's published library. A longer rule matches no URL that a crawler fetches."""


class LineKind(enum.IntEnum):
    """The kind of a line, without its leniency flags."""

    BLANK = 0
    COMMENT = 1
    UNKNOWN = 2  # an unknown name before a colon
    JUNK = 3  # no colon, and not readable without one
    AGENT = 4
    DISALLOW = 5
    ALLOW = 6
    NOINDEX = 7
    CRAWL_DELAY = 8
    REQUEST_RATE = 9
    VISIT_TIME = 10
    SITEMAP = 11
    HOST = 12
    CLEAN_PARAM = 13
    CONTENT_USAGE = 14
    CONTENT_SIGNAL = 15
    ACAP_CRAWLER = 16
    ACAP_ALLOW = 17
    ACAP_DISALLOW = 18


class Leniency(enum.IntFlag):
    """The errors in a line that are tolerated."""

    NONE = 0
    MISSPELT = 0x20  # "Disalow: /x", "User agent: x"
    NO_COLON = 0x40  # "Disallow /x"
    LONGER_NAME = 0x80  # "Disallowed: /x": a known name with more characters


KIND_MASK = 0x1F

FIELDS: dict[LineKind, str] = {
    LineKind.AGENT: "User-agent",
    LineKind.DISALLOW: "Disallow",
    LineKind.ALLOW: "Allow",
    LineKind.NOINDEX: "Noindex",
    LineKind.CRAWL_DELAY: "Crawl-delay",
    LineKind.REQUEST_RATE: "Request-rate",
    LineKind.VISIT_TIME: "Visit-time",
    LineKind.SITEMAP: "Sitemap",
    LineKind.HOST: "Host",
    LineKind.CLEAN_PARAM: "Clean-param",
    LineKind.CONTENT_USAGE: "Content-Usage",
    LineKind.CONTENT_SIGNAL: "Content-Signal",
    LineKind.ACAP_CRAWLER: "ACAP-crawler",
    LineKind.ACAP_ALLOW: "ACAP-allow-crawl",
    LineKind.ACAP_DISALLOW: "ACAP-disallow-crawl",
}
"""The names of fields, in their usual spelling."""

MISSPELLINGS: dict[LineKind, tuple[str, ...]] = {
    LineKind.AGENT: ("useragent", "user agent", "user_agent", "user-agents", "user–agent"),
    LineKind.DISALLOW: ("dissallow", "dissalow", "disalow", "diasllow", "disallaw", "dis-allow"),
    LineKind.CRAWL_DELAY: ("crawldelay", "crawl delay", "crawl_delay"),
    LineKind.REQUEST_RATE: ("request rate", "requestrate"),
    LineKind.VISIT_TIME: ("visit time", "visittime"),
    LineKind.SITEMAP: ("site-map", "site map", "sitemaps"),
    LineKind.NOINDEX: ("no-index",),
    LineKind.CLEAN_PARAM: ("clean-params", "clean param"),
}
"""Misspellings found in real files, in lower case."""

_NAMES: dict[bytes, int] = {name.lower().encode(): int(kind) for kind, name in FIELDS.items()}
_LENIENT: dict[bytes, int] = {
    name.encode(): kind | Leniency.MISSPELT
    for kind, names in MISSPELLINGS.items()
    for name in names
}
# A longer name is read as its beginning, as in Google's library, for these names only: others, such
# as "Host", are the beginning of too many words.
_STEMS: tuple[tuple[bytes, int], ...] = tuple(
    (name, kind | Leniency.LONGER_NAME)
    for name, kind in (*_NAMES.items(), *_LENIENT.items())
    if kind & KIND_MASK in (LineKind.AGENT, LineKind.DISALLOW, LineKind.ALLOW, LineKind.SITEMAP)
)

_BLANKS = b" \t\x0b\x0c\x00"
_WIDE_BLANKS = (b"\xc2\xa0", b"\xe3\x80\x80", b"\xe2\x80\x8b", b"\xef\xbb\xbf")  # UTF-8
_WIDE = re.compile(b"(?:[" + _BLANKS + b"]|" + b"|".join(_WIDE_BLANKS) + b")+")
_WIDE_BACKWARDS = re.compile(
    b"(?:[" + _BLANKS + b"]|" + b"|".join(blank[::-1] for blank in _WIDE_BLANKS) + b")+"
)
# The beginning of a line that may contain a known name.
_BEGINNINGS = re.compile(
    b"(?i:"
    + _WIDE.pattern[:-1]
    + b"*(?:"
    + b"|".join(sorted({re.escape(name[:4]) for name in (*_NAMES, *_LENIENT)}))
    + b"))"
)
_MARKUP = (b"<!doctype", b"<html", b"<head", b"<body", b"<?xml", b"<!--")  # lower case
_PLAIN_MAX = 4_096  # bytes; longer lines take the slow path, which applies LINE_BYTES_MAX
_NO_COLON = int(Leniency.NO_COLON)  # an enum is slow in loops over many lines
_OBJECT_BYTES = 41  # of a bytes object, its place in memory included
_LATER = 255  # a kind that the fast pass leaves to the slow one


def _usual_spellings() -> dict[bytes, int]:
    """Names with their colon in the spellings of most files, found by one dict lookup."""
    found: dict[bytes, int] = {}
    for name, kind in _NAMES.items():
        words = name.split(b"-")
        for spelling in (
            name,
            name.upper(),
            name.capitalize(),
            b"-".join(word.capitalize() for word in words),
            FIELDS[LineKind(kind)].encode(),
        ):
            found[spelling + b":"] = kind
    return found


USUAL = _usual_spellings()
"""Kinds by names with their colon, as most files spell them."""


def strip(value: bytes) -> bytes:
    """Strip blanks: those of ASCII, NUL, and those of other scripts in UTF-8."""
    value = value.strip(_BLANKS)
    if value.startswith(_WIDE_BLANKS):
        value = value[_leading(_WIDE, value) :]
    if value.endswith(_WIDE_BLANKS):
        value = value[: len(value) - _leading(_WIDE_BACKWARDS, value[::-1])]
    return value


def _leading(blanks: re.Pattern[bytes], value: bytes) -> int:
    found = blanks.match(value)
    return found.end() if found else 0


def _code(line: bytes) -> bytes:
    """A line without its comment, stripped."""
    return strip(line[:LINE_BYTES_MAX].partition(b"#")[0])


def _classify(line: bytes) -> int:
    """The kind of a line that the fast pass did not recognise, with its leniency flags."""
    if line[:1] == b"#":
        return LineKind.COMMENT
    if not _BEGINNINGS.match(line):
        code = line[:LINE_BYTES_MAX].partition(b"#")[0]
        if b":" in code:
            return LineKind.UNKNOWN
        if strip(code):
            return LineKind.JUNK
        return LineKind.COMMENT if b"#" in line else LineKind.BLANK
    code = _code(line)
    if not code:
        return LineKind.COMMENT if b"#" in line else LineKind.BLANK
    key, colon, _ = code.partition(b":")
    if colon:
        name = strip(key).lower()
        kind = _NAMES.get(name) or _LENIENT.get(name)
        if kind is not None:
            return kind
        if len(name.split()) == 1:
            for stem, stem_kind in _STEMS:
                if name.startswith(stem):
                    return stem_kind
            return LineKind.UNKNOWN
    # No colon, or one in the value ("Sitemap https://a.test/s.xml"): a known name and one word
    # after it are unambiguous.
    words = code.split()
    if len(words) == 2:
        name = words[0].lower()
        kind = _NAMES.get(name) or _LENIENT.get(name)
        if kind is not None:
            return kind | _NO_COLON
    return LineKind.UNKNOWN if colon else LineKind.JUNK


class Line(Struct, frozen=True, kw_only=True):
    """One line, as written and as read."""

    number: int  # from 1
    start: int  # offset of its first byte in the body
    end: int  # offset after its line end
    raw: bytes  # body[start:end]
    kind: LineKind
    leniency: Leniency
    text: str  # without its line end; for display, with undecodable bytes replaced
    rule: str  # without its comment: `Disallow: /private/`
    value: str  # of a field: the part after the colon, without its comment, stripped


class RobotsSource:
    """A robots.txt body and the kinds of its lines.

    `kinds[i]` is the kind of line i + 1 with its leniency flags. Lines are UTF-8, whatever the
    encoding of the file.
    """

    def __init__(self, body: bytes) -> None:
        self.body = body
        used = body[:BYTES_MAX]
        self.encoding = "utf-8"
        self.bom_bytes = 0
        if used[:2] in (b"\xff\xfe", b"\xfe\xff"):
            self.encoding = "utf-16-le" if used[0] == 0xFF else "utf-16-be"
            self.bom_bytes = 2
            used = used[2:].decode(self.encoding, "replace").encode()
        elif used[:1] == b"\xef":
            # A byte order mark, or what an editor has left of one.
            self.bom_bytes = (
                3 if used[:3] == b"\xef\xbb\xbf" else 2 if used[:2] == b"\xef\xbb" else 1
            )
            used = used[self.bom_bytes :]
        lines = used.splitlines()  # bytes are split only at LF, CR and CRLF
        usual = USUAL.get
        kinds = bytearray([usual(line[: line.find(b":") + 1], _LATER) for line in lines])
        self.unusual = array("I")  # the lines that the fast pass did not recognise
        known: dict[bytes, int] = {b"": LineKind.BLANK}
        at = kinds.find(_LATER)
        while at >= 0:
            line = lines[at]
            kind = known.get(line)
            if kind is None:
                kind = known[line] = _classify(line)
            kinds[at] = kind
            self.unusual.append(at)
            at = kinds.find(_LATER, at + 1)
        self.cut_line: int | None = None
        if len(body) >= BYTES_MAX and lines and used[-1:] not in (b"\n", b"\r"):
            # The line that is cut is ignored: half of "Disallow: /tmp" may be "Disallow: /".
            self.cut_line = len(lines)
            kinds[-1] = LineKind.UNKNOWN
        self.raw_lines = lines
        self.kinds = bytes(kinds)

    @property
    def memory_bytes(self) -> int:
        """The memory that it takes, as estimated."""
        lines = self.raw_lines
        objects = sum(map(len, lines)) + _OBJECT_BYTES * (len(lines) - self.kinds.count(b"\0"))
        return len(self.body) + objects + len(lines) * 9 + 4 * len(self.unusual)

    @property
    def bytes_unused(self) -> int:
        """The number of bytes beyond the limit, which are ignored."""
        return max(0, len(self.body) - BYTES_MAX)

    def value(self, index: int) -> bytes:
        """The value of line `index` (from 0), without its comment, stripped."""
        code = _code(self.raw_lines[index])
        if self.kinds[index] & _NO_COLON:
            return code.split(None, 1)[1]
        return strip(code.partition(b":")[2])

    def octets(self, index: int) -> str:
        """The value of line `index`, such as a path, with one character per octet (Latin-1)."""
        return self.value(index).decode("latin-1")

    def paths(self, indexes: Sequence[int]) -> list[str]:
        """The values of many lines, in the form of `octets`."""
        lines = [self.raw_lines[i] for i in indexes]
        together = b"\n".join(lines)
        if (
            together.isascii()
            and b"#" not in together
            and b"\0" not in together
            and not any(self.kinds[i] & _NO_COLON for i in indexes)
            and max(map(len, lines), default=0) < _PLAIN_MAX
        ):
            values = [line.partition(b":")[2].strip() for line in lines]
            return b"\n".join(values).decode("ascii").split("\n") if values else []
        return [self._path(i, line) for i, line in zip(indexes, lines, strict=True)]

    def _path(self, index: int, line: bytes) -> str:
        if (
            len(line) < _PLAIN_MAX
            and line.isascii()
            and b"\0" not in line
            and not self.kinds[index] & _NO_COLON
        ):
            if b"#" in line:
                line = line.partition(b"#")[0]
            return line.partition(b":")[2].strip().decode("ascii")
        return self.octets(index)

    def text(self, index: int) -> str:
        """The value of line `index` for display."""
        return self.value(index).decode("utf-8", "replace")

    def quote(self, index: int) -> str:
        """Line `index` without its comment, as quoted by verdicts."""
        return _code(self.raw_lines[index]).decode("utf-8", "replace")

    def indexes(self, *kinds: LineKind) -> list[int]:
        """The lines (from 0) of these kinds, in file order, whatever their leniency."""
        wanted = {int(kind) for kind in kinds}
        return [i for i, kind in enumerate(self.kinds) if kind & KIND_MASK in wanted]

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The start and end (after its line end) of each line in the body."""
        spans: list[tuple[int, int]] = []
        at = 0
        for size in self._raw_sizes():
            spans.append((at, at + size))
            at += size
        return spans

    def _raw_sizes(self) -> Iterator[int]:
        used = self.body[:BYTES_MAX]
        if not self.encoding.startswith("utf-16"):
            lines = used[self.bom_bytes :].splitlines(keepends=True)
            for number, line in enumerate(lines):
                yield len(line) + (0 if number else self.bom_bytes)
            return
        # The same split for 16-bit units. An odd last byte belongs to the last line.
        start, size = 0, len(used)
        little = self.encoding == "utf-16-le"
        low, high = (0, 1) if little else (1, 0)
        line_feed = b"\n\0" if little else b"\0\n"
        at = 2
        while at + 1 < size:
            unit = used[at + low] | used[at + high] << 8
            at += 2
            if unit == 0x0D and used[at : at + 2] == line_feed:
                at += 2
            elif unit not in (0x0A, 0x0D):
                continue
            yield at - start
            start = at
        if start < size and (start or size > 2):
            yield size - start

    @cached_property
    def long_lines(self) -> tuple[int, ...]:
        """The numbers of the lines longer than LINE_BYTES_MAX."""
        return tuple(n for n, line in enumerate(self.raw_lines, 1) if len(line) > LINE_BYTES_MAX)

    @cached_property
    def html(self) -> bool:
        """Whether this looks like a web page: its first line that is not a comment is markup."""
        lines = (strip(line[:LINE_BYTES_MAX].strip()) for line in self.raw_lines)
        first = next((line for line in lines if line and not line.startswith(b"#")), b"")
        return first.lower().startswith(_MARKUP)

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """All lines. Their `raw` bytes followed by `tail` are the body."""
        return tuple(self._line(i, start, end) for i, (start, end) in enumerate(self.spans))

    @property
    def tail(self) -> bytes:
        """The bytes after the last line: those beyond the limit, or a lone byte order mark."""
        return self.body[self.spans[-1][1] if self.spans else 0 :]

    def _line(self, index: int, start: int, end: int) -> Line:
        kind = LineKind(self.kinds[index] & KIND_MASK)
        return Line(
            number=index + 1,
            start=start,
            end=end,
            raw=self.body[start:end],
            kind=kind,
            leniency=Leniency(self.kinds[index] & ~KIND_MASK),
            text=self.raw_lines[index].decode("utf-8", "replace"),
            rule=self.quote(index),
            value=self.text(index) if kind in FIELDS else "",
        )
