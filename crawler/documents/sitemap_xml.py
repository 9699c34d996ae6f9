"""Streaming reader for the XML of sitemaps and feeds, entry by entry.

XML parsers stop at the first error, or repair it at the cost of the following content. In this
reader, a bad tag, reference or byte costs at most its entry. Entities are never expanded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import urljoin

from crawler.documents.decoders import incremental_decoder
from crawler.documents.sniff import ROOTS, DocumentKind
from policies.listing import Listing, parse_changefreq, parse_date, parse_priority

CHARS_MAX: Final = 8_192  # of one URL; longer ones are never in scope
_TEXT_CHARS_MAX: Final = CHARS_MAX * 8  # of one element, before references are decoded
ELEMENTS_MAX: Final = 1_000  # nesting depth inside one entry
NOTHING: Final = Listing()

WEB: Final = re.compile(r"https?://\S", re.IGNORECASE)
_ENTRIES: Final = {
    DocumentKind.URLSET: frozenset({"url", "sitemap"}),
    DocumentKind.INDEX: frozenset({"url", "sitemap"}),
    DocumentKind.RSS: frozenset({"item"}),
    DocumentKind.ATOM: frozenset({"entry"}),
}
_FIELDS: Final = frozenset(
    {"loc", "link", "guid", "lastmod", "updated", "pubdate", "date", "published", "changefreq",
     "priority"}
)  # fmt: skip
_CONTROLS: Final = dict.fromkeys({*range(0x20), 0x7F} - {9, 10, 13})
_OPENS: Final = re.compile(r"<(?=[/!?A-Za-z_:\u0080-\uffff]|\Z)")
# XML 1.0, 2.3 and 3.1. Values never contain "<", so an unclosed quote ends with its tag.
_TAG: Final = re.compile(
    r"""<(/?)([A-Za-z_:\u0080-\uffff][^\s<>/"'=]*)((?:[^<>"']|"[^<"]*"|'[^<']*')*)>"""
)
_TAG_CHARS_MAX: Final = 32_768
# The lookbehind keeps a long name without a value from taking quadratic time.
_ATTRIBUTE: Final = re.compile(
    r"""(?<![^\s<>/"'=])([^\s<>/"'=]++)\s*+=\s*+(?:"([^<"]*+)"|'([^<']*+)'|([^\s<>"'/]++))"""
)


class _Part(NamedTuple):
    """Markup other than a tag.

    A part that exceeds `chars_max`, never ends, or contains `not_in` is read as text.
    """

    start: str
    end: str
    chars_max: int
    not_in: str


_CDATA: Final = _Part("<![CDATA[", "]]>", 262_144, "<![CDATA[")
_DOCTYPE: Final = _Part("<!DOCTYPE", ">", 65_536, "<")
_PARTS: Final = (
    _Part("<!--", "-->", 65_536, "<!--"),
    _CDATA,
    _Part("<?", "?>", 65_536, "<?"),
    _DOCTYPE,
)
# Broken parts and tags that are read as text. Each takes as long as a tag, but a file of nothing
# else has a million; after these many it is no XML, and the rest is ignored.
BROKEN_PARTS: Final = 10_000
_SUBSET_ENDS: Final = re.compile(r"\]\s*>")
_OPENING_CHARS: Final = len("<![CDATA[")
# Numeric references and the five predefined entities (XML 1.0, 4.1 and 4.6). Others are text, such
# as in `?a=1&b=2`.
_REFERENCE: Final = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#(?:([0-9]{1,7})|x([0-9a-fA-F]{1,6})));")
_NAMED: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry. `loc` may be relative. `sitemap`: it refers to a sitemap instead of a page."""

    loc: str
    listing: Listing
    sitemap: bool = False


@dataclass(slots=True)
class _Text:
    """The bounded text of an element."""

    pieces: list[str] = field(default_factory=list)
    chars: int = 0

    @property
    def overlong(self) -> bool:
        return self.chars > _TEXT_CHARS_MAX

    def add(self, text: str) -> None:
        if not self.overlong:
            self.pieces.append(text[: _TEXT_CHARS_MAX + 1])
            self.chars += len(text)

    def decoded(self) -> str:
        """Return the text with references decoded.

        Overlong text is returned unchanged, so that it remains longer than any URL.
        """
        joined = "".join(self.pieces)
        return joined if self.overlong else _unescaped(joined).strip()


@dataclass(slots=True)
class _OpenEntry:
    """An entry whose end tag has not been read.

    inside: names of the elements open inside the entry.
    own: text directly inside the entry.
    text, attributes: of the outermost open element.
    """

    name: str
    base: str
    inside: list[str] = field(default_factory=list)
    own: _Text = field(default_factory=_Text)
    text: _Text = field(default_factory=_Text)
    attributes: dict[str, str] = field(default_factory=dict)
    loc: str = ""
    href: str = ""
    guid: str = ""
    lastmod: float | None = None
    published: float | None = None
    listing: dict[str, str] = field(default_factory=dict)

    def link(self) -> str:
        """Return the target of the current link element."""
        return self.resolve(self.attributes.get("href", ""))

    def resolve(self, href: str) -> str:
        return _joined(_based(self.base, self.attributes), href)

    def set(self, local: str) -> None:
        """Record the child element that has ended."""
        if local not in _FIELDS:
            return
        text = self.text.decoded()
        match local:
            case "loc":
                self.loc = self.loc or text
            case "link":
                if self.attributes.get("rel", "alternate").lower() == "alternate":
                    self.loc = self.loc or self.resolve(text)
                    self.href = self.href or self.link()
            case "guid":
                if self.attributes.get("ispermalink", "true").lower() != "false":
                    self.guid = text
            case "lastmod" | "updated" | "pubdate" | "date":
                self.lastmod = parse_date(text) if self.lastmod is None else self.lastmod
            case "published":
                self.published = parse_date(text) if self.published is None else self.published
            case _:
                self.listing[local] = text


class XmlReader:
    """Reads a document in pieces. `feed` returns the entries completed so far. Never raises.

    encoding: a name in `encoding_index.NAMES`.
    kind: given by the root element.
    over: whether the root element is not that of a sitemap or feed. The rest is ignored.
    overlong: number of URLs omitted because they have more than CHARS_MAX characters.
    """

    def __init__(self, encoding: str) -> None:
        self.kind: DocumentKind | None = None
        self.over = False
        self.overlong = 0
        self._root = ""
        self._root_is_open = False
        self._decoder = incremental_decoder(encoding)
        self._held = ""  # unread: its meaning depends on what follows
        self._sought: dict[str, int] = {}  # by end of a part: up to where it is not in `_held`
        self._base = ""
        self._open: _OpenEntry | None = None
        self._broken = 0

    @property
    def problem(self) -> str | None:
        """What is wrong with the document if it ends here."""
        return "it ends before its root element does" if self._root_is_open else None

    def feed(self, data: bytes) -> list[Entry]:
        return self._read(data, last=False)

    def close(self, *, cut: bool) -> list[Entry]:
        """Finish. Elements without an end tag are omitted."""
        del cut  # unclosed elements are omitted in any case
        return self._read(b"", last=True)

    def _read(self, data: bytes, *, last: bool) -> list[Entry]:
        text = self._held + self._decoder.decode(data, last).translate(_CONTROLS)
        entries: list[Entry] = []
        at = 0
        while not self.over:
            found = _OPENS.search(text, at)
            opens = -1 if found is None else found.start()
            before = len(text) if opens < 0 else opens
            if before > at and self._open is not None:
                self._add_text(text[at:before])
            at = before
            if opens < 0:
                break
            end = self._end_of_part(text, at, last=last)
            if end is None:
                end = self._end_of_tag(text, at, entries, last=last)
            if end == at:
                break  # more of it has to come
            at = end
        self._held = text[at:]
        self._sought = {ends: sought - at for ends, sought in self._sought.items() if sought > at}
        if last:
            self._finish(entries, cut=True)
        return entries

    def _end_of_part(self, text: str, at: int, *, last: bool) -> int | None:
        """Return the end of the part at `at`, `at` if more data is needed, or None for a tag."""
        if text[at + 1 : at + 2] not in ("!", "?", ""):
            return None
        opening = text[at : at + _OPENING_CHARS].upper()
        for part in _PARTS:
            if opening.startswith(part.start):
                break
            if part.start.startswith(opening) and not last:
                return at
        else:
            return self._read_as_text(at)
        start, limit = at + len(part.start), at + part.chars_max
        end = self._find(text, part.end, start, limit)
        is_prolog = part is _DOCTYPE and not self._root  # else its "[" opens nothing
        if end >= 0 and is_prolog and text.find("[", start, end) >= 0:
            found = _SUBSET_ENDS.search(text, start, limit)
            end = -1 if found is None else found.end() - 1
        elif end >= 0 and text.find(part.not_in, start, end) >= 0:
            limit, end = 0, -1
        if end < 0:
            if not last and len(text) < limit:
                return at
            return self._read_as_text(at)
        if part is _CDATA:
            self._add_text(text[start:end].replace("&", "&amp;"))
        return end + len(part.end)

    def _read_as_text(self, at: int) -> int:
        """Read a "<" that begins nothing as text. Returns its end."""
        self._broken += 1
        self.over = self.over or self._broken > BROKEN_PARTS
        self._add_text("<")
        return at + 1

    def _find(self, text: str, ends: str, start: int, limit: int) -> int:
        """Find the end of a part as `str.find` does, without searching any text twice."""
        begin = max(start, self._sought.get(ends, 0))
        found = text.find(ends, begin, limit)
        if found < 0:
            self._sought[ends] = max(begin, min(limit, len(text)) - len(ends) + 1)
        return found

    def _end_of_tag(self, text: str, at: int, entries: list[Entry], *, last: bool) -> int:
        """Return the end of the tag at `at`, or `at` if more data is needed."""
        limit = at + _TAG_CHARS_MAX
        found = _TAG.match(text, at, limit)
        if found is None:
            if not last and len(text) < limit and text.find("<", at + 1) < 0:
                return at
            return self._read_as_text(at)
        closing, name, rest = found.groups()
        local = name.rpartition(":")[2].lower()
        if closing:
            self._end(name, local, entries)
        else:
            self._start(name, local, rest, entries)
            if rest.endswith("/"):
                self._end(name, local, entries)
        return found.end()

    def _start(self, name: str, local: str, rest: str, entries: list[Entry]) -> None:
        if self.kind is None:
            self.kind = ROOTS.get(local.encode("utf-8", "replace"))
            self.over = self.kind is None
            self._root, self._root_is_open = name, not self.over
            self._base = _based("", _attributes(rest)) if "base" in rest else ""
            return
        if local in _ENTRIES[self.kind]:
            self._finish(entries)  # the end tag of the previous entry is missing
            base = _based(self._base, _attributes(rest)) if "base" in rest else self._base
            self._open = _OpenEntry(local, base)
            return
        entry = self._open
        if entry is None:
            self._root_is_open = self._root_is_open or name == self._root
            if "base" in rest:  # on an element that contains entries, such as a channel
                self._base = _based(self._base, _attributes(rest))
            return
        if len(entry.inside) >= ELEMENTS_MAX:
            return
        if not entry.inside:
            entry.text = _Text()
            entry.attributes = _attributes(rest) if local in ("link", "guid") else {}
        entry.inside.append(name)

    def _end(self, name: str, local: str, entries: list[Entry]) -> None:
        entry = self._open
        if name == self._root:
            self._root_is_open = False
        if entry is None:
            return
        if name in entry.inside:
            while entry.inside.pop() != name:
                pass
            if not entry.inside:
                self._end_child(entry, local, entries)
        elif local == entry.name:
            self._finish(entries)

    def _add_text(self, text: str) -> None:
        entry = self._open
        if entry is not None and text and not text.isspace():
            (entry.text if entry.inside else entry.own).add(text)

    def _end_child(self, entry: _OpenEntry, local: str, entries: list[Entry]) -> None:
        """Process a child of an entry that has ended."""
        if local != "link" or self.kind is not DocumentKind.URLSET:
            entry.set(local)
        elif "alternate" in entry.attributes.get("rel", "").lower().split():
            self._add_entry(entry.link(), NOTHING, entries)

    def _finish(self, entries: list[Entry], *, cut: bool = False) -> None:
        """Add the open entry. `cut`: the document has ended, so its last child is incomplete."""
        entry, self._open = self._open, None
        if entry is None:
            return
        if entry.inside and not cut:
            self._end_child(entry, entry.inside[0].rpartition(":")[2].lower(), entries)
        loc = entry.loc or entry.href or (entry.guid if WEB.match(entry.guid) else "")
        if not loc and not cut and self.kind in (DocumentKind.URLSET, DocumentKind.INDEX):
            text = entry.own.decoded()  # some sites write the URL without a <loc> around it
            loc = text if WEB.match(text) else ""
        if not loc:
            return
        listing = Listing(
            lastmod_at=entry.lastmod or entry.published,
            changefreq=parse_changefreq(entry.listing.get("changefreq", "")),
            priority=parse_priority(entry.listing.get("priority", "")),
        )
        self._add_entry(loc, listing, entries, sitemap=entry.name == "sitemap")

    def _add_entry(
        self, loc: str, listing: Listing, entries: list[Entry], *, sitemap: bool = False
    ) -> None:
        if len(loc) > CHARS_MAX:
            self.overlong += 1
        elif loc:
            entries.append(Entry(loc, listing, sitemap=sitemap))


def _attributes(rest: str) -> dict[str, str]:
    """Parse attributes by local names in lower case. The first of a name counts."""
    found: dict[str, str] = {}
    for name, double, single, bare in _ATTRIBUTE.findall(rest):
        local = name.rpartition(":")[2].lower()
        found.setdefault(local, _unescaped(double or single or bare).strip())
    return found


def _based(base: str, attributes: dict[str, str]) -> str:
    """Apply the xml:base attribute to the base URL (RFC 4287, section 2)."""
    own = attributes.get("base", "")
    return _joined(base, own) if own else base


def _joined(base: str, href: str) -> str:
    try:
        return urljoin(base, href) if base and href else href
    except ValueError:
        return ""


def _unescaped(text: str) -> str:
    if "&" in text:
        text = _REFERENCE.sub(_character, text)
        if _SURROGATE.search(text):  # two references that form a UTF-16 pair
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _character(reference: re.Match[str]) -> str:
    if reference[1]:
        return _NAMED[reference[1]]
    code = int(reference[2]) if reference[2] else int(reference[3], 16)
    if code > 0x10FFFF:
        return "\ufffd"
    return "" if code in _CONTROLS else chr(code)
