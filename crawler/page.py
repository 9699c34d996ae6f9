"""A page as the crawl sees it: links, title, directives. Hostile input yields less, never an error.

Links come from `a`, `area`, `iframe`, `frame`, `link` (canonical, next, prev, alternate), meta
refresh, and the `Link` and `Refresh` headers. Nothing is taken from comments, scripts or templates.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from crawler import markup
from crawler.charset import to_utf8
from crawler.nesting import is_tangled
from crawler.request import Headers
from policies.indexing import UNRESTRICTED, Directives, from_header, from_meta, rel_nofollow
from policies.scope import Skip
from policies.url import canonical

# As many different links of one page as a sitemap may hold (sitemaps.org); more is a trap.
LINKS_MAX: Final = 50_000
# No server takes a URL of this length, and the parser need not either.
HREF_CHARS_MAX: Final = 16_384
# What the store's contract promises for an anchor, and what a listing can show of a title.
ANCHOR_CHARS_MAX: Final = 200
TITLE_CHARS_MAX: Final = 500
# White space is collapsed in so much of a text only: enough to fill any of the two.
_TEXT_CHARS_READ: Final = 4_000
# A title inside an SVG names a drawing; so many are looked behind for the page's own.
_TITLES_MAX: Final = 100
# Markup beyond this is not read for links: parsing so much takes about 50 ms of everyone's time.
MARKUP_BYTES_MAX: Final = 5_000_000
# Meta elements looked at for directives; more than one or two is a mistake or an attack.
_METAS_MAX: Final = 100
# Of a Link or Refresh header; proxies and servers refuse longer ones.
_HEADER_CHARS_MAX: Final = 65_536

_FOLLOWED_RELS: Final = frozenset({"canonical", "next", "prev", "previous", "alternate"})
_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_XHTML: Final = "application/xhtml+xml"
_UNSEEN: Final = ""  # no canonical URL is empty
# Schemes so common in pages that they are told apart before a URL is parsed.
_OTHER_SCHEMES: Final = ("javascript:", "mailto:", "tel:", "data:", "Javascript:", "JavaScript:")
_SELECTOR: Final = "a[href],area[href],link[href],iframe[src],frame[src],meta[content],title"
_EMPTY_XML_ELEMENT: Final = re.compile(
    rb"<(script|style|title|textarea|iframe)((?:[\t\n\f\r ][^<>]*)?)/>", re.IGNORECASE
)


class PageLink(NamedTuple):
    """One URL that a page links. (A tuple because a page has a hundred of them.)"""

    url: str  # canonical
    anchor: str | None  # first text that links it, white space collapsed; `alt` of an image else
    nofollow: bool  # every link to it says nofollow


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What was read; `links` in the order of their first occurrence, headers first."""

    title: str | None = None
    links: tuple[PageLink, ...] = ()
    directives: Directives = UNRESTRICTED  # of headers and meta elements, the strictest
    canonical_url: str | None = None
    charset: str = "utf-8"
    skipped: Mapping[str, int] = field(default_factory=dict)  # links left out here, by reason


def wants_body(content_type: str | None) -> bool:
    """Whether a body of this declared type may have links: HTML and XHTML. Also one of no type at
    all, which `read` looks at more closely."""
    return content_type is None or _media_type(content_type) in _HTML_TYPES


def read(url: str, headers: Headers, body: bytes, *, tokens: Sequence[str]) -> Page:
    """Read the answer for the canonical `url`; `tokens` are our product tokens. Never raises.

    The body is read only if it is HTML or XHTML by its type, or has none and begins like markup.
    """
    directives = UNRESTRICTED
    if "X-Robots-Tag" in headers:
        directives = from_header(headers.getall("X-Robots-Tag"), tokens)
    reader = _Reader(url)
    if "Link" in headers or "Refresh" in headers:
        reader.read_headers(headers)
    content_type = headers.get("Content-Type")
    if body and _is_html(content_type, body):
        html, charset = to_utf8(body[:MARKUP_BYTES_MAX], content_type)
        if content_type is not None and _media_type(content_type) == _XHTML:
            html = _EMPTY_XML_ELEMENT.sub(rb"<\1\2></\1>", html)
        if is_tangled(html):
            reader.read_tokens(html)
        else:
            reader.read_tree(html)
        if reader.metas:
            directives = directives.merge(from_meta(reader.metas, tokens))
    else:
        charset = "utf-8"
    return Page(
        title=reader.title,
        links=reader.links(),
        directives=directives,
        canonical_url=reader.canonical_url,
        charset=charset,
        skipped=reader.skipped,
    )


def links_from_headers(url: str, headers: Headers) -> tuple[PageLink, ...]:
    """The links of an answer's `Link` and `Refresh` headers alone, of whatever type it is."""
    reader = _Reader(url)
    reader.read_headers(headers)
    return reader.links()


# ---------------------------------------------------------------- reading


class _Reader:
    """Gathers what a page says; each different href is resolved once."""

    __slots__ = (
        "_anchors",
        "_base",
        "_follow",
        "_titles",
        "_urls",
        "canonical_url",
        "metas",
        "skipped",
        "title",
    )

    def __init__(self, url: str) -> None:
        self._base = url
        self._urls: dict[str, str | None] = {}  # href as written -> canonical
        self._anchors: dict[str, str | None] = {}  # canonical -> first text; in order of occurrence
        self._follow: set[str] = set()  # linked at least once without nofollow
        self._titles = 0
        self.title: str | None = None
        self.canonical_url: str | None = None
        self.metas: list[tuple[str, str]] = []
        self.skipped: Counter[str] = Counter()

    def links(self) -> tuple[PageLink, ...]:
        follow = self._follow
        return tuple(
            [PageLink(url, anchor, url not in follow) for url, anchor in self._anchors.items()]
        )

    def set_base(self, href: str) -> None:
        base = canonical(href, self._base) if len(href) <= HREF_CHARS_MAX else None
        if base is not None:
            self._base = base
            self._urls.clear()

    def add(self, href: str | None, *, nofollow: bool = False) -> str | None:
        """Note a link; give its URL if it could do with an anchor text."""
        if not href:
            href = ""
        url = self._urls.get(href, _UNSEEN)
        if url is _UNSEEN:
            url = self._urls[href] = self._resolve(href)
        if url is None:
            return None
        if not nofollow:
            self._follow.add(url)
        anchors = self._anchors
        if url not in anchors:
            if len(anchors) >= LINKS_MAX:
                self.skipped[Skip.MAX_LINKS] += 1
                self._follow.discard(url)
                return None
            anchors[url] = None
            return url
        return url if anchors[url] is None else None

    def set_anchor(self, url: str, text: str) -> None:
        self._anchors[url] = _collapsed(text, ANCHOR_CHARS_MAX)

    def _resolve(self, href: str) -> str | None:
        if len(self._urls) > 2 * LINKS_MAX:
            self._urls.clear()
        if href[:1] == "#":
            return self._base
        if href.startswith(_OTHER_SCHEMES):
            self.skipped[Skip.SCHEME] += 1
            return None
        if len(href) > HREF_CHARS_MAX:
            self.skipped[Skip.MAX_URL_BYTES] += 1
            return None
        url = canonical(href, self._base)
        if url is None:
            self.skipped[Skip.SCHEME] += 1
        return url

    # ------------------------------------------------------------ elements that are not plain links

    def add_link_element(self, href: str | None, rel: str | None) -> None:
        rels = (rel or "").lower().split()
        if "stylesheet" in rels or _FOLLOWED_RELS.isdisjoint(rels):
            return
        self.add(href, nofollow="nofollow" in rels)
        if self.canonical_url is None and "canonical" in rels:
            self.canonical_url = self._urls.get(href or "")

    def add_meta(self, name: str | None, http_equiv: str | None, content: str) -> None:
        if http_equiv is not None and http_equiv.strip().lower() == "refresh":
            self.add_refresh(content)
        elif name is not None and len(self.metas) < _METAS_MAX:
            self.metas.append((name, content))

    def add_refresh(self, content: str) -> None:
        href = _refresh_href(content)
        if href is not None:
            self.add(href)

    def read_headers(self, headers: Headers) -> None:
        for value in headers.getall("Link", ()):
            for href, rel in _link_header(value[:_HEADER_CHARS_MAX]):
                self.add_link_element(href, rel)
        for value in headers.getall("Refresh", ()):
            self.add_refresh(value[:_HEADER_CHARS_MAX])

    # ------------------------------------------------------------ the two ways to read markup

    def read_tree(self, html: bytes) -> None:
        """By Lexbor: the tree that a browser without scripting builds."""
        tree = LexborHTMLParser(html, options=LexborDocumentOptions.WO_EVENTS)
        base = tree.css_first("base[href]")
        if base is not None:
            self.set_base(base.attributes.get("href") or "")
        for node in tree.css(_SELECTOR):
            tag = node.tag
            attributes = node.attributes
            if tag == "a":
                rel = attributes.get("rel")
                nofollow = rel is not None and rel_nofollow(rel)
                url = self.add(attributes.get("href"), nofollow=nofollow)
                if url is not None:
                    self.set_anchor(url, _node_text(node))
            elif tag == "title":
                if self.title is None and not self._is_drawing(node):
                    self.title = _collapsed(node.text(), TITLE_CHARS_MAX)
            else:
                self._add_element(tag, attributes)

    def read_tokens(self, html: bytes) -> None:
        """Tag by tag, for what is too tangled for a tree."""
        based = False
        open_url: str | None = None  # of the anchor that is open and could do with a text
        text, alt = "", ""
        last, behind = b"", 0  # the tag before, and where it ended
        for name, raw, start, end in markup.tokens(html):
            if open_url is not None and last not in markup.RAW_TEXT:
                if len(text) < _TEXT_CHARS_READ:
                    text += markup.text(html[behind : min(start, behind + _TEXT_CHARS_READ)])
            elif last == b"title" and self.title is None:
                title = markup.text(html[behind : min(start, behind + _TEXT_CHARS_READ)])
                self.title = _collapsed(title, TITLE_CHARS_MAX)
            last, behind = name, end
            if name in _ANCHOR_ENDS:
                if open_url is not None:
                    self.set_anchor(open_url, text if text.strip() else alt)
                open_url, text, alt = None, "", ""
            if name not in _ELEMENTS:
                continue
            attributes = markup.attributes(raw)
            if name == b"a":
                if "href" in attributes:
                    nofollow = rel_nofollow(attributes.get("rel"))
                    open_url = self.add(attributes["href"], nofollow=nofollow)
            elif name == b"img":
                alt = alt or attributes.get("alt", "")
            elif name == b"base":
                if not based and "href" in attributes:
                    based = True
                    self.set_base(attributes["href"])
            else:
                self._add_element(name.decode(), attributes)

    def _add_element(self, tag: str | None, attributes: Mapping[str, str | None]) -> None:
        if tag == "link":
            self.add_link_element(attributes.get("href"), attributes.get("rel"))
        elif tag == "meta":
            content = attributes.get("content") or ""
            self.add_meta(attributes.get("name"), attributes.get("http-equiv"), content)
        elif tag == "area":
            if "href" in attributes:
                nofollow = rel_nofollow(attributes.get("rel"))
                url = self.add(attributes["href"], nofollow=nofollow)
                if url is not None:
                    self.set_anchor(url, attributes.get("alt") or "")
        elif attributes.get("src"):  # iframe, frame
            self.add(attributes["src"])

    def _is_drawing(self, title: LexborNode) -> bool:
        """Whether a title element is an SVG's."""
        self._titles += 1
        if self._titles > _TITLES_MAX:
            return True
        parent = title.parent
        while parent is not None:
            if parent.tag == "svg":
                return True
            parent = parent.parent
        return False


# ---------------------------------------------------------------- small readers

_ANCHOR_ENDS: Final = frozenset({b"a", b"/a", b""})
_ELEMENTS: Final = frozenset(
    {b"a", b"area", b"base", b"frame", b"iframe", b"img", b"link", b"meta"}
)
_LINK_VALUE: Final = re.compile(
    r"""<([^<>]*+)>((?:\s*+;\s*+[^\s=;,<>]++(?:\s*+=\s*+(?:"(?:[^"\\]|\\.)*+"|[^\s",;]++)?+)?+)*+)""",
    re.DOTALL,
)
_LINK_PARAM: Final = re.compile(
    r""";\s*+([^\s=;,<>]++)(?:\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"|([^\s",;]++))?+)?+""", re.DOTALL
)
_REFRESH: Final = re.compile(
    r"\s*+(?:[0-9]|\.)[0-9.]*+(?=[\s;,])\s*+[;,]?+\s*+(?:url\s*+=\s*+)?+(.*)",
    re.IGNORECASE | re.DOTALL,
)


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].partition(",")[0].strip().lower()


def _is_html(content_type: str | None, body: bytes) -> bool:
    if content_type is not None:
        return _media_type(content_type) in _HTML_TYPES
    head = body[:1024].removeprefix(b"\xef\xbb\xbf").lstrip()
    return head.startswith(b"<") and not head.startswith((b"<?xml", b"<rss", b"<feed", b"<urlset"))


def _collapsed(text: str, chars_max: int) -> str | None:
    """White space collapsed, cut; None if nothing is left."""
    if len(text) <= chars_max:
        return " ".join(text.split()) or None
    return " ".join(text[:_TEXT_CHARS_READ].split())[:chars_max].rstrip() or None


def _node_text(node: LexborNode) -> str:
    """The text of an anchor, without scripts; of the first image that has one, its `alt`, else."""
    text = node.text()
    if not text.strip():
        image = node.css_first("img[alt]")
        return "" if image is None else image.attributes.get("alt") or ""
    may_be_code = "{" in text or "(" in text or "=" in text
    if not may_be_code or node.css_first("script,style") is None:
        return text
    return "".join(
        piece.text()
        for piece in node.traverse(include_text=True)
        if piece.is_text_node and (up := piece.parent) and up.tag not in ("script", "style")
    )


def _link_header(value: str) -> Iterator[tuple[str, str]]:
    """(target, rel) of each link of a `Link` header (RFC 8288). Links whose context is another
    resource than the page (`anchor`) are none of its own."""
    for found in _LINK_VALUE.finditer(value):
        params: dict[str, str] = {}
        for name, quoted, bare in _LINK_PARAM.findall(found[2]):
            params.setdefault(name.lower(), quoted or bare)
        if "anchor" not in params:
            yield found[1].strip(), params.get("rel", "")


def _refresh_href(content: str) -> str | None:
    """Where a refresh leads (WHATWG HTML, "shared declarative refresh steps"), if elsewhere."""
    found = _REFRESH.match(content)
    if found is None:
        return None
    href = found[1]
    if href[:1] in ("'", '"'):
        href = href[1:].partition(href[0])[0]
    return href.strip() or None
