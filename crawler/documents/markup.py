"""A linear tokenizer for HTML (WHATWG HTML, 13.2.5), without a tree.

It reads documents whose tree would take too long to build. open_elements.py tracks the open
elements, which determine raw text, CDATA and template content, and lists differences from a tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.entities import html5
from typing import Final, NamedTuple

from crawler.documents.open_elements import ATTRIBUTES_MATTER, OpenElements

# One attribute. HTML's white space has no vertical tab.
ATTRIBUTE: Final = (
    rb"[^\t\n\f\r />][^\t\n\f\r />=]*+(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+"
    rb"""(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^\t\n\f\r >"'][^\t\n\f\r >]*+)?+)?+"""
)
# A tag, a comment, or a bogus comment. Possessive, and each form may also end with the document,
# so no byte is examined twice.
_TOKEN: Final = re.compile(
    rb"<(?:(?P<tag>/?+[A-Za-z][^\t\n\f\r />]*+)(?P<attributes>(?:[\t\n\f\r /]++|"
    + ATTRIBUTE
    + rb")*+)"
    rb"(?:(?P<close>>)|\Z)|!--(?:-?>|.*?(?:--!?>|\Z))|[!?/][^>]*+(?:>|\Z))",
    re.DOTALL,
)
_ATTRIBUTE: Final = re.compile(ATTRIBUTE)
_PARTS: Final = re.compile(
    rb"([^\t\n\f\r />][^\t\n\f\r />=]*+)(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+"
    rb"""(?:"([^"]*+)"?|'([^']*+)'?|([^\t\n\f\r >"'][^\t\n\f\r >]*+))?+)?+"""
)
RAW_TEXT: Final = frozenset(
    {b"script", b"style", b"textarea", b"title", b"xmp", b"iframe", b"noembed", b"noframes"}
)
RAW_TEXT_AND_REST: Final = RAW_TEXT | {b"plaintext"}
_BASE: Final = re.compile(rb"<base[\t\n\f\r /]", re.IGNORECASE)
_FRAMESET: Final = re.compile(rb"<frameset[\t\n\f\r />]", re.IGNORECASE)
_PLACED: Final = re.compile(
    rb"<(?:(?P<opens>svg|math|select)|(?P<closes>/(?:svg|math|select))|(?P<frameset>frameset)|(?:"
    + b"|".join(sorted(RAW_TEXT_AND_REST))
    + rb"))(?=[\t\n\f\r />])|<!\[CDATA\[",
    re.IGNORECASE,
)
_PASSED: Final = re.compile(
    rb"(?:[^<]++|</[A-Za-z][^\t\n\f\r />]*+>|<(?!(?:"
    + b"|".join(sorted(RAW_TEXT_AND_REST))
    + rb")[\t\n\f\r />])[A-Za-z][^\t\n\f\r />]*+(?: (?:class|id)=\"[^\"]*+\")*+>)*+",
    re.IGNORECASE,
)
_RAW_TEXT_END: Final = {
    name: re.compile(rb"</" + name + rb"(?=[\t\n\f\r />])", re.IGNORECASE) for name in RAW_TEXT
}
# Transitions between plain, escaped ("<!--") and double escaped ("<!-- <script") script data.
_SCRIPT_STEP: Final = re.compile(
    rb"<!--(?P<void>-*+>)?|(?P<dash>-->)|<(?P<end>/?+)script(?=[\t\n\f\r />])", re.IGNORECASE
)
_VOID: Final = frozenset(
    b"area base br col embed frame hr img input link meta param source track wbr".split()
)
_XHTML_TAG: Final = re.compile(
    rb"<([A-Za-z][\w:.-]*+)(?=[\t\n\f\r />])((?:[\t\n\f\r /]++|" + ATTRIBUTE + rb")*+)(?:>|\Z)"
)
# A character reference. No name is longer than 31 characters.
_REFERENCE: Final = re.compile(
    r"&(?:#(?:([0-9]++)|[xX]([0-9a-fA-F]++));?|([A-Za-z][A-Za-z0-9]{0,30}+);?)"
)


CDATA: Final = b"![CDATA["


class Tag(NamedTuple):
    """A token at `html[start:end]`.

    name: in lower case. End tags start with "/". Comments have the name "!", CDATA sections CDATA,
    and the end of the document an empty name.
    attributes: as written.
    foreign: whether the element belongs to SVG or MathML.
    in_svg: whether it is inside an <svg>, possibly as HTML.
    in_template: whether it is inside a <template>, whose content is not part of the page.
    ignored: whether HTML parsers ignore the tag.
    """

    name: bytes
    attributes: bytes
    start: int
    end: int
    foreign: bool = False
    in_svg: bool = False
    in_template: bool = False
    ignored: bool = False


def tokens(html: bytes) -> Iterator[Tag]:
    """Yield the tags of a document in order, and finally a token without a name.

    The content of raw text elements (such as script, style and title in HTML) is skipped.
    """
    elements = OpenElements(frames=_FRAMESET.search(html) is not None)
    at = html.find(b"<")
    text_at = 0
    while at >= 0:
        if elements.heeds_text and html[text_at:at].strip(b"\t\n\f\r \x00"):
            elements.add_text()
        token = _TOKEN.match(html, at)
        if token is None:
            text_at = at
            at = html.find(b"<", at + 1)
            continue
        end = token.end()
        tag: bytes | None = token["tag"]
        if tag is None:
            if elements.foreign and html.startswith(CDATA, at + 1):
                found = html.find(b"]]>", at + 9)
                end = len(html) if found < 0 else found + 3
                yield Tag(CDATA, b"", at, end, foreign=True)
            else:
                yield Tag(b"!", b"", at, end)
        elif token["close"] is None:
            break  # the document ends inside the tag
        else:
            name = tag.lower()
            made = _tag(elements, name, token)
            yield made
            if name in RAW_TEXT_AND_REST and made.foreign is made.ignored is False:
                if name == b"plaintext":
                    break
                end = raw_text_end(html, end, name)
        text_at = end
        at = html.find(b"<", end)
    yield Tag(b"", b"", len(html), len(html))


def tags_with_attributes(html: bytes) -> Iterator[tuple[bytes, bytes, int, int, bool]]:
    """Yield the first five fields of `tokens`, omitting some tags, many times as fast.

    Omitted are tags without attributes other than class and id, except around raw text. Open
    elements are tracked only in documents in which they may determine raw text.
    """
    if _depends_on_what_is_open(html):
        yield from (tag[:5] for tag in tokens(html))
        return
    at = _next_worth(html, 0)
    while at >= 0:
        token = _TOKEN.match(html, at)
        if token is None:
            at = html.find(b"<", at + 1)
            continue
        end = token.end()
        tag: bytes | None = token["tag"]
        if tag is None:
            at = _next_worth(html, end)
            continue
        if token["close"] is None:
            break
        name = tag.lower()
        yield name, token["attributes"], at, end, False
        if name == b"plaintext":
            break
        if name in RAW_TEXT:
            at = html.find(b"<", raw_text_end(html, end, name))
        else:
            at = _next_worth(html, end)
    yield b"", b"", len(html), len(html), False


def _next_worth(html: bytes, at: int) -> int:
    passed = _PASSED.match(html, at)
    return html.find(b"<", at if passed is None else passed.end())


def _depends_on_what_is_open(html: bytes) -> bool:
    """Return whether SVG, MathML or `<select>` may contain raw text or CDATA, or frames exist."""
    depth = 0
    for found in _PLACED.finditer(html):
        kind = found.lastgroup
        if kind == "opens":
            depth += 1
        elif kind == "closes":
            depth = max(depth - 1, 0)
        elif depth or kind == "frameset":
            return True
    return False


def _is_self_closing(raw: bytes) -> bool:
    """Return whether a tag with these attributes ends in "/" outside an unquoted value."""
    if raw[-1:] != b"/":
        return False
    end = 0
    for attribute in _ATTRIBUTE.finditer(raw):
        end = attribute.end()
    return end < len(raw)


def _tag(elements: OpenElements, name: bytes, token: re.Match[bytes]) -> Tag:
    """Update the open elements and return the tag."""
    raw: bytes = token["attributes"]
    in_svg, in_template = elements.in_svg, elements.in_template
    if name[:1] == b"/":
        foreign: bool | None = elements.foreign
        elements.end(name[1:])
    else:
        values = attributes(raw) if name in ATTRIBUTES_MATTER else {}
        foreign = elements.start(name, values, closed=_is_self_closing(raw))
    start, end = token.span()
    return Tag(name, raw, start, end, foreign is True, in_svg, in_template, foreign is None)


def expand_empty_elements(xhtml: bytes) -> bytes:
    """Give empty elements of XHTML an end tag, which an HTML parser needs."""
    return _XHTML_TAG.sub(_with_end_tag, xhtml) if b"/>" in xhtml else xhtml


def _with_end_tag(found: re.Match[bytes]) -> bytes:
    name, raw = found[1], found[2]
    if name.lower() in _VOID or found[0][-1:] != b">" or not _is_self_closing(raw):
        return found[0]
    return b"<" + name + raw[:-1] + b"></" + name + b">"


def attributes(raw: bytes) -> dict[str, str]:
    """Parse attributes: names in lower case, references decoded. The first of a name counts."""
    found: dict[str, str] = {}
    # The standard replaces NUL in tags by U+FFFD, which URL parsers do not trim.
    for name, double, single, bare in _PARTS.findall(raw.replace(b"\x00", b"\xef\xbf\xbd")):
        value = (double or single or bare).decode("utf-8", "replace")
        if "&" in value:
            value = unescaped_value(value)
        found.setdefault(name.decode("utf-8", "replace").lower(), value)
    return found


def located(raw: bytes, offset: int) -> dict[str, tuple[str, int, int]]:
    """Parse attributes as `attributes` does, with their start and end in the document.

    offset: where `raw` starts in the document.
    """
    found: dict[str, tuple[str, int, int]] = {}
    for one in _PARTS.finditer(raw):
        value = (one[2] or one[3] or one[4] or b"").decode("utf-8", "replace")
        if "&" in value:
            value = unescaped_value(value)
        if "\0" in value:
            value = value.replace("\0", "\ufffd")
        name = one[1].decode("utf-8", "replace").lower()
        if name not in found:
            found[name] = (value, offset + one.start(), offset + one.end())
    return found


def text(raw: bytes) -> str:
    """Decode the text between tags. As in the standard, NUL is omitted."""
    return unescaped(raw.replace(b"\x00", b"").decode("utf-8", "replace"))


def base_href(html: bytes) -> str | None:
    """Return the first `<base href>` of a document as written, or None."""
    if _BASE.search(html) is not None:
        for tag in tokens(html):
            if tag.name == b"base" and not tag.in_template and not tag.ignored:
                href = attributes(tag.attributes).get("href")
                if href is not None:
                    return href
    return None


def text_between(last: Tag, tag: Tag, html: bytes, bytes_max: int) -> str:
    """Return the start of the text between two successive tags.

    The text of a CDATA section is included if it is the second tag. Scripts and styles have none.
    """
    if last.name in (b"script", b"style") and not last.ignored:
        return ""
    found = text(html[last.end : min(tag.start, last.end + bytes_max)])
    if tag.name == CDATA:
        cdata = html[tag.start + len("<![CDATA[") : tag.end].removesuffix(b"]]>")
        found += cdata[:bytes_max].decode("utf-8", "replace")
    return found


def unescaped(text: str) -> str:
    """Decode the character references in text (WHATWG HTML, 13.2.5.72 to 13.2.5.80)."""
    return _REFERENCE.sub(_in_text, text) if "&" in text else text


def unescaped_value(value: str) -> str:
    """Decode the character references in an attribute value, where "&copy=" is not one."""
    if value.count("&") == value.count("&amp;"):  # nearly always
        return value.replace("&amp;", "&")
    return _REFERENCE.sub(_in_value, value)


def raw_text_end(html: bytes, at: int, name: bytes) -> int:
    """Return where raw text that starts at `at` ends: at its end tag or the document's end."""
    if name == b"script":
        return _script_end(html, at)
    found = _RAW_TEXT_END[name].search(html, at)
    return found.start() if found else len(html)


def _script_end(html: bytes, at: int) -> int:
    """Return where script data ends (WHATWG HTML, 13.2.5.4 and 13.2.5.15 to 13.2.5.31)."""
    escaped = doubly = False
    for step in _SCRIPT_STEP.finditer(html, at):
        if step["end"] is None:
            if step["dash"] is not None:
                escaped = doubly = False
            elif step["void"] is None:
                escaped = True
        elif not step["end"]:
            doubly = escaped
        elif not doubly:
            return step.start()
        else:
            doubly = False
    return len(html)


def _in_text(found: re.Match[str]) -> str:
    name = found[3]
    if name is None:
        return _numbered(found)
    if found[0][-1] == ";" and (character := html5.get(name + ";")) is not None:
        return character
    for end in range(len(name), 1, -1):  # some names need no semicolon; the longest match counts
        if (character := html5.get(name[:end])) is not None:
            return character + found[0][end + 1 :]
    return found[0]


def _in_value(found: re.Match[str]) -> str:
    name = found[3]
    if name is None:
        return _numbered(found)
    if found[0][-1] == ";":
        return html5.get(name + ";") or found[0]
    following = found.string[found.end() : found.end() + 1]
    if following == "=" or (following.isascii() and following.isalnum()):
        return found[0]
    return html5.get(name) or found[0]


def _numbered(found: re.Match[str]) -> str:
    digits, base = (found[1], 10) if found[2] is None else (found[2], 16)
    digits = digits.lstrip("0")
    if len(digits) > 7 or not digits:
        return "\ufffd"
    code = int(digits, base)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        return "\ufffd"
    return _WINDOWS_1252.get(code) or chr(code)


# Numeric references to C1 control characters mean these.
_WINDOWS_1252: Final = {
    code: character
    for code in range(0x80, 0xA0)
    if (character := bytes([code]).decode("cp1252", "ignore"))
}
