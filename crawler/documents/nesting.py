"""A linear look at markup before it meets a parser whose worst case is not linear.

Lexbor's time grows with the square of the nesting, of the attributes of one tag (40,000 take two
seconds), and of formatting elements never closed: each new block gets a copy of every one of them,
attributes and all, and 60 KB of those cost 2 s and 500 MB. `is_tangled` finds such documents, made
to hide or not; markup.py reads them instead, tag by tag.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from crawler.documents.markup import ATTRIBUTE, RAW_TEXT, raw_text_end

# Open elements at a time: browsers stop at 512, real pages stay under 100.
NESTING_MAX: Final = 512
# Formatting elements among them: they are copied, and the text of each anchor is read whole.
FORMATTING_MAX: Final = 50
# Bytes of formatting tags that the parser may be made to copy: at 0.2 µs and 50 bytes of memory for
# each (measured at the worst, single letters as attributes) 0.1 s and 25 MB.
COPIED_BYTES_MAX: Final = 500_000
# Attributes of one tag: real ones have under 30, and 100 of them cost 12 µs.
ATTRIBUTES_MAX: Final = 100
# <html> and <body> tags: the attributes of each further one are merged into the first, one by one.
ROOTS_MAX: Final = 20
# In documents no larger than this the nesting alone is harmless (a millisecond at the worst), and
# one element, such as the one `a` that can be open at a time, is copied in under 0.1 s.
TAGS_SAFE: Final = 800
BYTES_SAFE: Final = 65_536
# Beyond so many tags not even a flat tree is built: it would take a tenth of a gigabyte.
TREE_TAGS_MAX: Final = 300_000

_NAME = rb"[A-Za-z][^\t\n\f\r />]*+"
_ATTRIBUTES = rb"(?:[\t\n\f\r /]*+" + ATTRIBUTE + rb")"
_SPACE = rb"[\t\n\f\r />]"
_FOREIGN_ROOT: Final = re.compile(rb"<(?:svg|math)(?=[\t\n\f\r />])", re.IGNORECASE)
_CDATA: Final = b"<![CDATA["

# One match for each step of the walk. Possessive throughout, and each form also ends with the text:
# no byte is looked at twice in vain. A leaf is an element with only text inside; it leaves nothing
# open, and half the tags of a page are in leaves.
_STEP: Final = re.compile(
    rb"<(?:("
    + _NAME
    + rb")"
    + _ATTRIBUTES
    + rb"{0,%d}+([\t\n\f\r /]*+)(?:>|\Z)" % ATTRIBUTES_MAX
    + rb"([^<]*+</\1[\t\n\f\r ]*+>)?+"
    rb"|/(" + _NAME + rb")" + _ATTRIBUTES + rb"*+[\t\n\f\r /]*+(?:>|\Z)"
    rb"|([A-Za-z])"
    rb"|!--(?:-?>|.*?(?:--!?>|\Z))"
    rb"|[!?/][^>]*+(?:>|\Z))",
    re.DOTALL,
)
# The groups above, which `lastindex` tells apart: the name and the end of a start tag, the rest of
# a leaf, the name of an end tag, a tag with too many attributes.
_TAG, _SLASH, _LEAF, _END, _MANY = 1, 2, 3, 4, 5


def _names(words: bytes) -> frozenset[bytes]:
    return frozenset(words.split())


_VOID: Final = _names(
    b"area base basefont bgsound br col embed frame hr img input keygen link meta param source"
    b" track wbr"
)
# In SVG and MathML the other void names nest; these end the foreign content instead.
_VOID_EVERYWHERE: Final = _names(b"br embed hr img meta")
_FORMATTING: Final = _names(b"a b big code em font i nobr s small strike strong tt u")
_ROOTS: Final = _names(b"html body")
# Where raw text may not be raw, and where void elements may nest.
_UNUSUAL: Final = _names(b"svg math select frameset")
_FOREIGN: Final = _names(b"svg math")
_SVG: Final = _names(
    b"animate animatemotion animatetransform circle clippath defs ellipse filter g line"
    b" lineargradient marker mask path pattern polygon polyline radialgradient rect stop symbol"
    b" text tspan use"
)
_SVG_LEAF: Final = _SVG | _names(b"title desc style")
# The elements that a new one ends, when they are the innermost.
_ENDED_BY: Final = {
    b"p": _names(b"p"),
    b"li": _names(b"li"),
    b"option": _names(b"option"),
    b"dt": _names(b"dt dd"),
    b"dd": _names(b"dt dd"),
    b"td": _names(b"td th"),
    b"th": _names(b"td th"),
    b"tr": _names(b"td th tr"),
}
_NEED_NO_END: Final = _names(b"p li option optgroup dt dd td th tr tbody thead tfoot")
# These end tags also end elements of the kind above that stand open inside.
_CLOSERS: Final = _names(
    b"article aside blockquote center dd details div dl dt fieldset figure footer form header li"
    b" main nav ol section select table tbody td tfoot th thead tr ul"
)


@cache
def _suspect() -> re.Pattern[bytes]:
    """A tag with too many attributes, or a formatting element's with those it has. Compiled, in
    3 ms, when a page needs a tree."""
    # The letters are spelled in both cases because ignoring case takes three times as long.
    return re.compile(
        rb"<(?:"
        + _NAME
        + _ATTRIBUTES
        + rb"{%d}" % (ATTRIBUTES_MAX + 1)
        + rb"|(?=[BCEFINSTUbcefinstu][A-Za-z]{0,5}"
        + _SPACE
        + rb")(?=((?:[BbIiSsUu]|[Bb][Ii][Gg]"
        rb"|[Cc][Oo][Dd][Ee]|[Ee][Mm]|[Ff][Oo][Nn][Tt]|[Nn][Oo][Bb][Rr]|[Ss][Mm][Aa][Ll][Ll]"
        rb"|[Ss][Tt][Rr][Ii][Kk][Ee]|[Ss][Tt][Rr][Oo][Nn][Gg]|[Tt][Tt])(?="
        + _SPACE
        + rb")"
        + _ATTRIBUTES
        + rb"*+)))"
    )


def is_tangled(html: bytes) -> bool:
    """Whether a document (UTF-8, or ASCII where it matters) may cost Lexbor more than linear time.

    Errs on the side of yes. Linear itself.
    """
    tags = html.count(b"<")
    if tags <= TAGS_SAFE and len(html) <= BYTES_SAFE:
        formatting = _suspect().findall(html)
        if b"" in formatting:
            return True
        # No more can be copied than all of them at each tag.
        if sum(map(len, formatting)) * tags <= COPIED_BYTES_MAX:
            return False
    if tags > TREE_TAGS_MAX:
        return True
    if _CDATA in html and _FOREIGN_ROOT.search(html):
        return True  # text or markup, depending on what is open: not worth telling apart
    return _nests(html)


def _nests(html: bytes) -> bool:
    """Walk the tags, with a stack that is at least as deep as the parser's (but for the elements
    that a table implies, at most two for each of ours).

    Therefore: an element counts as open until an end tag stands right where it must end it; and
    where the parser might read raw text as markup, we do not go on.
    """
    open_: list[bytes] = []
    weights: list[int] = []  # bytes of the formatting tags in `open_`
    weight = copied = roots = unusual = foreign = 0
    svg_at = -1  # where in `open_` an <svg> stands, of which all so far is known to be plain SVG
    at: int | None = 0
    while at is not None:
        steps = _STEP.finditer(html, at)
        at = None
        for step in steps:
            kind = step.lastindex
            if kind is None:  # a comment
                continue
            if kind == _END:
                if not open_:
                    continue
                name = step[_END].lower()
                if open_[-1] == name:
                    open_.pop()
                    if name in _FORMATTING:
                        weight -= weights.pop()
                    elif name in _UNUSUAL:
                        unusual -= 1
                        foreign -= name in _FOREIGN
                        svg_at = -1
                    continue
                svg_at = -1
                if name in _CLOSERS and not foreign:
                    depth = len(open_) - 1
                    while depth > 0 and open_[depth] != name and open_[depth] in _NEED_NO_END:
                        depth -= 1
                    if open_[depth] == name:
                        del open_[depth:]
                        unusual -= name == b"select"
                continue
            if kind == _MANY:
                return True
            name = step[_TAG].lower()
            copied += weight
            if svg_at >= 0 and name not in (_SVG_LEAF if kind == _LEAF else _SVG):
                svg_at = -1
            if name in _ROOTS:
                roots += 1
                if roots > ROOTS_MAX:
                    return True
            if kind == _LEAF:
                continue
            if name in _RAW_TEXT_AND_REST:
                if name == b"plaintext":
                    return unusual > 0 or copied > COPIED_BYTES_MAX
                at = raw_text_end(html, step.end(), name)
                if unusual and html.find(b"<", step.end(), at) >= 0:
                    return True
                break
            if svg_at >= 0 and step[_SLASH].endswith(b"/"):
                continue
            if name in _VOID and (not unusual or name in _VOID_EVERYWHERE):
                continue
            if name in _ENDED_BY and not foreign:
                ended = _ENDED_BY[name]
                while open_ and open_[-1] in ended:
                    open_.pop()
            open_.append(name)
            if len(open_) > NESTING_MAX or copied > COPIED_BYTES_MAX:
                return True
            if name in _FORMATTING:
                weights.append(step.end() - step.start())
                weight += weights[-1]
                if len(weights) > FORMATTING_MAX:
                    return True
            elif name in _UNUSUAL:
                unusual += 1
                foreign += name in _FOREIGN
                if name == b"svg" and svg_at < 0:
                    svg_at = len(open_) - 1
    return copied > COPIED_BYTES_MAX


_RAW_TEXT_AND_REST: Final = RAW_TEXT | {b"plaintext"}
