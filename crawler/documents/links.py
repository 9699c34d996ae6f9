"""Links of a page: resolved, deduplicated and bounded. Also links from headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from crawler.documents.decoders import UTF8
from crawler.documents.query import are_sent_as_written, with_encoded_query
from crawler.fetching.request import Headers
from policies.schemes import is_mistyped
from policies.scope import Skip
from policies.url import canonical, canonical_all, without_userinfo
from storage.store import Malformed

# Different links of one page: as many as a sitemap may list (sitemaps.org). More indicate a trap.
LINKS_MAX: Final = 50_000
# No server accepts a URL of this length.
HREF_CHARS_MAX: Final = 16_384
# The store's limit for anchor texts.
ANCHOR_CHARS_MAX: Final = 200
# Malformed hrefs kept of a page, and characters kept of each. All of them are counted.
MALFORMED_MAX: Final = 100
MALFORMED_CHARS_MAX: Final = 500
# Characters of a text read for an anchor or a title.
TEXT_CHARS_READ: Final = 4_000
# Characters read of all Link and Refresh headers of a page: a few hundred links, which are read on
# the event loop. Proxies and servers reject longer headers.
_HEADER_CHARS_MAX: Final = 16_384

_FOLLOWED_RELS: Final = frozenset({"canonical", "next", "prev", "previous", "alternate"})
_UNSEEN: Final = ""  # no canonical URL is empty

# A scheme other than HTTP and HTTPS. URL parsers skip leading control characters and spaces, and
# ignore tabs and newlines anywhere (WHATWG URL, "basic URL parser").
_HTTP: Final = r"[\t\n\r]*+".join("http") + r"(?:[\t\n\r]*+s)?+[\t\n\r]*+:"
_USUAL_SCHEMES: Final = ("mailto:", "javascript:", "tel:")  # recognised without a pattern
_SCHEME: Final = re.compile(rf"[\x00-\x20]*+(?!{_HTTP})[a-z][a-z0-9+.\t\n\r-]*+:", re.IGNORECASE)
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


class PageLink(NamedTuple):
    """A link of a page.

    url: canonical.
    anchor: the first text that links to the URL, or `alt` of an image, white space collapsed.
    nofollow: whether all links to the URL say nofollow.
    """

    url: str
    anchor: str | None
    nofollow: bool


class AnchorSource(Protocol):
    """Reads anchor texts on demand. The crawler knows most links already and ignores theirs."""

    def read(self, links: PageLinks, urls: Iterable[str]) -> Mapping[str, str | None]:
        """Return the anchor texts of at least these URLs, which are in `links`."""
        ...


class LinkMemory(Protocol):
    """A memory of links met before."""

    @property
    def native(self) -> bool:
        """Whether pages that are read natively look their links up themselves."""
        ...

    def fresh(self, urls: Sequence[str], depth: int) -> Sequence[str]:
        """Return those of a page's links that are new, which they are no longer then."""
        ...


class ResolvedPage(Protocol):
    """The links of a page that was read natively, each URL once."""

    @property
    def number_of_urls(self) -> int: ...
    @property
    def number_of_nofollow(self) -> int: ...
    @property
    def number_of_usual_schemes(self) -> int: ...
    @property
    def without_url(self) -> Sequence[str]: ...
    @property
    def urls(self) -> Sequence[str]: ...
    @property
    def nofollow(self) -> Sequence[str]: ...
    @property
    def canonical_url(self) -> str | None: ...
    def url_of_href(self) -> dict[str, str | None]: ...
    def fresh(self, seen: Any, depth: int) -> Sequence[str]: ...


class PageLinks:
    """Collects the links of a page. Each distinct href is resolved once, each URL is kept once.

    url: of the page, canonical.
    encoding: of the page, which its queries are written in, by its name in `encoding_index.NAMES`.

    Hrefs are strings as decoded from markup. None stands for an empty one.
    """

    __slots__ = (
        "_anchor_source", "_nofollow", "_resolved_page", "_texts", "_unlisted", "_urls", "base",
        "canonical_url", "encoding", "malformed", "skipped",
    )  # fmt: skip

    def __init__(self, url: str, encoding: str = UTF8) -> None:
        self.base = url  # what hrefs are relative to, canonical
        self.encoding = encoding
        self._urls: dict[str, str | None] = {}  # canonical URLs by href
        self._resolved_page: ResolvedPage | None = None  # has `_urls`, if they were not read
        self._unlisted: ResolvedPage | None = None  # has all links, if none was read
        self._texts: dict[str, str | None] = {}  # first texts by canonical URL, in page order
        self._nofollow: set[str] = set()  # URLs of which all links so far say nofollow
        self._anchor_source: AnchorSource | None = None
        self.canonical_url: str | None = None  # the first rel=canonical
        self.skipped: dict[str, int] = {}  # numbers of omitted links by reason
        self.malformed: list[Malformed] = []

    @property
    def _anchors(self) -> dict[str, str | None]:
        """`_texts`, with all links."""
        if self._unlisted is not None:
            self._texts = dict.fromkeys(self._unlisted.urls)
            self._nofollow.update(self._unlisted.nofollow)
            self._unlisted = None
        return self._texts

    def __len__(self) -> int:
        return len(self._texts) if self._unlisted is None else self._unlisted.number_of_urls

    @property
    def number_of_nofollow(self) -> int:
        """The number of URLs to which all links say nofollow."""
        return len(self._nofollow) if self._unlisted is None else self._unlisted.number_of_nofollow

    def found(self) -> tuple[PageLink, ...]:
        """Return all links in the order of their first occurrence."""
        anchors = self.anchors(self._anchors)
        nofollow = self._nofollow
        return tuple([PageLink(url, anchors[url], url in nofollow) for url in self._anchors])

    def followed(self) -> list[str]:
        """Return the URLs with at least one link without nofollow, in page order."""
        urls, nofollow = self._anchors, self._nofollow
        if not nofollow:
            return list(urls)
        return [url for url in urls if url not in nofollow]

    def fresh(self, seen: LinkMemory, depth: int) -> Sequence[str]:
        """Return the URLs of `followed` that are new to a memory, which they are no longer then."""
        if self._unlisted is not None and seen.native:
            return self._unlisted.fresh(seen, depth)
        return seen.fresh(self.followed(), depth)

    def anchors(self, urls: Iterable[str]) -> Mapping[str, str | None]:
        """Return the anchor texts of at least these URLs, which are among the links."""
        return (
            self._anchors if self._anchor_source is None else self._anchor_source.read(self, urls)
        )

    def read_anchors(self) -> None:
        """Read all anchor texts now."""
        texts = self.anchors(self._anchors)
        self._texts = {url: texts[url] for url in self._anchors}
        self._anchor_source = None

    def defer_anchors(self, source: AnchorSource) -> None:
        """Read anchor texts from `source` when they are requested."""
        self._anchor_source = source

    def set_base(self, href: str) -> None:
        base = self._canonical(href) if len(href) <= HREF_CHARS_MAX else None
        if base is not None:
            self.base = base
            self._urls.clear()

    def add(self, href: str | None, *, nofollow: bool = False) -> str | None:
        """Add a link. Return its URL if that has no anchor text yet."""
        if not href:
            href = ""
        url = self._urls.get(href, _UNSEEN)
        if url is _UNSEEN:
            url = self._urls[href] = self._resolve(href)
        if url is None:
            return None
        anchors = self._anchors
        if url not in anchors:
            if len(anchors) >= LINKS_MAX:
                self.skip(Skip.MAX_LINKS)
                return None
            anchors[url] = None
            if nofollow:
                self._nofollow.add(url)
            return url
        if not nofollow:
            self._nofollow.discard(url)
        return url if anchors[url] is None else None

    def add_all(self, hrefs: Sequence[str], nofollow: set[int]) -> None:
        """Add all links of a page in their order, faster than one by one.

        nofollow: the indexes of the hrefs that say nofollow.
        """
        urls = self._urls
        new = [href for href in dict.fromkeys(hrefs) if href not in urls]
        usual = len(self._anchors) + len(new) <= LINKS_MAX
        if usual and new and max(map(len, new)) <= HREF_CHARS_MAX:
            meant = new
            if self.encoding != UTF8 and not are_sent_as_written(new, self.encoding):
                meant = [with_encoded_query(href, self.encoding) for href in new]
            found = canonical_all(meant, self.base)
            urls.update(zip(new, found, strict=True))
            if None in found:
                for href in new:
                    if urls[href] is None:
                        self._count(href)
            if not nofollow and not self._anchors:
                self._texts = dict.fromkeys([url for url in found if url is not None])
                return
        for place, href in enumerate(hrefs):
            self.add(href, nofollow=place in nofollow)

    def add_resolved(self, page: ResolvedPage) -> None:
        """Add all links of a page, which had none."""
        self._unlisted = self._resolved_page = page
        self.canonical_url = self.canonical_url or page.canonical_url
        for href in page.without_url:
            self._count(href)
        if foreign := page.number_of_usual_schemes:
            self.skip(Skip.SCHEME, foreign)

    @property
    def is_empty(self) -> bool:
        """Whether no link was added, not even one without a URL."""
        return not self._anchors and not self._urls

    @property
    def resolved(self) -> Mapping[str, str | None]:
        """The canonical URLs by href, without hrefs before a base element."""
        if self._resolved_page is not None:
            self._urls = self._resolved_page.url_of_href()
            self._resolved_page = None
        return self._urls

    def url_of(self, href: str) -> str | None:
        """Return the canonical URL of an href that was added, if it has one."""
        return self.resolved.get(href)

    def set_anchor(self, url: str, text: str) -> None:
        self._anchors[url] = anchor_text(text)

    def _resolve(self, href: str) -> str | None:
        if href[:1] == "#":
            return self.base
        if len(href) > HREF_CHARS_MAX:
            self.note_malformed(href, Skip.MAX_URL_BYTES)
            self.skip(Skip.MAX_URL_BYTES)
            return None
        url = self._canonical(href)
        if url is None:
            self._count(href)
        return url

    def _canonical(self, href: str) -> str | None:
        return canonical(with_encoded_query(href, self.encoding), self.base)

    def _count(self, href: str) -> None:
        """Count an href that is no HTTP or HTTPS URL."""
        if href.startswith(_USUAL_SCHEMES):
            self.skip(Skip.SCHEME)
            return
        reason = Skip.UNPARSABLE if _SCHEME.match(href) is None else Skip.SCHEME
        if reason is Skip.UNPARSABLE or is_mistyped(href):
            self.note_malformed(href, reason)
        self.skip(reason)

    def note_malformed(self, href: str, reason: str) -> None:
        if len(self.malformed) < MALFORMED_MAX:
            shown = without_userinfo(href[: 2 * MALFORMED_CHARS_MAX].strip())
            shown = shown.encode("utf-8", "replace").decode()  # headers may have lone surrogates
            self.malformed.append(Malformed(cut(shown, MALFORMED_CHARS_MAX), reason))

    def skip(self, reason: str, count: int = 1) -> None:
        """Count omitted items."""
        self.skipped[reason] = self.skipped.get(reason, 0) + count

    def add_link_element(self, href: str | None, rel: str | None) -> None:
        rels = followed_rels(rel)
        if not rels:
            return
        self.add(href, nofollow="nofollow" in rels)
        if self.canonical_url is None and "canonical" in rels:
            self.canonical_url = self._urls.get(href or "")

    def add_refresh(self, content: str) -> None:
        href = refresh_href(content)
        if href is not None:
            self.add(href)

    def read_headers(self, headers: Headers) -> None:
        """Add the links of headers. As in browsers, their queries are UTF-8 on every page."""
        encoding, self.encoding = self.encoding, UTF8
        left = _HEADER_CHARS_MAX
        for value in headers.getall("Link", ()):
            for href, rel in _link_header(self._bounded(value, left)):
                self.add_link_element(href, rel)
            left = max(0, left - len(value))
        for value in headers.getall("Refresh", ()):
            self.add_refresh(self._bounded(value, left))
            left = max(0, left - len(value))
        self.encoding = encoding
        if encoding != UTF8:
            self._urls.clear()

    def _bounded(self, value: str, chars_max: int) -> str:
        """Cut a header value to what may still be read."""
        if len(value) > chars_max:
            self.skip(Skip.LONG_HEADER)
        return value[:chars_max]


def collapsed(text: str, chars_max: int) -> str | None:
    """Collapse white space and cut the text, marked by "…". Return None if nothing is left."""
    if len(text) <= chars_max:
        return " ".join(text.split()) or None
    read = " ".join(text[:TEXT_CHARS_READ].split())
    if read and text[TEXT_CHARS_READ:].strip():
        read += "…"
    return cut(read, chars_max) or None


def cut(text: str, chars_max: int) -> str:
    """Replace the end of a longer text by "…"."""
    return text if len(text) <= chars_max else text[: chars_max - 1].rstrip() + "…"


def anchor_text(text: str) -> str | None:
    """Return an anchor text as it is stored: collapsed, and without user info in a URL."""
    return collapsed(without_userinfo(text), ANCHOR_CHARS_MAX)


def followed_rels(rel: str | None) -> list[str]:
    """Return the keywords of a `link` element if its target is a page to follow, else none."""
    rels = (rel or "").lower().split()
    return [] if "stylesheet" in rels or _FOLLOWED_RELS.isdisjoint(rels) else rels


def _link_header(value: str) -> Iterator[tuple[str, str]]:
    """Yield target and rel of each link of a `Link` header (RFC 8288).

    Links with an `anchor` parameter are omitted. They belong to another resource.
    """
    for found in _LINK_VALUE.finditer(value):
        params: dict[str, str] = {}
        for name, quoted, bare in _LINK_PARAM.findall(found[2]):
            params.setdefault(name.lower(), quoted or bare)
        if "anchor" not in params:
            yield found[1].strip(), params.get("rel", "")


def refresh_href(content: str) -> str | None:
    """Return the target of a refresh, if it has one.

    Source: WHATWG HTML, "shared declarative refresh steps".
    """
    found = _REFRESH.match(content)
    if found is None:
        return None
    href = found[1]
    if href[:1] in ("'", '"'):
        href = href[1:].partition(href[0])[0]
    return href.strip() or None
