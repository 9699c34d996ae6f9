"""XML files of a mirror, with everything removed that uses the network.

HTML can contain a Content-Security-Policy, but SVG and other XML cannot. So processing instructions
and document types (after expanding entities) are removed, and the namespace of HTML is disabled.
SVG also loses scripts, and attributes and styles that lead to the network. In other XML, the
namespace of SVG is disabled, too.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Final

from crawler.documents.decoders import UTF8, decode, encoding_by_mark
from crawler.documents.prescan import xml_encoding

_DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
XML_BYTES_MAX: Final = 10_000_000  # the rest is cut off; browsers show the start
_TOKEN: Final = re.compile(
    # Possessive: unclosed constructs cost neither time nor memory.
    r"""<!--.*?-->|(?P<cdata><!\[CDATA\[.*?\]\]>)|<\?.*?\?>"""
    r"""|<!DOCTYPE[^\[>]*(?:\[(?P<subset>.*?)\]\s*)?>"""
    r"""|<(?P<end>/?)(?P<name>[^\s<>/"'=!?]++)(?P<raw>(?:[^<>"']++|"[^<"]*+"|'[^<']*+')*+)>""",
    re.DOTALL,
)
_ATTRIBUTE: Final = re.compile(r"""([^\s<>/"'=]++)(?:\s*+=\s*+(?:"([^<"]*+)"|'([^<']*+)'))?+""")
_ENTITY: Final = re.compile(
    r"""<!ENTITY\s+([\w.-]{1,100})\s+(?:"([^"<&%]{0,500})"|'([^'<&%]{0,500})')\s*>"""
)
_ENTITIES_MAX: Final = 100
_EXPANSION_CHARS_MAX: Final = 1_000_000  # by entities; later ones are not expanded
_USED: Final = re.compile(r"&([\w.-]{1,100});")
_HTML: Final = "http://www.w3.org/1999/xhtml"
_SVG: Final = "http://www.w3.org/2000/svg"
_IGNORED: Final = re.compile(r"[\x00-\x20]+")  # by URL parsers
_LEADS_OUT: Final = re.compile(r"//|\\|^(?!data:image/)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_STYLE_LEADS_OUT: Final = re.compile(
    r"//|\\|@import|(?<!data)(?<![\w-])(?:https?|ftp|wss?|file):", re.IGNORECASE
)
# SVG elements that run scripts, or contain other content.
_DROPPED: Final = frozenset(
    {"script", "foreignobject", "handler", "listener", "iframe", "audio", "video"}
)


def is_markup(body: bytes) -> bool:
    """Return whether a browser may read this as HTML or XML, regardless of its name."""
    return _start(body).startswith(b"<")


def is_xml(declared: str, body: bytes) -> bool:
    """Return whether a body is XML by its type or its start."""
    if declared.endswith(("/xml", "+xml")):
        return True
    return _start(body).lower().startswith((b"<?xml", b"<svg"))


def _start(body: bytes) -> bytes:
    """Return the start of a document in ASCII, without byte order mark and white space."""
    return body[:200].replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n\f")


def xml_text(body: bytes) -> tuple[str, str]:
    """Return the text of a document and the name of its encoding. Never raises.

    The encoding is given by byte order mark or declaration, and otherwise UTF-8.
    """
    mark = encoding_by_mark(body)
    name = mark[0] if mark else xml_encoding(body[:1_000].lstrip()) or UTF8
    if not mark and body[:2] in (b"<\0", b"\0<"):
        name = "utf-16le" if body[1:2] == b"\0" else "utf-16be"
    return decode(body[mark[1] if mark else 0 :][:XML_BYTES_MAX], name), name


def is_drawing(text: str) -> bool:
    """Return whether an XML document is an SVG."""
    at = 0
    while (opens := text.find("<", at)) >= 0 and (found := _TOKEN.match(text, opens)):
        if found["name"] is not None:
            return found["name"].rpartition(":")[2].lower() == "svg"
        at = found.end()
    return False


def inert_xml(body: bytes) -> bytes:
    """Return the document in UTF-8 without anything that uses the network. Never raises."""
    text, _ = xml_text(body)
    out = [_DECLARATION]
    entities, has_entities = _Entities(""), False
    drawing: bool | None = None  # unknown before the root element
    dropped: list[str] = []  # open elements, from the first removed one
    style = _Style()
    at = 0
    while (opens := text.find("<", at)) >= 0:
        if opens > at and not dropped:
            style.add(out, entities.expanded(text[at:opens]))
        found = _TOKEN.match(text, opens)
        if found is None:
            at = len(text)  # not well-formed: browsers stop here, too
            break
        at = found.end()
        if found["cdata"] is not None:
            if not dropped:
                style.add(out, found["cdata"], css=found["cdata"][9:-3])
            continue
        if found["name"] is None:
            if found["subset"] and not has_entities:  # a document has only one
                entities, has_entities = _Entities(found["subset"]), True
            continue
        qualified, raw = found["name"], entities.expanded(found["raw"])
        local = qualified.rpartition(":")[2].lower()
        drawing = local == "svg" if drawing is None else drawing
        if found["end"]:
            if dropped:
                if dropped[-1] == qualified:
                    dropped.pop()
                continue
            style.end(out)
            out.append(f"</{qualified}>")
            continue
        empty = raw.endswith("/")
        if dropped or style.is_open or (drawing and local in _DROPPED):
            if not empty:
                dropped.append(qualified)
            continue
        kept = _kept(local, raw, drawing=drawing)
        out.append(f"<{qualified}{kept}{'/' if empty else ''}>")
        if drawing and local == "style" and not empty:
            style.begin(out)
    if at < len(text) and not dropped:
        style.add(out, entities.expanded(text[at:]))
    style.end(out)
    return "".join(out).encode("utf-8", "replace")


class _Style:
    """A style sheet in an SVG. It is examined as a whole.

    Browsers join its text across comments, CDATA and elements, so a URL may be spread over them.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._start = 0  # in the output
        self._css: list[str] = []

    def begin(self, out: list[str]) -> None:
        self.is_open, self._start, self._css = True, len(out), []

    def add(self, out: list[str], text: str, *, css: str | None = None) -> None:
        """Write text, inside a style sheet or not. `css`: its decoded content, if known."""
        out.append(text)
        if self.is_open:
            self._css.append(unescape(text) if css is None else css)

    def end(self, out: list[str]) -> None:
        if self.is_open and _style_leads_out("".join(self._css)):
            del out[self._start :]
        self.is_open = False


def _kept(local: str, raw: str, *, drawing: bool) -> str:
    """Return the attributes that may stay."""
    kept = []
    for found in _ATTRIBUTE.finditer(raw):
        name, double, single = found.groups()
        if double is None and single is None:
            continue  # not well-formed: no value
        written = double or single or ""
        value = unescape(written)
        quote = '"' if single is None else "'"
        if name == "xmlns" or name.startswith("xmlns:"):
            if value.strip() == _HTML or (value.strip() == _SVG and not drawing):
                written = "urn:x-courtly:inert"
        elif drawing and not _may_stay(local, name.rpartition(":")[2].lower(), value):
            continue
        kept.append(f" {name}={quote}{written}{quote}")
    return "".join(kept)


def _may_stay(element: str, name: str, value: str) -> bool:
    if name.startswith("on") or name == "base":
        return False
    if name == "href" and element == "a":
        return not value.strip().lower().startswith("javascript")  # followed on a click
    bare = _IGNORED.sub("", value)
    return not _LEADS_OUT.search(bare) and not _style_leads_out(bare)


def _style_leads_out(text: str) -> bool:
    return _STYLE_LEADS_OUT.search(_IGNORED.sub("", text)) is not None


class _Entities:
    """The entities of a document type that may be expanded."""

    def __init__(self, subset: str) -> None:
        found = [(name, double or single) for name, double, single in _ENTITY.findall(subset)]
        self._texts = dict(reversed(found[:_ENTITIES_MAX]))  # the first declaration counts
        self._room = _EXPANSION_CHARS_MAX

    def expanded(self, text: str) -> str:
        if not self._texts or "&" not in text:
            return text
        return _USED.sub(self._text, text)

    def _text(self, found: re.Match[str]) -> str:
        text: str | None = self._texts.get(found[1])
        if text is None or len(text) > self._room:
            return str(found[0])
        self._room -= len(text)
        return text
