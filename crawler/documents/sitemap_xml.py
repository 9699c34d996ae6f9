"""XML of sitemaps and feeds to what it lists, as it comes, entry by entry.

No XML parser: those stop at the first thing that is wrong, or repair it at the cost of what stands
behind it. Here a bad tag, reference or byte costs at most the entry it is in. Entities are never
declared, and so never expanded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urljoin

from crawler.documents.decoders import incremental_decoder
from crawler.documents.sniff import ROOTS, DocumentKind
from policies.listing import Listing, parse_changefreq, parse_date, parse_priority

CHARS_MAX: Final = 8_192  # of one URL; scope takes none that is longer
_TEXT_CHARS_MAX: Final = CHARS_MAX * 8  # of one element, references not decoded
ELEMENTS_MAX: Final = 1_000  # inside one entry, one in another; real ones have a few
NOTHING: Final = Listing()

_WEB: Final = re.compile(r"https?://\S", re.IGNORECASE)
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
# XML 1.0, 2.3 and 3.1. A value has no "<", so that a quote that is not closed ends with its tag.
_TAG: Final = re.compile(
    r"""<(/?)([A-Za-z_:\u0080-\uffff][^\s<>/"'=]*)((?:[^<>"']|"[^<"]*"|'[^<']*')*)>"""
)
_TAG_CHARS_MAX: Final = 32_768
# A name is looked for where one may begin, not in the middle of another: else a long one without
# a value would cost its square.
_ATTRIBUTE: Final = re.compile(
    r"""(?<![^\s<>/"'=])([^\s<>/"'=]++)\s*+=\s*+(?:"([^<"]*+)"|'([^<']*+)'|([^\s<>"'/]++))"""
)


@dataclass(frozen=True, slots=True)
class _Part:
    """What is no tag: how it begins and ends, and how long it may be. One that is longer, that
    never ends, or in which something stands that cannot, is text: what is behind its beginning is
    read."""

    begins: str
    ends: str
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
_SUBSET_ENDS: Final = re.compile(r"\]\s*>")
_OPENING_CHARS: Final = len("<![CDATA[")
# XML 1.0, 4.1 and 4.6: characters by number, and five names. Any other name would be an entity;
# `?a=1&b=2` stands in sitemaps as it is.
_REFERENCE: Final = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#(?:([0-9]{1,7})|x([0-9a-fA-F]{1,6})));")
_NAMED: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Entry:
    """loc: as it is written, perhaps relative. sitemap: it names a further sitemap, not a page."""

    loc: str
    listing: Listing
    sitemap: bool = False


@dataclass(slots=True)
class _Text:
    """What an element holds, up to a bound; `overlong` if there was more."""

    pieces: list[str] = field(default_factory=list)
    chars: int = 0

    @property
    def overlong(self) -> bool:
        return self.chars > _TEXT_CHARS_MAX

    def add(self, text: str) -> None:
        if not self.overlong:
            self.pieces.append(text[: _TEXT_CHARS_MAX + 1])
            self.chars += len(text)


@dataclass(slots=True)
class _Open:
    """An entry whose end has not come."""

    name: str
    base: str
    inside: list[str] = field(default_factory=list)  # elements that are open in it
    own: _Text | None = None  # outside of them
    text: _Text | None = None  # of the outermost of them
    attributes: dict[str, str] = field(default_factory=dict)
    loc: str = ""
    href: str = ""
    guid: str = ""
    lastmod: float | None = None
    published: float | None = None
    listing: dict[str, str] = field(default_factory=dict)


class XmlReader:
    """`feed` gives the entries that have ended by now. Never raises for what it is fed.

    kind: by the root element. over: that is not the root of a sitemap or feed, and nothing more is
    read. overlong: URLs of more than CHARS_MAX characters, which are left out. encoding: a name as
    `crawler.documents.encoding` gives it.
    """

    def __init__(self, encoding: str) -> None:
        self.kind: DocumentKind | None = None
        self.over = False
        self.overlong = 0
        self._root = ""
        self._root_is_open = False
        self._decoder = incremental_decoder(encoding)
        self._held = ""  # not read yet: what it is depends on what follows
        self._sought: dict[str, int] = {}  # of what is held: up to where there is no such end
        self._base = ""
        self._open: _Open | None = None

    @property
    def problem(self) -> str | None:
        """What is wrong with the document if nothing more of it comes, in words."""
        return "it ends before its root element does" if self._root_is_open else None

    def feed(self, data: bytes) -> list[Entry]:
        return self._read(data, last=False)

    def close(self, *, cut: bool) -> list[Entry]:
        """Nothing more comes. What is not closed by its end tag is left out, `cut` or not."""
        del cut
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

    # ------------------------------------------------------------ what there is

    def _end_of_part(self, text: str, at: int, *, last: bool) -> int | None:
        """Behind what begins at `at` and is no tag; `at` if that cannot be known yet; None for a
        tag."""
        if text[at + 1 : at + 2] not in ("!", "?", ""):
            return None
        opening = text[at : at + _OPENING_CHARS].upper()
        for part in _PARTS:
            if opening.startswith(part.begins):
                break
            if part.begins.startswith(opening) and not last:
                return at
        else:
            self._add_text("<")
            return at + 1
        start, limit = at + len(part.begins), at + part.chars_max
        end = self._find(text, part.ends, start, limit)
        if end >= 0 and part is _DOCTYPE and text.find("[", start, end) >= 0:
            found = _SUBSET_ENDS.search(text, start, limit)
            end = -1 if found is None else found.end() - 1
        elif end >= 0 and text.find(part.not_in, start, end) >= 0:
            limit, end = 0, -1
        if end < 0:
            if not last and len(text) < limit:
                return at
            self._add_text("<")
            return at + 1
        if part is _CDATA:
            self._add_text(text[start:end].replace("&", "&amp;"))
        return end + len(part.ends)

    def _find(self, text: str, ends: str, start: int, limit: int) -> int:
        """As `text.find`; no place is searched twice for the same end."""
        begin = max(start, self._sought.get(ends, 0))
        found = text.find(ends, begin, limit)
        if found < 0:
            self._sought[ends] = max(begin, min(limit, len(text)) - len(ends) + 1)
        return found

    def _end_of_tag(self, text: str, at: int, entries: list[Entry], *, last: bool) -> int:
        """Behind the tag that begins at `at`, or behind its "<" if it is none; `at` if that cannot
        be known yet."""
        limit = at + _TAG_CHARS_MAX
        found = _TAG.match(text, at, limit)
        if found is None:
            if not last and len(text) < limit and text.find("<", at + 1) < 0:
                return at
            self._add_text("<")
            return at + 1
        closing, name, rest = found.groups()
        local = name.rpartition(":")[2].lower()
        if closing:
            self._end(name, local, entries)
        else:
            self._start(name, local, rest, entries)
            if rest.endswith("/"):
                self._end(name, local, entries)
        return found.end()

    # ------------------------------------------------------------ what it says

    def _start(self, name: str, local: str, rest: str, entries: list[Entry]) -> None:
        if self.kind is None:
            self.kind = ROOTS.get(local.encode("utf-8", "replace"))
            self.over = self.kind is None
            self._root, self._root_is_open = name, not self.over
            self._base = _based("", _attributes(rest)) if "base" in rest else ""
            return
        if local in _ENTRIES[self.kind]:
            self._finish(entries)  # one within another: the end of the first is missing
            base = _based(self._base, _attributes(rest)) if "base" in rest else self._base
            self._open = _Open(local, base)
            return
        one = self._open
        if one is None:
            self._root_is_open = self._root_is_open or name == self._root
            if "base" in rest:  # of an element around the entries, such as a channel
                self._base = _based(self._base, _attributes(rest))
            return
        if len(one.inside) >= ELEMENTS_MAX:
            return
        if not one.inside:
            one.text = None
            one.attributes = _attributes(rest) if local in ("link", "guid") else {}
        one.inside.append(name)

    def _end(self, name: str, local: str, entries: list[Entry]) -> None:
        one = self._open
        if name == self._root:
            self._root_is_open = False
        if one is None:
            return
        if name in one.inside:
            while one.inside.pop() != name:
                pass
            if not one.inside:
                self._take(one, local, entries)
        elif local == one.name:
            self._finish(entries)

    def _add_text(self, text: str) -> None:
        one = self._open
        if one is None or not text or text.isspace():
            return
        if one.inside:
            if one.text is None:
                one.text = _Text()
            one.text.add(text)
        else:
            if one.own is None:
                one.own = _Text()
            one.own.add(text)

    def _take(self, one: _Open, local: str, entries: list[Entry]) -> None:
        """A child of an entry has ended."""
        if local == "link" and self.kind is DocumentKind.URLSET:
            if "alternate" in one.attributes.get("rel", "").lower().split():
                self._add_entry(_href(one), NOTHING, entries)
        else:
            _take(one, local)

    def _finish(self, entries: list[Entry], *, cut: bool = False) -> None:
        """The entry that is open has ended. cut: the document has, so that what is still open in
        the entry may be only half there."""
        one, self._open = self._open, None
        if one is None:
            return
        if one.inside and not cut:
            self._take(one, one.inside[0].rpartition(":")[2].lower(), entries)
        loc = one.loc or one.href or (one.guid if _WEB.match(one.guid) else "")
        if not loc and not cut and self.kind in (DocumentKind.URLSET, DocumentKind.INDEX):
            text = _whole(one.own)  # some write the URL without a <loc> around it
            loc = text if _WEB.match(text) else ""
        if not loc:
            return
        listing = Listing(
            lastmod_at=one.lastmod or one.published,
            changefreq=parse_changefreq(one.listing.get("changefreq", "")),
            priority=parse_priority(one.listing.get("priority", "")),
        )
        self._add_entry(loc, listing, entries, sitemap=one.name == "sitemap")

    def _add_entry(
        self, loc: str, listing: Listing, entries: list[Entry], *, sitemap: bool = False
    ) -> None:
        if len(loc) > CHARS_MAX:
            self.overlong += 1
        elif loc:
            entries.append(Entry(loc, listing, sitemap=sitemap))


def _whole(text: _Text | None) -> str:
    """References decoded. What is overlong is given as it is, so that it stays longer than any URL,
    and nothing is taken for whole that was cut."""
    if text is None:
        return ""
    joined = "".join(text.pieces)
    return joined if text.overlong else _unescaped(joined).strip()


def _take(one: _Open, local: str) -> None:
    """A child of an entry has ended."""
    if local not in _FIELDS:
        return
    text = _whole(one.text)
    match local:
        case "loc":
            one.loc = one.loc or text
        case "link":
            if one.attributes.get("rel", "alternate").lower() == "alternate":
                one.loc = one.loc or _joined(_based(one.base, one.attributes), text)
                one.href = one.href or _href(one)
        case "guid":
            if one.attributes.get("ispermalink", "true").lower() != "false":
                one.guid = text
        case "lastmod" | "updated" | "pubdate" | "date":
            one.lastmod = parse_date(text) if one.lastmod is None else one.lastmod
        case "published":
            one.published = parse_date(text) if one.published is None else one.published
        case _:
            one.listing[local] = text


def _attributes(rest: str) -> dict[str, str]:
    """By their local names, in lower case; the first of a name counts."""
    found: dict[str, str] = {}
    for name, double, single, bare in _ATTRIBUTE.findall(rest):
        local = name.rpartition(":")[2].lower()
        found.setdefault(local, _unescaped(double or single or bare).strip())
    return found


def _href(one: _Open) -> str:
    return _joined(_based(one.base, one.attributes), one.attributes.get("href", ""))


def _based(base: str, attributes: dict[str, str]) -> str:
    """What is relative here is relative to this: xml:base (RFC 4287, 2)."""
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
        if _SURROGATE.search(text):  # by two numbers, as UTF-16 has it; one alone is none
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _character(reference: re.Match[str]) -> str:
    if reference[1]:
        return _NAMED[reference[1]]
    code = int(reference[2]) if reference[2] else int(reference[3], 16)
    if code > 0x10FFFF:
        return "\ufffd"
    return "" if code in _CONTROLS else chr(code)
