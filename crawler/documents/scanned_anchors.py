"""Anchor texts of a page that was read without a tree, read on demand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from crawler.documents import scan
from crawler.documents.links import PageLinks, anchor_text

# The contents of a page's anchors that link to some URLs, with their URLs, in page order. It is
# given the links, because they hold it: if it held them too, it would be a reference cycle.
Contents = Callable[[PageLinks, Collection[str]], Iterable[tuple[str, str]]]


class ScannedAnchors(NamedTuple):
    """The anchors of a page.

    contents: of anchors, as in the rows of `scan`.
    html: of the page.
    by_tree: reads all anchor texts of the page in another way.
    """

    contents: Contents
    html: bytes
    by_tree: Callable[[], Mapping[str, str | None]]

    def read(self, links: PageLinks, urls: Iterable[str]) -> Mapping[str, str | None]:
        """Return the anchor texts of `urls`, or of all links if the page needs a tree."""
        texts: dict[str, str | None] = dict.fromkeys(urls)
        missing = set(texts)
        blocks: bool | None = None  # unknown
        for url, content in self.contents(links, missing) if missing else ():
            if url not in missing:
                continue
            text = scan.anchor_text(content, blocks=blocks is True)
            if text is None and content and blocks is None:
                blocks = scan.paragraphs_are_closed(self.html.decode(errors="replace"))
                text = scan.anchor_text(content, blocks=blocks)
            if text is None:
                return {**texts, **self.by_tree()}
            texts[url] = anchor_text(text)
            if texts[url] is not None:
                missing.discard(url)
                if not missing:
                    break
        return texts


def contents_of(hrefs: Sequence[str], contents: Sequence[str | None]) -> Contents:
    """Return the contents of anchors by URL.

    contents: of the anchor of each href; None for other elements.
    """

    def of(links: PageLinks, _urls: Collection[str]) -> Iterable[tuple[str, str]]:
        for href, content in zip(hrefs, contents, strict=True):
            if content is not None and (url := links.url_of(href)) is not None:
                yield url, content

    return of
