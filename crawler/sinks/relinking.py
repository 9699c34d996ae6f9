"""Links of documents that `rewriting` has written, led elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from crawler.documents import markup
from crawler.documents.encoding import UTF8, decode
from crawler.sinks import references as bounds
from crawler.sinks.attributes import quoted
from crawler.sinks.rewriting import ORIGIN, without_active_names

# An attribute that leads somewhere, and ORIGIN: behind it, or among others behind it. In a document
# in an attribute, quotes are escaped.
_MARKED: Final = re.compile(
    rb"(?<![\w:-])(?P<name>href|xlink:href|src|content)=(?P<quote>\"|&(?:amp;){0,3}+quot;)"
    rb"(?P<value>(?:(?!(?P=quote))[^\"])*+)(?P=quote)(?: [^\s\"=<>/]++=\"[^\"]*+\"){0,20}?"
    rb" " + ORIGIN.encode() + rb"=(?P=quote)(?P<origin>(?:(?!(?P=quote))[^\"])*+)(?P=quote)",
    re.IGNORECASE,
)


def relinked(html: bytes, link: Callable[[str, str, str], str | None]) -> bytes | None:
    """A document that `Rewriter` has written, with its links changed once more; None if none was.

    link: (URL on the web, attribute's name, its value) → the value instead, None for the same."""
    room_bytes = bounds.GROWTH_BYTES_MAX
    changed = False

    def new(found: re.Match[bytes]) -> bytes:
        nonlocal room_bytes, changed
        quote = found["quote"]
        depth = 1 if quote == b'"' else 2 + quote.count(b"amp;")
        value, origin = (_unquoted(found[name], depth) for name in ("value", "origin"))
        meant = link(origin, found["name"].decode().lower(), value)
        if meant is None:
            return found[0]
        written = without_active_names(meant.encode("utf-8", "replace"))
        for _ in range(depth):
            written = quoted(written)
        growth_bytes = len(written) - len(found["value"])
        if growth_bytes > room_bytes:
            return found[0]
        room_bytes -= max(growth_bytes, 0)
        changed = True
        before = found.start("value") - found.start()
        behind = found.end("value") - found.start()
        return found[0][:before] + written + found[0][behind:]

    page = _MARKED.sub(new, html)
    return page if changed else None


def _unquoted(value: bytes, depth: int) -> str:
    text = decode(value, UTF8)
    for _ in range(depth):
        text = markup.unescaped_value(text)
    return text
