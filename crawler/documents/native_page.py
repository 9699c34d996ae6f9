"""Links of a page as the native reader finds them, in the form of `PageLinks`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from html.entities import html5
from typing import TYPE_CHECKING, Final

from crawler.documents import links as links_of
from crawler.documents import page_reader
from crawler.documents.charset import is_utf8
from crawler.documents.links import PageLinks
from crawler.documents.nesting import is_tangled
from crawler.documents.query import with_encoded_query
from crawler.documents.scanned_anchors import Contents, ScannedAnchors, contents_of
from policies.declarations import NAMES
from policies.url import canonical_all, parts_of

if TYPE_CHECKING:
    from courtly_native import Page, Reader

# The encoding in which a query of ASCII characters may not be sent as written.
_SHIFTED: Final = "iso-2022-jp"


@lru_cache(maxsize=256)
def relevant_words(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words in the attributes of meta elements that may address this crawler, in lower
    case."""
    return "refresh", "robots", *NAMES, *map(str.lower, tokens)


@lru_cache(maxsize=256)
def reader_for(tokens: tuple[str, ...]) -> Reader | None:
    """Return the native reader for these product tokens, if it is used."""
    if page_reader.name() != page_reader.NATIVE or not all(map(str.isascii, tokens)):
        return None
    from courtly_native import Reader

    return Reader(relevant_words(tokens), html5)


def read(
    links: PageLinks,
    html: bytes,
    tokens: tuple[str, ...],
    by_tree: Callable[[], Mapping[str, str | None]],
) -> Page | None:
    """Add the links of a page. Return None, and add none, if another reader has to read it.

    links: of the headers of the page.
    by_tree: reads all anchor texts of the page in another way.
    """
    native = reader_for(tokens)
    if native is None:
        return None
    where = *parts_of(links.base), links.base
    page = native.read(html, *where)
    if page is None and not is_utf8(html):
        page = native.read(html.decode(errors="replace").encode(), *where)
    if page is None or (page.may_be_tangled and is_tangled(html)):
        page_reader.pages_read.declined += 1
        return None
    page_reader.pages_read.native += 1
    if page.base is not None:
        links.set_base(page.base)
        page.resolve(*parts_of(links.base), links.base)
    if links.is_empty and links.encoding != _SHIFTED and _is_usual(page):
        _add_resolved(links, page)
        anchors = ScannedAnchors(page_contents(page), html, by_tree, page.may_contain_blocks)
    else:
        anchors = ScannedAnchors(_add_hrefs(links, page), html, by_tree)
    links.defer_anchors(anchors)
    return page


def _is_usual(page: Page) -> bool:
    """Return whether no link is too long, and there are not too many."""
    return (
        page.number_of_hrefs <= links_of.LINKS_MAX and page.longest_href <= links_of.HREF_CHARS_MAX
    )


def _add_resolved(links: PageLinks, page: Page) -> None:
    left = page.left
    if left:
        meant = [with_encoded_query(href, links.encoding) for href in left]
        page.settle(canonical_all(meant, links.base))
    links.add_resolved(page)


def page_contents(page: Page) -> Contents:
    """Return a function that returns the contents of anchors by URL."""
    return lambda _, urls: page.contents_of(list(urls))


def _add_hrefs(links: PageLinks, page: Page) -> Contents:
    """Add links without resolving them in native code."""
    found = page.links()
    hrefs = [href for href, _, _, _ in found]
    links.add_all(hrefs, {place for place, (_, _, nofollow, _) in enumerate(found) if nofollow})
    for href, _, _, is_canonical in found:
        if is_canonical:
            links.canonical_url = links.canonical_url or links.url_of(href)
    return contents_of(hrefs, [content for _, content, _, _ in found])
