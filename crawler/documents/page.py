"""A page as the crawl sees it: links, title, directives. Hostile input yields less, never an error.

Links come from `a`, `area`, `iframe`, `frame`, `link` (canonical, next, prev, alternate), meta
refresh, and the `Link` and `Refresh` headers. Nothing is taken from comments, scripts or templates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Final

from msgspec import Struct, field
from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from crawler.documents import fragments as fragments_of
from crawler.documents import markup, scan
from crawler.documents.anchor_text import text_of, text_without_code
from crawler.documents.charset import to_utf8
from crawler.documents.encoding import UTF8
from crawler.documents.fragments import Fragments
from crawler.documents.links import (
    TEXT_CHARS_READ,
    PageLink,
    PageLinks,
    anchor_text,
    collapsed,
    followed_rels,
    refresh_href,
)
from crawler.documents.nesting import is_tangled
from crawler.fetching.request import Headers
from policies.indexing import (
    UNRESTRICTED,
    Directives,
    from_header,
    from_meta,
    is_too_long,
    rel_nofollow,
)
from policies.scope import Skip
from policies.usage import NAMES

__all__ = ["PageLink", "ParsedPage", "may_be_html", "parse_page"]

# What a listing can show of a title.
TITLE_CHARS_MAX: Final = 500
# A title inside an SVG names a drawing; so many are looked behind for the page's own.
_TITLES_MAX: Final = 100
# Markup beyond this is not read for links: parsing so much takes about 50 ms of everyone's time.
MARKUP_BYTES_MAX: Final = 5_000_000
# Meta elements looked at for directives; real pages have up to a hundred of all kinds.
_METAS_MAX: Final = 1_000

_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_XHTML: Final = "application/xhtml+xml"
_SELECTOR: Final = "a[href],area[href],link[href],iframe[src],frame[src],meta[content],title"
_EMPTY_XML_ELEMENT: Final = re.compile(
    rb"<(script|style|title|textarea|iframe)((?:[\t\n\f\r ][^<>]*)?)/>", re.IGNORECASE
)


# Found in the attributes of every link element that may have to be followed.
_LINKING: Final = re.compile(r"canonical|next|prev|alternate|&|[^\x00-\x7f]", re.IGNORECASE)
_NEEDED: Final = {b"link": "href", b"meta": "content"}  # without it the element says nothing
_ANCHOR_ENDS: Final = frozenset({b"a", b"/a", b""})
_ELEMENTS: Final = frozenset({b"a", b"area", b"frame", b"iframe", b"img", b"link", b"meta"})


class ParsedPage(Struct, frozen=True, kw_only=True):
    """What was read. `gathered` has the links; their anchor texts may cost more when asked for."""

    title: str | None = None
    gathered: PageLinks
    directives: Directives = UNRESTRICTED  # of headers and meta elements, the strictest
    canonical_url: str | None = None
    charset: str = UTF8  # as `crawler.documents.encoding` names it
    skipped: Mapping[str, int] = field(default_factory=dict)  # links left out here, by reason
    metas: Sequence[tuple[str, str]] = ()  # name and content of those that may concern us
    fragments: Fragments = fragments_of.NONE  # if they were asked for

    @property
    def links(self) -> tuple[PageLink, ...]:
        """All links in the order of their first occurrence, headers first; made at each call."""
        return self.gathered.found()


def may_be_html(content_type: str | None) -> bool:
    """Whether a body of this declared type may have links: HTML and XHTML. Also one of no type at
    all, which `read` looks at more closely."""
    return content_type is None or _media_type(content_type) in _HTML_TYPES


def parse_page(
    url: str,
    headers: Headers,
    body: bytes,
    *,
    tokens: Sequence[str],
    markup_bytes_max: int = MARKUP_BYTES_MAX,
    fragments: bool = False,
) -> ParsedPage:
    """Read the answer for the canonical `url`; `tokens` are our product tokens. Never raises.

    The body is read only if it is HTML or XHTML by its type, or has none and begins like markup; of
    it at most `markup_bytes_max` bytes. `fragments`: read them, too.
    """
    directives = UNRESTRICTED
    html: bytes | None = None
    if "X-Robots-Tag" in headers:
        directives = from_header(headers.getall("X-Robots-Tag"), tokens)
    content_type = headers.get("Content-Type")
    media_type = None if content_type is None else _media_type(content_type)
    if body and _is_html(media_type, body):
        html, charset = to_utf8(body[:markup_bytes_max], content_type)
        reader = _Reader(url, _links_of_headers(url, headers, charset))
        if media_type == _XHTML:
            html = _EMPTY_XML_ELEMENT.sub(rb"<\1\2></\1>", html)
        rows = scan.rows(html.decode(errors="replace"))
        if rows is None or not reader.read_rows(rows, html, _speaking(tuple(tokens))):
            reader = _Reader(url, _links_of_headers(url, headers, charset))
            reader.read_structure(html)
        if reader.metas:
            directives = directives.merge(from_meta(reader.metas, tokens))
        if len(body) > markup_bytes_max:
            reader.links.skip(Skip.MAX_MARKUP)
    else:
        charset = UTF8
        reader = _Reader(url, _links_of_headers(url, headers, charset))
    if is_too_long(headers.getall("X-Robots-Tag", ()), reader.metas, tokens):
        reader.links.skip(Skip.LONG_HEADER)
    found = fragments_of.NONE
    if fragments:
        whole = len(body) <= markup_bytes_max
        found = fragments_of.fragments(reader.links.resolved, html, whole=whole)
        if not found.all_read:
            reader.links.skip(Skip.MANY_FRAGMENTS)
    return ParsedPage(
        title=reader.title,
        gathered=reader.links,
        directives=directives,
        canonical_url=reader.links.canonical_url,
        charset=charset,
        skipped=reader.links.skipped,
        metas=reader.metas,
        fragments=found,
    )


def _links_of_headers(url: str, headers: Headers, encoding: str) -> PageLinks:
    links = PageLinks(url, encoding)
    if "Link" in headers or "Refresh" in headers:
        links.read_headers(headers)
    return links


# ---------------------------------------------------------------- reading


class _Reader:
    """What a page says of itself, read in one of three ways; the links it hands on."""

    __slots__ = ("_titles", "links", "metas", "title", "url")

    def __init__(self, url: str, links: PageLinks) -> None:
        self._titles = 0
        self.url = url
        self.links = links
        self.title: str | None = None
        self.metas: list[tuple[str, str]] = []

    def read_rows(self, rows: Sequence[scan.Row], html: bytes, speaking: re.Pattern[str]) -> bool:
        """From what `scan` found in the document. False: this needs a tree after all.

        `speaking` finds the metas that may concern us. The loop takes 15 µs for 52 links.
        """
        links = self.links
        hrefs: list[str] = []
        held: list[str | None] = []  # by the anchors of these hrefs; None: by something else
        nofollow: set[int] = set()
        canonicals: list[str] = []
        metas = 0
        based = drawings = False
        for quoted, single, rel, holds, odd, odd_holds, name, raw, frame, title, svg, _ in rows:
            if href := quoted or single:
                if "&" in href:
                    href = markup.unescaped_value(href)
                if rel and rel_nofollow(rel):
                    nofollow.add(len(hrefs))
                hrefs.append(href)
                held.append(holds)
            elif odd:
                attributes = markup.attributes(odd.encode())
                if "href" in attributes:
                    if rel_nofollow(attributes.get("rel")):
                        nofollow.add(len(hrefs))
                    hrefs.append(attributes["href"])
                    held.append(odd_holds)
            elif name == "meta":
                metas += 1
                if speaking.search(raw) is not None:
                    attributes = markup.attributes(raw.encode())
                    if "content" in attributes and (leads := self._add_meta(attributes)):
                        hrefs.append(leads)
                        held.append(None)
            elif name == "link":
                if _LINKING.search(raw) is not None:
                    attributes = markup.attributes(raw.encode())
                    rels = followed_rels(attributes.get("rel"))
                    if rels and "href" in attributes:
                        if "nofollow" in rels:
                            nofollow.add(len(hrefs))
                        if "canonical" in rels:
                            canonicals.append(attributes["href"])
                        hrefs.append(attributes["href"])
                        held.append(None)
            elif title:
                if drawings and html.count(b"<title") > _TITLES_MAX:
                    return False
                if self.title is None:
                    self.title = collapsed(markup.unescaped(title[:-8]), TITLE_CHARS_MAX)
            elif frame:
                if source := markup.attributes(frame.encode()).get("src"):
                    hrefs.append(source)
                    held.append(None)
            elif svg:
                drawings = True
            elif name and not based:  # a base
                attributes = markup.attributes(raw.encode())
                if "href" in attributes:
                    links.set_base(attributes["href"])
                    based = True
        if metas > _METAS_MAX:
            return False
        links.add_all(hrefs, nofollow)
        for href in canonicals:
            links.canonical_url = links.canonical_url or links.url_of(href)
        links.read_anchors_by(partial(_anchors, self.url, hrefs, held, html))
        return True

    def read_structure(self, html: bytes) -> None:
        """By a tree, or by tags alone if it would take too long to build."""
        if is_tangled(html):
            self.links.skip(Skip.TANGLED)
            self.read_tokens(html)
        else:
            self.read_tree(html)

    def read_tree(self, html: bytes) -> None:
        """By Lexbor: the tree that a browser without scripting builds."""
        links = self.links
        tree = LexborHTMLParser(html, options=LexborDocumentOptions.WO_EVENTS)
        base = tree.css_first("base[href]")
        if base is not None:
            links.set_base(base.attributes.get("href") or "")
        read_text = text_of if tree.css_first("a script,a style") is None else text_without_code
        for node in tree.css(_SELECTOR):
            tag = node.tag
            attributes = node.attributes
            if tag == "a":
                rel = attributes.get("rel")
                nofollow = rel is not None and rel_nofollow(rel)
                url = links.add(attributes.get("href"), nofollow=nofollow)
                if url is not None:
                    links.set_anchor(url, read_text(node))
            elif tag == "title":
                if self.title is None and not self._is_drawing(node):
                    self.title = collapsed(node.text(), TITLE_CHARS_MAX)
            else:
                self._add_element(tag, attributes)

    def read_tokens(self, html: bytes) -> None:
        """Tag by tag, for what is too tangled for a tree."""
        links = self.links
        if (base := markup.base_href(html)) is not None:  # it also counts for what stands before it
            links.set_base(base)
        open_url: str | None = None  # of the anchor that is open and could do with a text
        text, alt = "", ""
        last = markup.Tag(b"", b"", 0, 0)  # the tag before
        for tag in markup.tokens(html):
            if tag.in_template:
                last = tag
                continue
            if open_url is not None and len(text) < TEXT_CHARS_READ:
                text += markup.text_between(last, tag, html, TEXT_CHARS_READ)
            if last.name == b"title" and self.title is None and not (last.foreign or last.in_svg):
                self.title = collapsed(
                    markup.text_between(last, tag, html, TEXT_CHARS_READ), TITLE_CHARS_MAX
                )
            last = tag
            name = tag.name
            if name in _ANCHOR_ENDS:
                if open_url is not None:
                    links.set_anchor(open_url, text if text.strip() else alt)
                open_url, text, alt = None, "", ""
            if name not in _ELEMENTS or tag.ignored:
                continue
            attributes = markup.attributes(tag.attributes)
            if name == b"a":
                if "href" in attributes:
                    nofollow = rel_nofollow(attributes.get("rel"))
                    open_url = links.add(attributes["href"], nofollow=nofollow)
            elif name == b"img":
                alt = alt or attributes.get("alt", "")
            elif name not in _NEEDED or _NEEDED[name] in attributes:
                self._add_element(name.decode(), attributes)

    def _add_element(self, tag: str | None, attributes: Mapping[str, str | None]) -> None:
        links = self.links
        if tag == "link":
            links.add_link_element(attributes.get("href"), attributes.get("rel"))
        elif tag == "meta":
            if href := self._add_meta(attributes):
                links.add(href)
        elif tag == "area":
            if "href" in attributes:
                nofollow = rel_nofollow(attributes.get("rel"))
                url = links.add(attributes["href"], nofollow=nofollow)
                if url is not None:
                    links.set_anchor(url, attributes.get("alt") or "")
        elif attributes.get("src"):  # iframe, frame
            links.add(attributes["src"])

    def _add_meta(self, attributes: Mapping[str, str | None]) -> str | None:
        """Note what a meta element says; where it leads, if it does."""
        name, http_equiv = attributes.get("name"), attributes.get("http-equiv")
        if http_equiv is not None and http_equiv.strip().lower() == "refresh":
            return refresh_href(attributes.get("content") or "")
        if name is not None:
            if len(self.metas) < _METAS_MAX:
                self.metas.append((name, attributes.get("content") or ""))
            else:
                self.links.skip(Skip.MANY_METAS)
        return None

    def _is_drawing(self, title: LexborNode) -> bool:
        """Whether a title element is an SVG's."""
        self._titles += 1
        if self._titles > _TITLES_MAX:
            self.links.skip(Skip.MANY_TITLES)
            return True
        parent = title.parent
        while parent is not None:
            if parent.tag == "svg":
                return True
            parent = parent.parent
        return False


def _anchors(
    url: str,
    hrefs: Sequence[str],
    held: Sequence[str | None],
    html: bytes,
    links: PageLinks,
    wanted: Iterable[str],
) -> Mapping[str, str | None]:
    """The anchor texts of `wanted` from what the anchors hold, or all of the page from a tree."""
    texts: dict[str, str | None] = dict.fromkeys(wanted)
    missing = set(texts)
    blocks: bool | None = None  # not looked yet
    for href, holds in zip(hrefs, held, strict=True):
        if not missing:
            break
        if holds is not None and (target := links.url_of(href)) in missing:
            text = scan.anchor_text(holds, blocks=blocks is True)
            if text is None and holds and blocks is None:
                blocks = scan.paragraphs_are_closed(html.decode(errors="replace"))
                text = scan.anchor_text(holds, blocks=blocks)
            if text is None:
                reader = _Reader(url, PageLinks(url, links.encoding))
                reader.read_structure(html)
                return {**texts, **reader.links.anchors(())}
            texts[target] = anchor_text(text)
            if texts[target] is not None:
                missing.discard(target)
    return texts


# ---------------------------------------------------------------- small readers


@lru_cache(maxsize=256)
def _speaking(tokens: tuple[str, ...]) -> re.Pattern[str]:
    """Found in the attributes of every meta element that can say something to us."""
    words = ["refresh", "robots", *NAMES, *map(re.escape, tokens)]
    return re.compile(rf"{'|'.join(words)}|[*&]|[^\x00-\x7f]", re.IGNORECASE)


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].partition(",")[0].strip().lower()


def _is_html(media_type: str | None, body: bytes) -> bool:
    if media_type is not None:
        return media_type in _HTML_TYPES
    head = body[:1024].removeprefix(b"\xef\xbb\xbf").lstrip()
    return head.startswith(b"<") and not head.startswith((b"<?xml", b"<rss", b"<feed", b"<urlset"))
