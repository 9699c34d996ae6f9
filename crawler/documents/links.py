"""The links of a page as they are gathered: resolved, once each, bounded; also from headers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from crawler.documents.encoding import UTF8
from crawler.documents.query import are_sent_as_written, with_encoded_query
from crawler.fetching.request import Headers
from policies.schemes import is_mistyped
from policies.scope import Skip
from policies.url import canonical, canonical_all, without_userinfo
from storage.base import Malformed

# As many different links of one page as a sitemap may hold (sitemaps.org); more is a trap.
LINKS_MAX: Final = 50_000
# No server takes a URL of this length, and the parser need not either.
HREF_CHARS_MAX: Final = 16_384
# What the store's contract promises for an anchor.
ANCHOR_CHARS_MAX: Final = 200
# Malformed hrefs kept of a page, and of each; all are counted.
MALFORMED_MAX: Final = 100
MALFORMED_CHARS_MAX: Final = 500
# White space is collapsed in so much of a text only: enough to fill an anchor or a title.
TEXT_CHARS_READ: Final = 4_000
# Of a Link or Refresh header; proxies and servers refuse longer ones.
_HEADER_CHARS_MAX: Final = 65_536

_FOLLOWED_RELS: Final = frozenset({"canonical", "next", "prev", "previous", "alternate"})
_UNSEEN: Final = ""  # no canonical URL is empty

# A scheme that is not ours, behind what a URL parser passes over (WHATWG URL, "basic URL parser");
# it drops tabs and line ends wherever they stand.
_OURS: Final = r"[\t\n\r]*+".join("http") + r"(?:[\t\n\r]*+s)?+[\t\n\r]*+:"
_SCHEME: Final = re.compile(rf"[\x00-\x20]*+(?!{_OURS})[a-z][a-z0-9+.\t\n\r-]*+:", re.IGNORECASE)
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
    """One URL that a page links. (A tuple because a page has a hundred of them.)"""

    url: str  # canonical
    anchor: str | None  # first text that links it, white space collapsed; `alt` of an image else
    nofollow: bool  # every link to it says nofollow


class PageLinks:
    """Gathers links; each different href is resolved once, each URL kept once.

    `url` is the page's, canonical; `encoding` is that of its text, which queries are written in (a
    name as `crawler.documents.encoding` gives it). Hrefs are `str` as decoded from markup, None
    meaning empty. Anchor texts may be left unread until they are asked for: most links of a page
    are known, and nobody looks at theirs.
    """

    __slots__ = (
        "_anchors", "_base", "_read", "_shy", "_urls", "canonical_url", "encoding", "malformed",
        "skipped",
    )  # fmt: skip

    def __init__(self, url: str, encoding: str = UTF8) -> None:
        self._base = url
        self.encoding = encoding
        self._urls: dict[str, str | None] = {}  # href as written -> canonical
        self._anchors: dict[str, str | None] = {}  # canonical -> first text; in order of occurrence
        self._shy: set[str] = set()  # all links to it so far say nofollow
        self._read: Callable[[PageLinks, Iterable[str]], Mapping[str, str | None]] | None = None
        self.canonical_url: str | None = None  # the first rel=canonical
        self.skipped: dict[str, int] = {}  # left out, by reason
        self.malformed: list[Malformed] = []

    def __len__(self) -> int:
        return len(self._anchors)

    def found(self) -> tuple[PageLink, ...]:
        """All, in the order of their first occurrence."""
        shy = self._shy
        anchors = self.anchors(self._anchors)
        return tuple([PageLink(url, anchors[url], url in shy) for url in self._anchors])

    def followed(self) -> list[str]:
        """The URLs with a link that does not say nofollow, in the order of their occurrence."""
        shy = self._shy
        if not shy:
            return list(self._anchors)
        return [url for url in self._anchors if url not in shy]

    def anchors(self, urls: Iterable[str]) -> Mapping[str, str | None]:
        """What links these URLs, which are among those found: a mapping that has them all."""
        return self._anchors if self._read is None else self._read(self, urls)

    def read_anchors(self) -> None:
        """Read all anchor texts now."""
        texts = self.anchors(self._anchors)
        self._anchors = {url: texts[url] for url in self._anchors}
        self._read = None

    def read_anchors_by(
        self, read: Callable[[PageLinks, Iterable[str]], Mapping[str, str | None]]
    ) -> None:
        """Have anchor texts read when they are asked for."""
        self._read = read

    def set_base(self, href: str) -> None:
        base = self._canonical(href) if len(href) <= HREF_CHARS_MAX else None
        if base is not None:
            self._base = base
            self._urls.clear()

    def add(self, href: str | None, *, nofollow: bool = False) -> str | None:
        """Note a link; give its URL if that has no anchor text yet."""
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
                self._shy.add(url)
            return url
        if not nofollow:
            self._shy.discard(url)
        return url if anchors[url] is None else None

    def add_all(self, hrefs: Sequence[str], nofollow: set[int]) -> None:
        """`add` for all links of a page in their order, those at the places `nofollow` with it.

        40 µs for 52 links of which 46 differ, where `add` for each takes 100.
        """
        urls = self._urls
        new = [href for href in dict.fromkeys(hrefs) if href not in urls]
        usual = len(self._anchors) + len(new) <= LINKS_MAX
        if usual and new and max(map(len, new)) <= HREF_CHARS_MAX:
            meant = new
            if self.encoding != UTF8 and not are_sent_as_written(new, self.encoding):
                meant = [with_encoded_query(href, self.encoding) for href in new]
            found = canonical_all(meant, self._base)
            urls.update(zip(new, found, strict=True))
            if None in found:
                for href in new:
                    if urls[href] is None:
                        self._count(href)
            if not nofollow and not self._anchors:
                self._anchors = dict.fromkeys([url for url in found if url is not None])
                return
        for place, href in enumerate(hrefs):
            self.add(href, nofollow=place in nofollow)

    @property
    def resolved(self) -> Mapping[str, str | None]:
        """Hrefs as written, with their canonical URLs. Without those that a base came after."""
        return self._urls

    def url_of(self, href: str) -> str | None:
        """The URL of an href that was added, if it has one."""
        return self._urls.get(href)

    def set_anchor(self, url: str, text: str) -> None:
        self._anchors[url] = anchor_text(text)

    def _resolve(self, href: str) -> str | None:
        if href[:1] == "#":
            return self._base
        if len(href) > HREF_CHARS_MAX:
            self.note_malformed(href, Skip.MAX_URL_BYTES)
            self.skip(Skip.MAX_URL_BYTES)
            return None
        url = self._canonical(href)
        if url is None:
            self._count(href)
        return url

    def _canonical(self, href: str) -> str | None:
        return canonical(with_encoded_query(href, self.encoding), self._base)

    def _count(self, href: str) -> None:
        """One that is no URL of ours."""
        reason = Skip.UNPARSABLE if _SCHEME.match(href) is None else Skip.SCHEME
        if reason is Skip.UNPARSABLE or is_mistyped(href):
            self.note_malformed(href, reason)
        self.skip(reason)

    def note_malformed(self, href: str, reason: str) -> None:
        if len(self.malformed) < MALFORMED_MAX:
            shown = without_userinfo(href[: 2 * MALFORMED_CHARS_MAX].strip())
            shown = shown.encode("utf-8", "replace").decode()  # of a header: lone surrogates
            self.malformed.append(Malformed(cut(shown, MALFORMED_CHARS_MAX), reason))

    def skip(self, reason: str) -> None:
        """Count something left out."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

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
        """The links of headers. Browsers take their queries for UTF-8 whatever the page is in."""
        encoding, self.encoding = self.encoding, UTF8
        for value in headers.getall("Link", ()):
            for href, rel in _link_header(self._bounded(value)):
                self.add_link_element(href, rel)
        for value in headers.getall("Refresh", ()):
            self.add_refresh(self._bounded(value))
        self.encoding = encoding
        if encoding != UTF8:
            self._urls.clear()

    def _bounded(self, value: str) -> str:
        """A header's value as far as it is read."""
        if len(value) > _HEADER_CHARS_MAX:
            self.skip(Skip.LONG_HEADER)
        return value[:_HEADER_CHARS_MAX]


def collapsed(text: str, chars_max: int) -> str | None:
    """White space collapsed, cut (then it ends with "…"); None if nothing is left."""
    if len(text) <= chars_max:
        return " ".join(text.split()) or None
    read = " ".join(text[:TEXT_CHARS_READ].split())
    if read and text[TEXT_CHARS_READ:].strip():
        read += "…"
    return cut(read, chars_max) or None


def cut(text: str, chars_max: int) -> str:
    """A text, its end replaced by "…" if it is longer."""
    return text if len(text) <= chars_max else text[: chars_max - 1].rstrip() + "…"


def anchor_text(text: str) -> str | None:
    """As it is kept: of a URL that is an anchor's text no name and password, as of its href."""
    return collapsed(without_userinfo(text), ANCHOR_CHARS_MAX)


def followed_rels(rel: str | None) -> list[str]:
    """The keywords of a `link` whose target is a page to follow; none if it is not."""
    rels = (rel or "").lower().split()
    return [] if "stylesheet" in rels or _FOLLOWED_RELS.isdisjoint(rels) else rels


def _link_header(value: str) -> Iterator[tuple[str, str]]:
    """(target, rel) of each link of a `Link` header (RFC 8288). Links whose context is another
    resource than the page (`anchor`) are none of its own."""
    for found in _LINK_VALUE.finditer(value):
        params: dict[str, str] = {}
        for name, quoted, bare in _LINK_PARAM.findall(found[2]):
            params.setdefault(name.lower(), quoted or bare)
        if "anchor" not in params:
            yield found[1].strip(), params.get("rel", "")


def refresh_href(content: str) -> str | None:
    """Where a refresh leads (WHATWG HTML, "shared declarative refresh steps"), if elsewhere."""
    found = _REFRESH.match(content)
    if found is None:
        return None
    href = found[1]
    if href[:1] in ("'", '"'):
        href = href[1:].partition(href[0])[0]
    return href.strip() or None
