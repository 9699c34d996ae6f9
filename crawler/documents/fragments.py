"""Fragments of links, and the element names that they can point to.

Source: WHATWG HTML, "scrolling to a fragment".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct

from crawler.documents import markup
from crawler.documents.tree import Document
from storage.store import Pointer

# Element names and links with a fragment kept of one page: as many as links are kept.
ELEMENTS_MAX: Final = 50_000
POINTERS_MAX: Final = 50_000
NAME_CHARS_MAX: Final = 1_000  # of one name or fragment

_IGNORED: Final = re.compile(r"[\t\n\r]")
_BLANKS: Final = "".join(map(chr, range(0x21)))
# The characters that the fragment percent-encode set leaves unchanged (WHATWG URL, 1.3).
_SAFE: Final = "".join(c for c in map(chr, range(0x21, 0x7F)) if c not in '"<>`')


def fragment_of(href: str) -> tuple[str, str | None] | None:
    """Return the fragment of an href, percent-encoded, and its decoded form if that differs.

    Return None without a fragment, and for those that every page has: an empty fragment, "top", and
    a text directive alone.
    """
    _, mark, text = href.partition("#")
    if not mark:
        return None
    encoded = quote(_IGNORED.sub("", text).rstrip(_BLANKS), safe=_SAFE, errors="replace")
    encoded = encoded.partition(":~:")[0]
    decoded = unquote_to_bytes(encoded).decode("utf-8", "replace")
    if not encoded or decoded.lower() == "top":
        return None
    return encoded, decoded if decoded != encoded else None


class Fragments(Struct, frozen=True):
    """Fragments and element names of a page.

    pointers: links with a fragment, each combination of URL and fragment once.
    elements: ids of elements and names of anchors, each once.
    all_elements: whether `elements` is complete.
    all_read: whether no limit of this module was reached.
    """

    pointers: Sequence[Pointer] = ()
    elements: Sequence[str] = ()
    all_elements: bool = False
    all_read: bool = True


NONE: Final = Fragments()


def fragments(
    resolved: Mapping[str, str | None], document: Document | None, *, whole: bool
) -> Fragments:
    """Return the fragments of a page.

    resolved: the hrefs of the page with their URLs.
    document: None if the response is not HTML.
    whole: whether the document is complete.
    """
    found, fits = _pointers(resolved)
    if document is None:
        return Fragments(pointers=found, all_read=fits)
    names = dict.fromkeys(filter(None, _names(document)))
    kept = [name for name in names if len(name) <= NAME_CHARS_MAX][:ELEMENTS_MAX]
    fit = len(kept) == len(names)
    return Fragments(
        pointers=found, elements=kept, all_elements=whole and fit, all_read=fits and fit
    )


def _pointers(resolved: Mapping[str, str | None]) -> tuple[Sequence[Pointer], bool]:
    found: dict[Pointer, None] = {}
    whole = True
    for href, url in resolved.items():
        if url is None or "#" not in href or (fragment := fragment_of(href)) is None:
            continue
        if len(fragment[0]) > NAME_CHARS_MAX or len(found) >= POINTERS_MAX:
            whole = False
        else:
            found[Pointer(url, *fragment)] = None
    return tuple(found), whole


def _names(document: Document) -> Iterator[str | None]:
    if document.tree is not None:
        for node in document.tree.css("[id],a[name]"):
            attributes = node.attributes
            yield attributes.get("id")
            if node.tag == "a":
                yield attributes.get("name")
        return
    for tag in markup.tokens(document.html):
        if tag.attributes and tag.name[:1] != b"/" and not (tag.in_template or tag.ignored):
            values = markup.attributes(tag.attributes)
            yield values.get("id")
            if tag.name == b"a":
                yield values.get("name")
