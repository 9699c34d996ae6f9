"""Extraction of links from ordinary pages by one regular expression, three times as fast as a tree.

The result is exactly what a tree contains, or None. The expression tokenizes as in WHATWG HTML,
13.2.5, and skips irrelevant markup. It gives up where a tree may differ from the order of the tags:
content in a table but outside its cells (which is moved before the table), framesets, SVG and
MathML other than simple drawings, selects with anything but options, unclosed raw text, upper-case
tags, image maps, and NUL. tests/crawler/documents/test_scan.py compares the results with a tree.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import cache
from itertools import islice
from typing import Final, cast

from crawler.documents import markup

_SPACE: Final = r"[\t\n\f\r ]"
_ENDS: Final = r"(?=[\t\n\f\r />])"  # after a tag name

# A single match holds the interpreter's lock, so these limits bound it: tags skipped in one match,
# attributes and white space in one tag, and pieces of text in one element. Pages beyond the limits
# get a tree, which is built without the lock. Real pages stay far below.
_PASSED_MAX: Final = 200
_ATTRIBUTES_MAX: Final = 1_000
_PIECES_MAX: Final = 5_000

# Rows kept of one page: each takes some 200 bytes. Real pages have a few thousand.
_ROWS_MAX: Final = 65_536
# A page with this many characters is matched in one call, which holds the interpreter's lock for a
# millisecond at most. A larger one is matched row by row.
_AT_ONCE_CHARS: Final = 65_536

# ---------------------------------------------------------------- tags

_VALUE: Final = r"""(?:"[^"]*+"|'[^']*+'|[^\t\n\f\r >"'][^\t\n\f\r >]*+|(?=>))"""
_ATTRIBUTE: Final = (
    rf"[^\t\n\f\r />][^\t\n\f\r />=]*+(?:{_SPACE}*+={_SPACE}*+{_VALUE}|(?!{_SPACE}*+=))"
)
_ATTRIBUTES: Final = rf"(?:[\t\n\f\r /]++|{_ATTRIBUTE}){{0,{_ATTRIBUTES_MAX}}}+"
# The most common form of attributes. The general form takes three times as long.
_PLAIN_ATTRIBUTE: Final = r"""[ \n][a-z][a-z0-9_-]*+=(?:"[^"]*+"|'[^']*+')"""
_REST: Final = rf"(?:>|(?:{_PLAIN_ATTRIBUTE})*+(?:>|{_ATTRIBUTES}>))"

# Elements that are neither extracted nor affect following content. Names that only start like an
# excluded one are excluded as well, which costs a tree.
_NAME: Final = (
    r"(?:[deghjkoqruvwyz]|p(?!laintext)|s(?!cript|elect|tyle|vg)|l(?!ink)|b(?!ase)|i(?!frame)"
    r"|a(?!rea|[\t\n\f\r />])|m(?!ath|eta)|t(?!able|body|d|emplate|extarea|foot|h|itle|r)"
    r"|f(?!rame)|n(?!oembed|oframes)|c(?!aption|ol)|x(?!mp))[^\t\n\f\r />]*+"
)
_COMMENT: Final = rf"<!--(?!-?>)(?:[^-]++|-(?!-!?>)){{0,{_PIECES_MAX}}}+--!?>"
_BOGUS: Final = r"<(?:!(?!--)|\?)[^>]*+>"  # doctypes as well
_NO_TAG: Final = r"<(?![A-Za-z/!?])"
# End tags except those of tables.
_END: Final = rf"</(?!t[dhrbf]|table|c(?:aption|ol))[a-z][^\t\n\f\r />]*+{_REST}"

# ---------------------------------------------------------------- tables

# Content of a table outside its cells is moved before the table. So a tag after which such content
# is possible must be followed by another table tag.
_TABLE: Final = rf"(?:t(?:[dhr]|able|body|head|foot)|caption|col(?:group)?){_ENDS}"
_NEXT: Final = rf"(?={_SPACE}*+(?:{_COMMENT}{_SPACE}*+)*+</?{_TABLE})"
_CELL: Final = rf"<(?:t[dh]|caption|/table){_ENDS}{_REST}"
_BETWEEN: Final = rf"</?{_TABLE}{_REST}{_NEXT}"

# ---------------------------------------------------------------- elements skipped as a whole

# Raw text without anything ambiguous.
_SCRIPT: Final = (
    rf"<script{_ENDS}{_REST}(?:[^<]++|<(?!/?[sS][cC][rR])){{0,{_PIECES_MAX}}}+</script>"
)
_STYLE: Final = rf"<style{_ENDS}{_REST}(?:[^<]++|<(?!/[sS][tT])){{0,{_PIECES_MAX}}}+</style>"
_TEXTAREA: Final = (
    rf"<textarea{_ENDS}{_REST}(?:[^<]++|<(?!/[tT][eE])){{0,{_PIECES_MAX}}}+</textarea>"
)
_SELECT: Final = (
    rf"<select{_ENDS}{_REST}(?:[^<]++|</?opt(?:ion|group){_ENDS}{_REST}){{0,{_PIECES_MAX}}}+"
    r"</select>"
)
# SVG elements that do not exist in HTML, do not end the SVG, and do not contain HTML.
_DRAWN: Final = (
    r"(?:path|g|circle|ellipse|rect|line|poly(?:line|gon)|use|defs|symbol|clipPath|mask|stop"
    rf"|text|tspan|(?:linear|radial)Gradient|animate(?:Transform)?|filter|fe[A-Z][A-Za-z]*+){_ENDS}"
)
_SVG: Final = (
    rf"svg{_ENDS}{_REST}(?<!/>)(?:[^<]++|</?{_DRAWN}{_REST}|{_COMMENT}"
    rf"|<title>[^<]*+</title>|<desc>[^<]*+</desc>){{0,{_PIECES_MAX}}}+</svg>"
)

# Elements without special rules, and those that only end a paragraph.
_PHRASE: Final = (
    r"(?:abbr|b|bd[io]|big|canvas|cite|code|data|del|dfn|em|font|i|ins|kbd|label|mark|noscript"
    r"|picture|q|s|samp|small|span|strike|strong|su[bp]|time|tt|u|var|[a-z]++-[a-z-]++)"
)
_BLOCK: Final = (
    r"(?:address|article|aside|blockquote|center|div|fig(?:ure|caption)|footer|h[1-6]|header|li|main"
    r"|nav|ol|p|section|ul)"
)
# The content of a template is not part of the page.
_TEMPLATE: Final = (
    rf"<template{_ENDS}{_REST}(?:[^<]++|</?(?:{_PHRASE}|{_BLOCK}|a|br|button|img|input){_ENDS}{_REST}"
    rf"|<{_SVG}|{_COMMENT}|{_SCRIPT}|{_STYLE}){{0,{_PASSED_MAX}}}+</template>"
)

# ---------------------------------------------------------------- the whole

# An anchor in the usual form, with a non-empty href, and href and rel at most once. Rows of other
# anchors contain their attributes as written.
_USUAL_ANCHOR: Final = (
    rf"a(?={_SPACE})(?:{_SPACE}++(?:"
    r"href=(?(1)(?!))(?(2)(?!))(?:\"([^\"]++)\"|'([^']++)')"
    r"|rel=(?(3)(?!))\"([^\"]*+)\""
    r"|(?!href=|rel=)[a-z][a-z0-9_-]*+=(?:\"[^\"]*+\"|'[^']*+')"
    rf"))*+{_SPACE}*+>"
)
# The content of an anchor including its end tag, or empty if another anchor or the end comes first.
# It is a lookahead: matching continues inside the anchor.
_HELD: Final = rf"(?=((?:[^<]++|<(?!/?[aA]{_ENDS})){{0,{_PIECES_MAX}}}+</a>)?+)"

_PASSED: Final = (
    rf"{_END}|<{_NAME}{_REST}|{_CELL}|{_BETWEEN}|{_COMMENT}|{_SCRIPT}|{_STYLE}|{_SELECT}"
    rf"|{_TEXTAREA}|{_TEMPLATE}|{_BOGUS}|{_NO_TAG}"
)

_FRAME_REST: Final = rf"(?:[^<]++|<(?!/[iI][fF])){{0,{_PIECES_MAX}}}+</iframe>"
_TITLE_REST: Final = rf"(?:[^<]++|<(?!/[tT][iI])){{0,{_PIECES_MAX}}}+</title>"

# _PASSED occurs only once because it dominates the compile time of 10 ms. If markup was skipped and
# nothing relevant follows, because of a limit or doubtful markup, the row ends there and is empty.
# Doubtful markup is then reported by the next row.
_ROWS: Final = re.compile(
    rf"(?:[^<]*+(?:{_PASSED})){{0,{_PASSED_MAX}}}+"
    rf"(?:[^<]*+(?:<(?:{_USUAL_ANCHOR}{_HELD}|a{_ENDS}({_ATTRIBUTES})>{_HELD}"
    rf"|(base|link|meta){_ENDS}({_ATTRIBUTES})>|iframe{_ENDS}({_ATTRIBUTES})>{_FRAME_REST}"
    rf"|title{_ENDS}{_REST}({_TITLE_REST})|({_SVG}))|\Z)|(?<=>)|[^<]*+<(.).*)",
    re.DOTALL,
)

# A match of _ROWS: the href of a usual anchor in double or single quotes, its rel and content; the
# attributes of another anchor and its content; the name base, link or meta and its attributes; the
# attributes of an iframe; the text of a title with its end tag; an SVG; markup that needs a tree.
Row = tuple[str, str, str, str, str, str, str, str, str, str, str, str]


# Before 3.11.5, Python mishandled backtracking in possessive repetitions (gh-106052).
_SOUND: Final = sys.version_info >= (3, 11, 5)


def rows(html: str) -> list[Row] | None:
    """Return anchors, frames, and base, link, meta and title elements in order. Linear.

    Return None if the document needs a tree. Some rows are empty.
    """
    if "\x00" in html or not _SOUND:
        return None
    found: list[Row]
    if len(html) <= _AT_ONCE_CHARS:
        found = _ROWS.findall(html)
    else:
        matches = islice(_ROWS.finditer(html), _ROWS_MAX + 1)
        found = [cast("Row", match.groups("")) for match in matches]
    if len(found) > _ROWS_MAX:
        return None
    return None if found[-1][-1] or (len(found) > 1 and found[-2][-1]) else found


# ---------------------------------------------------------------- anchors

# A tag or a comment in an anchor, or "<" alone. Tags in capital letters are found by other readers.
_HELD_TAG: Final = re.compile(
    rf"<(?:({_SVG})|(/?)([A-Za-z][A-Za-z0-9-]*+){_ENDS}({_ATTRIBUTES})>|{_COMMENT[1:]}|)"
)
_DRAWN_TAG: Final = re.compile(rf"{_COMMENT}|</?[a-zA-Z][^\t\n\f\r />]*+{_REST}")
# Elements that may occur in an anchor without affecting other content, if they are closed there.
# Blocks may only if no paragraph is open around the anchor.
_PHRASES: Final = re.compile(_PHRASE)
_BLOCKS: Final = re.compile(_BLOCK)
_VOID: Final = frozenset({"br", "img", "source", "wbr"})
_HEADING: Final = re.compile("h[1-6]")

# A paragraph of phrasing elements with its end tag.
_PARAGRAPH: Final = (
    rf"<p{_ENDS}{_REST}(?:[^<]++|</?(?:a|br|img|source|wbr|{_PHRASE}){_ENDS}{_REST}|{_COMMENT})"
    rf"{{0,{_PIECES_MAX}}}+</p>"
)


@cache
def _paragraphs() -> re.Pattern[str]:
    """Match a part of a document with such paragraphs only. Compiled on first use, in 6 ms."""
    return re.compile(
        rf"(?:[^<]*+(?:{_PARAGRAPH}|(?!<p{_ENDS})(?:{_PASSED})|<(?:(?:a|base|link|meta){_ENDS}"
        rf"{_REST}|iframe{_ENDS}{_REST}{_FRAME_REST}|title{_ENDS}{_REST}{_TITLE_REST}|{_SVG})))"
        rf"{{0,{_PASSED_MAX}}}+([^<]*+\Z)?+",
    )


def paragraphs_are_closed(html: str) -> bool:
    """Return whether all paragraphs have an end tag and contain only phrasing elements.

    Then no paragraph is open around an anchor with other content. The document must have rows.
    """
    at, paragraphs = 0, _paragraphs()
    while (some := paragraphs.match(html, at)) is not None and some[1] is None:
        if some.end() == at:
            return False
        at = some.end()
    return True


def anchor_text(held: str, *, blocks: bool) -> str | None:
    """Return the text of an anchor, or the `alt` of its first image, or None if it needs a tree.

    held: the content of the anchor, as in a row.
    blocks: no paragraph is open around the anchor, so it may contain block elements.
    """
    if held.find("<") == len(held) - 4:  # the end tag alone
        return markup.unescaped(held[:-4])
    if not held:
        return None
    text, alt, at = "", None, 0
    open_: list[str] = []
    for tag in _HELD_TAG.finditer(held, 0, len(held) - 4):
        text += held[at : tag.start()]
        at = tag.end()
        drawing, end, name, attributes = tag.groups()
        name = name and name.lower()
        if drawing is not None:
            text += _DRAWN_TAG.sub("", tag[0])
        elif name is None:
            if at == tag.start() + 1:
                return None
        elif end:
            if not open_ or open_.pop() != name:
                return None
        elif name in _VOID:
            if name == "img" and alt is None:
                alt = markup.attributes(attributes.encode()).get("alt")
        elif _PHRASES.fullmatch(name) or (blocks and _may_begin(name, open_)):
            open_.append(name)
        else:
            return None
    if not all(map(_PHRASES.fullmatch, open_)):
        return None  # the anchor ends inside an open block
    text = markup.unescaped(text + held[at:-4])
    return text if text.strip() or alt is None else alt


def _may_begin(name: str, open_: Sequence[str]) -> bool:
    """Return whether a block closes none of the open elements of the anchor."""
    if _BLOCKS.fullmatch(name) is None or "p" in open_:
        return False
    if name == "li":
        return open_[-1:] in (["ul"], ["ol"])
    return not (open_ and _HEADING.fullmatch(name) and _HEADING.fullmatch(open_[-1]))
