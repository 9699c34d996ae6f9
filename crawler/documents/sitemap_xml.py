"""XML of sitemaps and feeds to what it lists; the tree is taken down as it grows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urljoin

from lxml import etree

from crawler.documents.sniff import ROOTS, Kind
from crawler.documents.tidy import Tidy
from policies.listing import Listing, parse_changefreq, parse_date, parse_priority

if TYPE_CHECKING:
    from lxml.etree import _Element

CHARS_MAX: Final = 8_192  # of one URL; scope takes none that is longer
ELEMENTS_MAX: Final = 1_000  # inside one entry; more are dropped as they end (law 7)
# Around the document, so that a closing tag too many does not end it.
_WRAPPERS: Final = 8
_WEB: Final = re.compile(r"https?://\S", re.IGNORECASE)


_ENTRIES: Final = frozenset({"url", "sitemap", "item", "entry"})
NOTHING: Final = Listing()


@dataclass(frozen=True, slots=True)
class Entry:
    """loc: as it is written, perhaps relative. sitemap: it names a further sitemap, not a page."""

    loc: str
    listing: Listing
    sitemap: bool = False


class XmlReader:
    """A parser whose tree is taken down as it grows."""

    def __init__(self, encoding: str) -> None:
        self.kind: Kind | None = None
        self.over = False
        self._tidy = Tidy(encoding)
        self._parser = etree.XMLPullParser(
            events=("start", "end"),
            recover=True,
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            huge_tree=False,
            remove_comments=True,
            remove_pis=True,
            encoding="utf-8",
        )
        self._depth = -_WRAPPERS
        self._entry_at = 0  # the depth of the entry we are in
        self._inside = 0  # elements in it
        self._parser.feed(b"<w>" * _WRAPPERS)

    def feed(self, data: bytes, *, last: bool = False) -> list[Entry]:
        entries: list[Entry] = []
        try:
            self._parser.feed(self._tidy.feed(data, last=last))
            self._take(entries)
            if last:
                self._parser.close()
                self._take(entries)
        except etree.XMLSyntaxError:  # beyond forgiving; what came before it is there
            self._take(entries)
            self.over = True
        return entries

    def _take(self, entries: list[Entry]) -> None:
        events = cast("Iterator[tuple[str, _Element]]", self._parser.read_events())
        for event, element in events:
            if event == "start":
                self._depth += 1
                self._open(element, entries)
                if self.over:
                    return
                continue
            depth = self._depth
            self._depth -= 1
            if not self._entry_at:
                _free(element)
            elif depth > self._entry_at:
                self._inside += 1
                if self._inside > ELEMENTS_MAX:
                    _free(element)
            else:
                self._entry_at = 0
                if (entry := _entry(element)) is not None:
                    entries.append(entry)
                _free(element)

    def _open(self, element: _Element, entries: list[Entry]) -> None:
        name = _name(element)
        if name in _ENTRIES and self.kind is not None:
            # One within another: the end of the first is missing.
            around = self._around(element) if self._entry_at else None
            if around is not None and (entry := _entry(around)) is not None:
                entries.append(entry)
            self._entry_at, self._inside = self._depth, 0
        elif self.kind is None and self._depth > 0:
            self.kind = ROOTS.get(name.lower().encode(errors="replace"))
            self.over = self.kind is None

    def _around(self, element: _Element) -> _Element | None:
        parent = element.getparent()
        while parent is not None and _name(parent) not in _ENTRIES:
            parent = parent.getparent()
        return parent


def _entry(element: _Element) -> Entry | None:
    """What one entry says; None if it names no URL."""
    loc = href = guid = ""
    lastmod: float | None = None
    changefreq = priority = None
    for child in element:
        match _name(child):
            case "loc":
                loc = loc or _text(child)
            case "link":
                if (child.get("rel") or "alternate") == "alternate":
                    loc = loc or _text(child)
                    href = href or _href(child)
            case "guid":
                if child.get("isPermaLink", "true").lower() != "false":
                    guid = _text(child)
            case "lastmod" | "updated" | "pubDate" | "date":
                lastmod = parse_date(_text(child)) if lastmod is None else lastmod
            case "published":
                lastmod = lastmod or parse_date(_text(child))
            case "changefreq":
                changefreq = parse_changefreq(_text(child))
            case "priority":
                priority = parse_priority(_text(child))
    loc = loc or href or (guid if _WEB.match(guid) else "")
    if not loc:
        return None
    listing = Listing(lastmod_at=lastmod, changefreq=changefreq, priority=priority)
    return Entry(loc, listing, sitemap=_name(element) == "sitemap")


def _name(element: _Element) -> str:
    return str(element.tag).rpartition("}")[2].rpartition(":")[2]


def _text(element: _Element) -> str:
    text = element.text or ""
    if len(element):
        text = "".join(map(str, element.itertext()))
    return text[:CHARS_MAX].strip()


def _href(element: _Element) -> str:
    """Relative to xml:base where that stands (RFC 4287, 2)."""
    href = (element.get("href") or "").strip()
    base = element.base if href else None
    try:
        return urljoin(base, href) if base else href
    except ValueError:
        return ""


def _free(element: _Element) -> None:
    """Let go of it and of what stood before it."""
    element.clear()
    parent = element.getparent()
    if parent is not None:
        while element.getprevious() is not None:
            del parent[0]
