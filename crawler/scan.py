"""The links of an ordinary page by one regular expression: exactly what a tree would say, or no
answer.

A tree costs 240 µs for a page of 23 KB with 52 links (65 to build it, the rest to ask it); one
`findall` costs 70 µs, because what is of no interest is passed over inside the regular expression.
It tokenizes as WHATWG HTML, 13.2.5, does. Where the tree could differ from the order of the tags
it stops and says so, and the page gets its tree: content in a table but outside its cells (which
moves before the table), framesets, templates, foreign content beyond simple drawings, selects with
more than options, raw text that is not closed, upper-case tags, image maps, NUL.

So the tree remains the meaning, and tests/crawler/test_scan.py holds the two together.
"""

from __future__ import annotations

import re
from typing import Final

from crawler import markup

_SPACE: Final = r"[\t\n\f\r ]"
_ENDS: Final = r"(?=[\t\n\f\r />])"  # behind a tag's name

# ---------------------------------------------------------------- tags

_VALUE: Final = r"""(?:"[^"]*+"|'[^']*+'|[^\t\n\f\r >"'][^\t\n\f\r >]*+|(?=>))"""
_ATTRIBUTE: Final = (
    rf"[^\t\n\f\r />][^\t\n\f\r />=]*+(?:{_SPACE}*+={_SPACE}*+{_VALUE}|(?!{_SPACE}*+=))"
)
_ATTRIBUTES: Final = rf"(?:[\t\n\f\r /]++|{_ATTRIBUTE})*+"
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
_COMMENT: Final = r"<!--(?!-?>)(?:[^-]++|-(?!-!?>))*+--!?>"
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
_SCRIPT: Final = rf"<script{_ENDS}{_REST}(?:[^<]++|<(?!/?[sS][cC][rR]))*+</script>"
_STYLE: Final = rf"<style{_ENDS}{_REST}(?:[^<]++|<(?!/[sS][tT]))*+</style>"
_TEXTAREA: Final = rf"<textarea{_ENDS}{_REST}(?:[^<]++|<(?!/[tT][eE]))*+</textarea>"
_SELECT: Final = rf"<select{_ENDS}{_REST}(?:[^<]++|</?opt(?:ion|group){_ENDS}{_REST})*+</select>"
# Names that are nothing else in HTML, do not end the drawing, and have no HTML inside.
_DRAWN: Final = (
    r"(?:path|g|circle|ellipse|rect|line|poly(?:line|gon)|use|defs|symbol|clipPath|mask|stop"
    rf"|text|tspan|(?:linear|radial)Gradient|animate(?:Transform)?|filter|fe[A-Z][A-Za-z]*+){_ENDS}"
)
_SVG: Final = (
    rf"svg{_ENDS}{_REST}(?<!/>)(?:[^<]++|</?{_DRAWN}{_REST}"
    r"|<title>[^<]*+</title>|<desc>[^<]*+</desc>)*+</svg>"
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
_HELD: Final = rf"(?=((?:[^<]++|<(?!/?[aA]{_ENDS}))*+</a>)?+)"

_ROWS: Final = re.compile(
    rf"(?:[^<]*+(?:{_END}|<{_NAME}{_REST}|{_CELL}|{_BETWEEN}"
    rf"|{_COMMENT}|{_SCRIPT}|{_STYLE}|{_SELECT}|{_TEXTAREA}|{_BOGUS}|{_NO_TAG}))*+"
    rf"[^<]*+(?:<(?:{_USUAL_ANCHOR}{_HELD}|a{_ENDS}({_ATTRIBUTES})>{_HELD}"
    rf"|(base|link|meta){_ENDS}({_ATTRIBUTES})>"
    rf"|iframe{_ENDS}({_ATTRIBUTES})>(?:[^<]++|<(?!/[iI][fF]))*+</iframe>"
    rf"|title{_ENDS}{_REST}((?:[^<]++|<(?!/[tT][iI]))*+</title>)"
    rf"|({_SVG})|(.).*)|\Z)",
    re.DOTALL,
)


# One match of `_ROWS`: the href of a usual anchor in double or single quotes, its rel, what it
# holds; the attributes of another anchor, what that holds; base, link or meta, and its attributes;
# those of an iframe; a title's text with the end tag; a drawing; what only a tree can tell.
Row = tuple[str, str, str, str, str, str, str, str, str, str, str, str]


def rows(html: str) -> list[Row] | None:
    """What a document has of links, base, meta and titles, in order; None: ask a tree.

    Linear. Rows with nothing in them are to be passed over.
    """
    if "\x00" in html:
        return None
    found: list[Row] = _ROWS.findall(html)
    return None if found[-1][-1] or (len(found) > 1 and found[-2][-1]) else found


# ---------------------------------------------------------------- anchors

_HELD_TAG: Final = re.compile(
    rf"<(?:(/?)([a-z][a-z0-9]*+){_ENDS}({_ATTRIBUTES})>|!--(?!-?>)(?:[^-]++|-(?!-!?>))*+--!?>|)"
)
_HELD_SVG: Final = re.compile(f"<{_SVG}")
_TAG: Final = re.compile(r"<[^>]*+>")
# What may stand in an anchor without an effect on what else does.
_PHRASES: Final = re.compile(
    r"abbr|b|bd[io]|big|cite|code|data|dfn|em|font|i|kbd|mark|q|s|samp|small|span|strike|strong"
    r"|su[bp]|time|tt|u|var"
)
_VOID_PHRASES: Final = frozenset({"br", "img", "wbr"})


def anchor_text(held: str) -> str | None:
    """The text of an anchor that holds this (a field of a row), or its first image's `alt` if there
    is none; white space as it stands. None: ask a tree."""
    if held.find("<") == len(held) - 4:  # the end tag alone
        return markup.unescaped(held[:-4]) if "&" in held else held[:-4]
    if not held:
        return None
    text, alt, at = "", None, 0
    open_: list[str] = []
    if "<svg" in held:
        held = _HELD_SVG.sub(_svg_text, held)
    for tag in _HELD_TAG.finditer(held, 0, len(held) - 4):
        text += held[at : tag.start()]
        at = tag.end()
        end, name, attributes = tag.groups()
        if name is None:
            if at == tag.start() + 1:
                return None
        elif end:
            if not open_ or open_.pop() != name:
                return None
        elif _PHRASES.fullmatch(name):
            open_.append(name)
        elif name not in _VOID_PHRASES:
            return None
        elif name == "img" and alt is None:
            alt = markup.attributes(attributes.encode()).get("alt")
    text = markup.unescaped(text + held[at:-4])
    return text if text.strip() or alt is None else alt


def _svg_text(svg: re.Match[str]) -> str:
    return _TAG.sub("", svg[0])
