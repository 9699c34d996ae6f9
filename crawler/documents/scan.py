"""The links of an ordinary page by one regular expression: exactly what a tree would say, or no
answer.

A tree costs 240 µs for a page of 23 KB with 52 links (65 to build it, the rest to ask it); one
pass costs 75 µs, because what is of no interest is passed over inside the regular expression.
It tokenizes as WHATWG HTML, 13.2.5, does. Where the tree could differ from the order of the tags
it stops and says so, and the page gets its tree: content in a table but outside its cells (which
moves before the table), framesets, foreign content beyond simple drawings, selects with
more than options, raw text that is not closed, upper-case tags, image maps, NUL.

So the tree remains the meaning, and tests/crawler/documents/test_scan.py holds the two together.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import cache
from typing import Final, cast

from crawler.documents import markup

_SPACE: Final = r"[\t\n\f\r ]"
_ENDS: Final = r"(?=[\t\n\f\r />])"  # behind a tag's name

# Other threads wait while one match is made, whatever is in it. So it passes over so many tags, and
# each of these over so many attributes, pieces or hyphens; a page with more of them gets its tree,
# which is built without the interpreter's lock. Of what people write nothing comes near.
_PASSED_MAX: Final = 200
_ATTRIBUTES_MAX: Final = 1_000  # with the white space between them
_PIECES_MAX: Final = 5_000

# ---------------------------------------------------------------- tags

_VALUE: Final = r"""(?:"[^"]*+"|'[^']*+'|[^\t\n\f\r >"'][^\t\n\f\r >]*+|(?=>))"""
_ATTRIBUTE: Final = (
    rf"[^\t\n\f\r />][^\t\n\f\r />=]*+(?:{_SPACE}*+={_SPACE}*+{_VALUE}|(?!{_SPACE}*+=))"
)
_ATTRIBUTES: Final = rf"(?:[\t\n\f\r /]++|{_ATTRIBUTE}){{0,{_ATTRIBUTES_MAX}}}+"
# Most attributes are written so; the general form costs three times as much.
_PLAIN_ATTRIBUTE: Final = r"""[ \n][a-z][a-z0-9_-]*+=(?:"[^"]*+"|'[^']*+')"""
_REST: Final = rf"(?:>|(?:{_PLAIN_ATTRIBUTE})*+(?:>|{_ATTRIBUTES}>))"

# Every element that is neither looked for nor special to what follows it. The first letter tells
# most; where a forbidden name is only the beginning of this one, the page is doubtful for nothing.
_NAME: Final = (
    r"(?:[deghjkoqruvwyz]|p(?!laintext)|s(?!cript|elect|tyle|vg)|l(?!ink)|b(?!ase)|i(?!frame)"
    r"|a(?!rea|[\t\n\f\r />])|m(?!ath|eta)|t(?!able|body|d|emplate|extarea|foot|h|itle|r)"
    r"|f(?!rame)|n(?!oembed|oframes)|c(?!aption|ol)|x(?!mp))[^\t\n\f\r />]*+"
)
_COMMENT: Final = rf"<!--(?!-?>)(?:[^-]++|-(?!-!?>)){{0,{_PIECES_MAX}}}+--!?>"
_BOGUS: Final = r"<(?:!(?!--)|\?)[^>]*+>"  # doctypes as well
_NO_TAG: Final = r"<(?![A-Za-z/!?])"
# Any end tag but those of tables.
_END: Final = rf"</(?!t[dhrbf]|table|c(?:aption|ol))[a-z][^\t\n\f\r />]*+{_REST}"

# ---------------------------------------------------------------- tables

# What stands in a table but in no cell moves before the table. So behind a tag that can lead there,
# the next thing has to be another such tag.
_TABLE: Final = rf"(?:t(?:[dhr]|able|body|head|foot)|caption|col(?:group)?){_ENDS}"
_NEXT: Final = rf"(?={_SPACE}*+(?:{_COMMENT}{_SPACE}*+)*+</?{_TABLE})"
_CELL: Final = rf"<(?:t[dh]|caption|/table){_ENDS}{_REST}"
_BETWEEN: Final = rf"</?{_TABLE}{_REST}{_NEXT}"

# ---------------------------------------------------------------- elements passed over whole

# Raw text, none of it with anything in it that could be read in another way.
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
# Names that are nothing else in HTML, do not end the drawing, and have no HTML inside.
_DRAWN: Final = (
    r"(?:path|g|circle|ellipse|rect|line|poly(?:line|gon)|use|defs|symbol|clipPath|mask|stop"
    rf"|text|tspan|(?:linear|radial)Gradient|animate(?:Transform)?|filter|fe[A-Z][A-Za-z]*+){_ENDS}"
)
_SVG: Final = (
    rf"svg{_ENDS}{_REST}(?<!/>)(?:[^<]++|</?{_DRAWN}{_REST}|{_COMMENT}"
    rf"|<title>[^<]*+</title>|<desc>[^<]*+</desc>){{0,{_PIECES_MAX}}}+</svg>"
)

# Elements without rules of their own, and those with no more than that they end a paragraph.
_PHRASE: Final = (
    r"(?:abbr|b|bd[io]|big|canvas|cite|code|data|del|dfn|em|font|i|ins|kbd|label|mark|noscript"
    r"|picture|q|s|samp|small|span|strike|strong|su[bp]|time|tt|u|var|[a-z]++-[a-z-]++)"
)
_BLOCK: Final = (
    r"(?:address|article|aside|blockquote|center|div|fig(?:ure|caption)|footer|h[1-6]|header|li|main"
    r"|nav|ol|p|section|ul)"
)
# A template's content is no part of the page.
_TEMPLATE: Final = (
    rf"<template{_ENDS}{_REST}(?:[^<]++|</?(?:{_PHRASE}|{_BLOCK}|a|br|button|img|input){_ENDS}{_REST}"
    rf"|<{_SVG}|{_COMMENT}|{_SCRIPT}|{_STYLE}){{0,{_PASSED_MAX}}}+</template>"
)

# ---------------------------------------------------------------- the whole

# The usual anchor, its href not empty; each attribute of interest at most once, since of two the
# first would count. Any other anchor is a row with its attributes as they stand.
_USUAL_ANCHOR: Final = (
    rf"a(?={_SPACE})(?:{_SPACE}++(?:"
    r"href=(?(1)(?!))(?(2)(?!))(?:\"([^\"]++)\"|'([^']++)')"
    r"|rel=(?(3)(?!))\"([^\"]*+)\""
    r"|(?!href=|rel=)[a-z][a-z0-9_-]*+=(?:\"[^\"]*+\"|'[^']*+')"
    rf"))*+{_SPACE}*+>"
)
# What an anchor holds, with its end tag; empty if another anchor or the end comes first. The walk
# goes on inside.
_HELD: Final = rf"(?=((?:[^<]++|<(?!/?[aA]{_ENDS})){{0,{_PIECES_MAX}}}+</a>)?+)"

# What is passed over.
_PASSED: Final = (
    rf"{_END}|<{_NAME}{_REST}|{_CELL}|{_BETWEEN}|{_COMMENT}|{_SCRIPT}|{_STYLE}|{_SELECT}"
    rf"|{_TEXTAREA}|{_TEMPLATE}|{_BOGUS}|{_NO_TAG}"
)

_FRAME_REST: Final = rf"(?:[^<]++|<(?!/[iI][fF])){{0,{_PIECES_MAX}}}+</iframe>"
_TITLE_REST: Final = rf"(?:[^<]++|<(?!/[tT][iI])){{0,{_PIECES_MAX}}}+</title>"

# What is passed over stands here once, since it is most of what Python takes 10 ms to compile. So
# where something has been passed over and nothing of interest follows, be it for the bound or for
# something doubtful, the row ends there, empty; what is doubtful is told by the next, which must
# not be empty, as it begins where one has ended.
_ROWS: Final = re.compile(
    rf"(?:[^<]*+(?:{_PASSED})){{0,{_PASSED_MAX}}}+"
    rf"(?:[^<]*+(?:<(?:{_USUAL_ANCHOR}{_HELD}|a{_ENDS}({_ATTRIBUTES})>{_HELD}"
    rf"|(base|link|meta){_ENDS}({_ATTRIBUTES})>|iframe{_ENDS}({_ATTRIBUTES})>{_FRAME_REST}"
    rf"|title{_ENDS}{_REST}({_TITLE_REST})|({_SVG}))|\Z)|(?<=>)|[^<]*+<(.).*)",
    re.DOTALL,
)

# One match of `_ROWS`: the href of a usual anchor in double or single quotes, its rel, what it
# holds; the attributes of another anchor, what that holds; base, link or meta, and its attributes;
# those of an iframe; a title's text with the end tag; a drawing; what only a tree can tell.
Row = tuple[str, str, str, str, str, str, str, str, str, str, str, str]


# Before 3.11.5 Python lost its place in possessive repetitions that backtrack (gh-106052).
_SOUND: Final = sys.version_info >= (3, 11, 5)


def rows(html: str) -> list[Row] | None:
    """What a document has of links, base, meta and titles, in order; None: ask a tree.

    Linear. Rows with nothing in them are to be passed over.
    """
    if "\x00" in html or not _SOUND:
        return None
    found = [cast("Row", row.groups("")) for row in _ROWS.finditer(html)]
    return None if found[-1][-1] or (len(found) > 1 and found[-2][-1]) else found


# ---------------------------------------------------------------- anchors

# A tag or a comment in an anchor; nothing but "<" where there is none.
_HELD_TAG: Final = re.compile(
    rf"<(?:({_SVG})|(/?)([a-z][a-z0-9-]*+){_ENDS}({_ATTRIBUTES})>|{_COMMENT[1:]}|)"
)
_DRAWN_TAG: Final = re.compile(rf"{_COMMENT}|</?[a-zA-Z][^\t\n\f\r />]*+{_REST}")
# What may stand in an anchor without an effect on what else does, if it is closed there; blocks
# only where no paragraph is open around it.
_PHRASES: Final = re.compile(_PHRASE)
_BLOCKS: Final = re.compile(_BLOCK)
_VOID: Final = frozenset({"br", "img", "source", "wbr"})
_HEADING: Final = re.compile("h[1-6]")

# A paragraph of phrases with its end tag, and a document in which all are such.
_PARAGRAPH: Final = (
    rf"<p{_ENDS}{_REST}(?:[^<]++|</?(?:a|br|img|source|wbr|{_PHRASE}){_ENDS}{_REST}|{_COMMENT})"
    rf"{{0,{_PIECES_MAX}}}+</p>"
)


@cache
def _paragraphs() -> re.Pattern[str]:
    """Compiled when a page asks for it: that takes 6 ms."""
    return re.compile(
        rf"(?:[^<]*+(?:{_PARAGRAPH}|(?!<p{_ENDS})(?:{_PASSED})|<(?:(?:a|base|link|meta){_ENDS}"
        rf"{_REST}|iframe{_ENDS}{_REST}{_FRAME_REST}|title{_ENDS}{_REST}{_TITLE_REST}|{_SVG})))"
        rf"{{0,{_PASSED_MAX}}}+([^<]*+\Z)?+",
    )


def paragraphs_are_closed(html: str) -> bool:
    """Whether each paragraph of a document that has rows ends with its end tag and holds nothing
    but phrases, so that none is open around an anchor with more than those inside."""
    at, paragraphs = 0, _paragraphs()
    while (some := paragraphs.match(html, at)) is not None and some[1] is None:
        if some.end() == at:
            return False
        at = some.end()
    return True


def anchor_text(held: str, *, blocks: bool) -> str | None:
    """The text of an anchor that holds this (a field of a row), or its first image's `alt` if there
    is none; white space as it stands. None: ask a tree.

    `blocks`: no paragraph is open around it, so it may hold more than phrases.
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
        return None  # a block that is open takes what follows it out of the anchor
    text = markup.unescaped(text + held[at:-4])
    return text if text.strip() or alt is None else alt


def _may_begin(name: str, open_: Sequence[str]) -> bool:
    """Whether a block ends nothing where it begins, these elements of the anchor being open."""
    if _BLOCKS.fullmatch(name) is None or "p" in open_:
        return False
    if name == "li":
        return open_[-1:] in (["ul"], ["ol"])
    return not (open_ and _HEADING.fullmatch(name) and _HEADING.fullmatch(open_[-1]))
