"""Parsing of pages: links, title, directives and fragments. Hostile input yields less, not errors.

Links come from `a`, `area`, `iframe`, `frame`, `link` (canonical, next, prev, alternate), meta
refresh, and the `Link` and `Refresh` headers. Comments, scripts and templates are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from selectolax.lexbor import LexborHTMLParser

from crawler.documents import fragments as fragments_of
from crawler.documents import markup, native_page, scan, tree
from crawler.documents.charset import media_type, to_utf8
from crawler.documents.decoders import UTF8
from crawler.documents.fragments import Fragments
from crawler.documents.links import (
    TEXT_CHARS_READ,
    PageLink,
    PageLinks,
    collapsed,
    followed_rels,
    refresh_href,
)
from crawler.documents.native_page import relevant_words
from crawler.documents.scanned_anchors import ScannedAnchors, contents_of
from crawler.documents.tree import Document
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

__all__ = ["PageLink", "ParsedPage", "may_be_html", "parse_page"]

TITLE_CHARS_MAX: Final = 500
# Titles skipped because they are inside an SVG and name a drawing.
_TITLES_MAX: Final = 100
# Markup beyond this size is not parsed.
MARKUP_BYTES_MAX: Final = 5_000_000
# Meta elements read for directives. Real pages have up to a hundred.
_METAS_MAX: Final = 1_000

XHTML: Final = "application/xhtml+xml"
HTML_TYPES: Final = frozenset({"text/html", XHTML})
_SELECTOR: Final = "a[href],area[href],link[href],iframe[src],frame[src],meta[content],title"

# Matches in the attributes of every link element whose target may be a page to follow.
_FOLLOWED: Final = re.compile(r"canonical|next|prev|alternate|&|[^\x00-\x7f]", re.IGNORECASE)
_REQUIRED: Final = {b"link": "href", b"meta": "content"}  # elements without it are ignored
_LINKING: Final = frozenset({"a", "area", "link"})
_ANCHOR_ENDS: Final = frozenset({b"a", b"/a", b""})
_ELEMENTS: Final = frozenset({b"a", b"area", b"frame", b"iframe", b"img", b"link", b"meta"})


class ParsedPage(Struct, frozen=True, kw_only=True):
    """The content of a page.

    page_links: all links; reading their anchor texts may cost more.
    directives: the strictest of headers and meta elements.
    charset: the encoding, by its name in `encoding_index.NAMES`.
    skipped: numbers of omitted items by reason.
    metas: name and content of the meta elements that may address this crawler.
    fragments: empty unless requested.
    """

    title: str | None = None
    page_links: PageLinks
    directives: Directives = UNRESTRICTED
    canonical_url: str | None = None
    charset: str = UTF8
    skipped: Mapping[str, int] = field(default_factory=dict)
    metas: Sequence[tuple[str, str]] = ()
    fragments: Fragments = fragments_of.NONE

    @property
    def links(self) -> tuple[PageLink, ...]:
        """All links in the order of their first occurrence, headers first. Built at each call."""
        return self.page_links.found()


def may_be_html(content_type: str | None) -> bool:
    """Return whether a body of this Content-Type is parsed: HTML, XHTML, or no type at all."""
    return content_type is None or media_type(content_type) in HTML_TYPES


def parse_page(
    url: str,
    headers: Headers,
    body: bytes,
    *,
    tokens: Sequence[str],
    markup_bytes_max: int = MARKUP_BYTES_MAX,
    fragments: bool = False,
) -> ParsedPage:
    """Parse the response for the canonical `url`. Never raises.

    A body without a declared type is parsed if it starts like HTML. `tokens` are the product tokens
    of this crawler. `fragments` requests the fragments of links and the names they can point to.
    """
    content_type = headers.get("Content-Type")
    declared = None if content_type is None else media_type(content_type)
    document: Document | None = None
    charset = UTF8
    if body and _is_html(declared, body):
        html, charset = to_utf8(body[:markup_bytes_max], content_type)
        if declared == XHTML:
            html = markup.expand_empty_elements(html)
        document = Document(html)
    reader = _Reader(url, _header_links(url, headers, charset))
    if document is not None:
        if not reader.read_natively(document.html, tuple(tokens)):
            rows = scan.rows(document.html.decode(errors="replace"))
            words = relevant_words(tuple(tokens))
            if rows is None or not reader.read_rows(rows, document.html, words):
                reader = _Reader(url, _header_links(url, headers, charset))
                reader.read_document(document)
        if len(body) > markup_bytes_max:
            reader.links.skip(Skip.MAX_MARKUP)
    robots_tags = headers.getall("X-Robots-Tag", ())
    directives = from_header(robots_tags, tokens) if robots_tags else UNRESTRICTED
    if reader.metas:
        directives = directives.merge(from_meta(reader.metas, tokens))
    if is_too_long(robots_tags, reader.metas, tokens):
        reader.links.skip(Skip.LONG_HEADER)
    found = fragments_of.NONE
    if fragments:
        whole = len(body) <= markup_bytes_max
        found = fragments_of.fragments(reader.links.resolved, document, whole=whole)
        if not found.all_read:
            reader.links.skip(Skip.MANY_FRAGMENTS)
    return ParsedPage(
        title=reader.title,
        page_links=reader.links,
        directives=directives,
        canonical_url=reader.links.canonical_url,
        charset=charset,
        skipped=reader.links.skipped,
        metas=reader.metas,
        fragments=found,
    )


def _is_html(declared: str | None, body: bytes) -> bool:
    if declared is not None:
        return declared in HTML_TYPES
    head = body[:1024].removeprefix(b"\xef\xbb\xbf").lstrip()
    return head.startswith(b"<") and not head.startswith((b"<?xml", b"<rss", b"<feed", b"<urlset"))


def _header_links(url: str, headers: Headers, encoding: str) -> PageLinks:
    links = PageLinks(url, encoding)
    if "Link" in headers or "Refresh" in headers:
        links.read_headers(headers)
    return links


def header_links(url: str, headers: Headers) -> str | None:
    """Return the links to follow in the headers of a page, in a form to be compared; None if it has
    no headers of links."""
    if "Link" not in headers and "Refresh" not in headers:
        return None
    found = _header_links(url, headers, UTF8)
    return " ".join([*(link.url for link in found.found()), found.canonical_url or ""])


def _is_relevant(raw: str, words: Sequence[str]) -> bool:
    """Return whether a meta element may address this crawler, by its attributes as written."""
    if not raw.isascii() or "&" in raw or "*" in raw:
        return True
    return any(map(raw.lower().__contains__, words))


class _Reader:
    """Collects the links, title and meta elements of one page."""

    __slots__ = ("_titles", "links", "metas", "title", "url")

    def __init__(self, url: str, links: PageLinks) -> None:
        self._titles = 0
        self.url = url
        self.links = links
        self.title: str | None = None
        self.metas: list[tuple[str, str]] = []

    def read_rows(self, rows: Sequence[scan.Row], html: bytes, words: Sequence[str]) -> bool:
        """Read the rows that `scan` found in a document. Return False if it needs a tree.

        words: in lower case, of the meta elements that may address this crawler.
        """
        links = self.links
        hrefs: list[str] = []
        contents: list[str | None] = []  # of the anchors of these hrefs; None for other elements
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
                contents.append(holds)
            elif odd:
                attributes = markup.attributes(odd.encode())
                if "href" in attributes:
                    if rel_nofollow(attributes.get("rel")):
                        nofollow.add(len(hrefs))
                    hrefs.append(attributes["href"])
                    contents.append(odd_holds)
            elif name == "meta":
                metas += 1
                if _is_relevant(raw, words):
                    attributes = markup.attributes(raw.encode())
                    if "content" in attributes and (target := self._add_meta(attributes)):
                        hrefs.append(target)
                        contents.append(None)
            elif name == "link":
                if _FOLLOWED.search(raw) is not None:
                    attributes = markup.attributes(raw.encode())
                    rels = followed_rels(attributes.get("rel"))
                    if rels and "href" in attributes:
                        if "nofollow" in rels:
                            nofollow.add(len(hrefs))
                        if "canonical" in rels:
                            canonicals.append(attributes["href"])
                        hrefs.append(attributes["href"])
                        contents.append(None)
            elif title:
                if drawings and html.count(b"<title") > _TITLES_MAX:
                    return False
                if self.title is None:
                    self.title = collapsed(markup.unescaped(title[:-8]), TITLE_CHARS_MAX)
            elif frame:
                if source := markup.attributes(frame.encode()).get("src"):
                    hrefs.append(source)
                    contents.append(None)
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
        links.defer_anchors(
            ScannedAnchors(contents_of(hrefs, contents), html, self._anchors_by_tree(html))
        )
        return True

    def read_natively(self, html: bytes, tokens: tuple[str, ...]) -> bool:
        """Read a document in native code. Return False, having read nothing, if that does not."""
        found = native_page.read(self.links, html, tokens, self._anchors_by_tree(html))
        if found is None:
            return False
        for title in found.titles:
            self.title = self.title or collapsed(markup.unescaped(title), TITLE_CHARS_MAX)
        self.metas = found.metas
        return True

    def _anchors_by_tree(self, html: bytes) -> Callable[[], Mapping[str, str | None]]:
        """Return a function that reads all anchor texts of the document. The links will hold it:
        it must not hold them."""
        url, encoding = self.url, self.links.encoding

        def read() -> Mapping[str, str | None]:
            reader = _Reader(url, PageLinks(url, encoding))
            reader.read_document(Document(html))
            return reader.links.anchors(())

        return read

    def read_document(self, document: Document) -> None:
        """Read a document by its tree, or tag by tag if it has none."""
        if document.tree is None:
            self.links.skip(Skip.TANGLED)
            self.read_tokens(document.html)
        else:
            self.read_tree(document.tree)

    def read_tree(self, parsed: LexborHTMLParser) -> None:
        links = self.links
        base = parsed.css_first("base[href]")
        if base is not None:
            links.set_base(base.attributes.get("href") or "")
        has_code = parsed.css_first("a script,a style") is not None
        read_text = tree.anchor_text_without_code if has_code else tree.anchor_text
        for node in parsed.css(_SELECTOR):
            tag = node.tag
            attributes = node.attributes
            if tag in _LINKING and "href" not in attributes:
                continue  # the selector also matches "xlink:href", in SVG
            if tag == "a":
                rel = attributes.get("rel")
                nofollow = rel is not None and rel_nofollow(rel)
                url = links.add(attributes.get("href"), nofollow=nofollow)
                if url is not None:
                    links.set_anchor(url, read_text(node))
            elif tag == "title":
                if self.title is None:
                    self._titles += 1
                    if self._titles > _TITLES_MAX:
                        links.skip(Skip.MANY_TITLES)
                    elif not tree.is_in_svg(node):
                        self.title = collapsed(node.text(), TITLE_CHARS_MAX)
            else:
                self._add_element(tag, attributes)

    def read_tokens(self, html: bytes) -> None:
        """Read a document tag by tag, without a tree."""
        links = self.links
        if (base := markup.base_href(html)) is not None:  # also applies to links before it
            links.set_base(base)
        open_url: str | None = None  # of the open anchor, if it needs a text
        text, alt = "", ""
        last = markup.Tag(b"", b"", 0, 0)  # the previous tag
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
            elif name not in _REQUIRED or _REQUIRED[name] in attributes:
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
        """Record a meta element. Return the target if it is a refresh."""
        name, http_equiv = attributes.get("name"), attributes.get("http-equiv")
        if http_equiv is not None and http_equiv.strip().lower() == "refresh":
            return refresh_href(attributes.get("content") or "")
        if name:
            if len(self.metas) < _METAS_MAX:
                self.metas.append((name, attributes.get("content") or ""))
            else:
                self.links.skip(Skip.MANY_METAS)
        return None
