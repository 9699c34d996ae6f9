"""Fragments of links, and what of a page they can point to (WHATWG HTML, "scrolling to a
fragment")."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct
from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

from crawler.documents import markup
from crawler.documents.nesting import is_tangled
from storage.base import Pointer

# Names of elements kept of one page, and links with a fragment: as many as links are taken.
ELEMENTS_MAX: Final = 50_000
POINTERS_MAX: Final = 50_000
# Of one name or fragment; nobody writes a longer one.
NAME_CHARS_MAX: Final = 1_000

_IGNORED: Final = re.compile(r"[\t\n\r]")
_BLANKS: Final = "".join(map(chr, range(0x21)))
# All that the fragment percent-encode set leaves as it is (WHATWG URL, 1.3).
_SAFE: Final = "".join(c for c in map(chr, range(0x21, 0x7F)) if c not in '"<>`')


def fragment_of(href: str) -> tuple[str, str | None] | None:
    """The fragment of an href as in a URL, and without percent-encoding where that differs; None if
    it has none or one that every page has: empty, "top" or a text directive alone."""
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
    """Links with a fragment, each URL and fragment once; ids of elements and names of anchors, each
    once. all_elements: no name is missing. all_read: nothing was left out for a bound of ours."""

    pointers: Sequence[Pointer] = ()
    elements: Sequence[str] = ()
    all_elements: bool = False
    all_read: bool = True


NONE: Final = Fragments()


def fragments(resolved: Mapping[str, str | None], html: bytes | None, *, whole: bool) -> Fragments:
    """Of the hrefs of a page with their URLs, and its markup in UTF-8 (`whole`: all of it); None:
    it is none."""
    found, fits = _pointers(resolved)
    if html is None:
        return Fragments(pointers=found, all_read=fits)
    names, fit = _elements(html)
    return Fragments(
        pointers=found, elements=names, all_elements=whole and fit, all_read=fits and fit
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


def _elements(html: bytes) -> tuple[Sequence[str], bool]:
    names = _names_by_tokens(html) if is_tangled(html) else _names_by_tree(html)
    found = dict.fromkeys(names)
    found.pop("", None)
    kept = [name for name in found if len(name) <= NAME_CHARS_MAX][:ELEMENTS_MAX]
    return kept, len(kept) == len(found)


def _names_by_tree(html: bytes) -> list[str]:
    tree = LexborHTMLParser(html, options=LexborDocumentOptions.WO_EVENTS)
    names = []
    for node in tree.css("[id],a[name]"):
        attributes = node.attributes
        names.append(attributes.get("id") or "")
        if node.tag == "a":
            names.append(attributes.get("name") or "")
    return names


def _names_by_tokens(html: bytes) -> list[str]:
    names = []
    for tag in markup.tokens(html):
        if tag.attributes and tag.name[:1] != b"/" and not (tag.in_template or tag.ignored):
            attributes = markup.attributes(tag.attributes)
            names.append(attributes.get("id", ""))
            if tag.name == b"a":
                names.append(attributes.get("name", ""))
    return names
