"""Both readers of pages on the same page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from crawler.documents import native_page, page, page_reader
from crawler.fetching.request import Headers


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


def everything(read: page.ParsedPage) -> dict[str, Any]:
    """All that a reader says of a page, by name."""
    links = read.page_links
    followed = links.followed()
    return {
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
        expected = page.parse_page(url, headers, body, tokens=tokens, fragments=True)
    with native():
        found = page.parse_page(url, headers, body, tokens=tokens, fragments=True)
    return everything(expected), everything(found)
