"""Anchor texts of a page that was read without a tree, read on demand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from crawler.documents import markup, scan
from crawler.documents.links import PageLinks, anchor_text

# The contents of a page's anchors that link to some URLs, with their URLs and places, in page
# order. It is given the links, because they hold it: if it held them too, it would be a reference
# cycle.
Contents = Callable[[PageLinks, Collection[str]], Iterable[tuple[str, str, int]]]


class ScannedAnchors(NamedTuple):
    """The anchors of a page.

    contents: of anchors, as in the rows of `scan`, which end in ">"; of areas, their attributes.
    html: of the page.
    by_tree: reads all anchor texts of the page in another way.
    may_contain_blocks: whether no paragraph is open around the anchor whose content has a place.
        None: `scan` decides for all anchors of the page.
    """

    contents: Contents
    html: bytes
    by_tree: Callable[[], Mapping[str, str | None]]
    may_contain_blocks: Callable[[int], bool] | None = None

    def read(self, links: PageLinks, urls: Iterable[str]) -> Mapping[str, str | None]:
        """Return the anchor texts of `urls`, or of all links if the page needs a tree."""
        texts: dict[str, str | None] = dict.fromkeys(urls)
        missing = set(texts)
        may_contain_blocks = self.may_contain_blocks
        for url, content, place in self.contents(links, missing) if missing else ():
            if url not in missing:
                continue
            if content[-1:] not in ("", ">"):
                text: str | None = markup.attributes(content.encode()).get("alt", "")
            else:
                text = scan.anchor_text(content, blocks=False)
            if text is None and content:
                may_contain_blocks = may_contain_blocks or self._where_all_are_alike()
                if may_contain_blocks(place):
                    text = scan.anchor_text(content, blocks=True)
            if text is None:
                return {**texts, **self.by_tree()}
            texts[url] = anchor_text(text)
            if texts[url] is not None:
                missing.discard(url)
                if not missing:
                    break
        return texts

    def _where_all_are_alike(self) -> Callable[[int], bool]:
        are_closed = scan.paragraphs_are_closed(self.html.decode(errors="replace"))
        return lambda _: are_closed


def contents_of(hrefs: Sequence[str], contents: Sequence[str | None]) -> Contents:
    """Return the contents of anchors by URL, without their places.

    contents: of the anchor of each href; None for other elements.
    """

    def of(links: PageLinks, _urls: Collection[str]) -> Iterable[tuple[str, str, int]]:
        for href, content in zip(hrefs, contents, strict=True):
            if content is not None and (url := links.url_of(href)) is not None:
                yield url, content, 0

    return of
