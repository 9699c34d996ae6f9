"""Both readers of pages on the same page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from crawler.documents import native_page, page, page_reader
from crawler.fetching.request import Headers
from crawler.processing.seen_links import SeenLinks, seen_links


def is_installed() -> bool:
    return page_reader.native_problem() is None


@contextmanager
def pure() -> Iterator[None]:
    """Read with the reader in Python."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_page, "reader_for", lambda _tokens: None)
        yield


@contextmanager
def native() -> Iterator[None]:
    """Read with the native reader."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_reader, "name", lambda: page_reader.NATIVE)
        native_page.reader_for.cache_clear()
        yield
    native_page.reader_for.cache_clear()


def everything(read: page.ParsedPage, seen: SeenLinks) -> dict[str, Any]:
    """All that a reader says of a page, by name."""
    links = read.page_links
    unlisted = len(links), links.number_of_nofollow
    known = list(links.fresh(seen, 1))[::2]
    seen.clear()
    again = [seen.new(url, 1) for url in known], list(links.fresh(seen, 1))
    followed = links.followed()
    return {
        "numbers": unlisted,
        "numbers, listed": (len(links), links.number_of_nofollow),
        "known": known,
        "fresh": again,
        "deeper": list(links.fresh(seen, 2)),
        "title": read.title,
        "urls": followed,
        "number": len(links),
        "some anchors": links.anchors(followed[-1:]).get(followed[-1]) if followed else None,
        "links": read.links,
        "directives": read.directives,
        "canonical": read.canonical_url,
        "charset": read.charset,
        "skipped": dict(read.skipped),
        "metas": list(read.metas),
        "malformed": list(links.malformed),
        "hrefs": list(links.resolved.items()),
        "fragments": read.fragments,
        "base": links.base,
    }


def read_by_both(
    url: str, headers: Headers, body: bytes, tokens: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the readers say of a page: that in Python first."""
    with pure():
        read = page.parse_page(url, headers, body, tokens=tokens, fragments=True)
        expected = everything(read, seen_links())
    with native():
        read = page.parse_page(url, headers, body, tokens=tokens, fragments=True)
        return expected, everything(read, seen_links())
