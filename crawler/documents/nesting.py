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

from crawler.documents.markup import ATTRIBUTE, RAW_TEXT_AND_REST, raw_text_end
from crawler.documents.merged_text import SPECIAL, MergedText
from crawler.documents.open_elements import BREAKING_OUT, FORMATTING, MARKERS

# Open elements at a time: browsers stop at 512, real pages stay under 100.
NESTING_MAX: Final = 512
# Formatting elements among them: they are copied, and the text of each anchor is read whole.
FORMATTING_MAX: Final = 50
# Bytes of formatting tags that the parser may be made to copy: at 0.2 µs and 50 bytes of memory for
# each (measured at the worst, single letters as attributes) 0.1 s and 25 MB.
COPIED_BYTES_MAX: Final = 500_000
# Bytes of text that the parser may be made to copy, in 0.1 s at the worst. It frees none of them
# before the page has been read.
MERGED_BYTES_MAX: Final = 100_000_000
# Attributes of one tag: real ones have under 30, and 100 of them cost 12 µs.
ATTRIBUTES_MAX: Final = 100
# Tags of html and body, each further one of which costs as much as those before: the attributes
# are merged into the first's, one by one; comments after an end tag are put behind the body.
ROOTS_MAX: Final = 40
# Open elements that the parser looks at for each byte of the document: tags that close others, and
# end tags of what is not innermost, search the stack, at up to 6 ns for each. Real pages stay under
# a half; 300 KB of such tags take it some 40 ms at the worst.
STEPS_PER_BYTE_MAX: Final = 8
# In documents no larger than this the nesting alone is harmless (a millisecond at the worst), and
# one element, such as the one `a` that can be open at a time, is copied in under 0.1 s.
TAGS_SAFE: Final = 800
BYTES_SAFE: Final = 65_536
# Beyond so many tags not even a flat tree is built: it would take a tenth of a gigabyte.
TREE_TAGS_MAX: Final = 300_000

_NAME = rb"[A-Za-z][^\t\n\f\r />]*+"
_ATTRIBUTES = rb"(?:[\t\n\f\r /]*+" + ATTRIBUTE + rb")"
_SPACE = rb"[\t\n\f\r />]"

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
    rb"|(!\[CDATA\[)"
    rb"|[!?/][^>]*+(?:>|\Z))",
    re.DOTALL,
)
# The groups above, which `lastindex` tells apart: the name and the end of a start tag, the rest of
# a leaf, the name of an end tag, a tag with too many attributes, the beginning of CDATA.
_TAG, _SLASH, _LEAF, _END, _MANY, _CDATA = 1, 2, 3, 4, 5, 6


def _names(words: bytes) -> frozenset[bytes]:
    return frozenset(words.split())


_VOID: Final = _names(
    b"area base basefont bgsound br col embed frame hr img input keygen link meta param source"
    b" track wbr"
)
# In SVG and MathML the other void names nest; these end the foreign content instead.
_VOID_EVERYWHERE: Final = _names(b"br embed hr img meta")
_ROOTS: Final = _names(b"html body")
# Where raw text may not be raw, and where void elements may nest.
_UNUSUAL: Final = _names(b"svg math frameset")
_FOREIGN: Final = _names(b"svg math")
_COUNTED: Final = FORMATTING | _UNUSUAL | _ROOTS
# Start tags that end foreign content (WHATWG HTML, 13.2.6.5), and those in which HTML begins again.
_HTML_INSTEAD: Final = BREAKING_OUT | _names(b"font")
_HTML_AGAIN: Final = _HTML_INSTEAD | _names(
    b"annotation-xml desc foreignobject mi mn mo ms mtext title"
)
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
_PARAGRAPH: Final = _names(b"p")
_ANY: Final = _names(
    b"a button caption colgroup dd dt h1 h2 h3 h4 h5 h6 li nobr optgroup option p rb rp rt rtc"
    b" select table tbody td tfoot th thead tr"
)
# The elements that a start tag may close wherever they stand in the stack, with all inside.
_CLOSES: Final = {
    **dict.fromkeys(
        _names(
            b"address article aside blockquote center details dialog dir div dl fieldset figcaption"
            b" figure footer form header hgroup hr listing main menu nav ol p plaintext pre search"
            b" section summary ul xmp"
        ),
        _PARAGRAPH,
    ),
    **dict.fromkeys(
        _names(
            b"body button caption col colgroup dd dt frameset head html input keygen li optgroup"
            b" option rb rp rt rtc select table tbody td template textarea tfoot th thead tr"
        ),
        _ANY,
    ),
    **dict.fromkeys(_names(b"h1 h2 h3 h4 h5 h6"), _names(b"p h1 h2 h3 h4 h5 h6")),
    b"a": _names(b"a"),
    b"nobr": _names(b"nobr"),
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
    return _Walk().is_endless(html)


class _Walk:
    """A walk over the tags, with a stack that is at least as deep as the parser's (but for the
    elements that a table implies, at most two for each of ours).

    Therefore: an element counts as open until an end tag stands right where it must end it; and
    where the parser might read raw text as markup, the walk ends.
    """

    __slots__ = (
        "anchor_at",
        "anchor_depth",
        "copied",
        "doubted",
        "exact_at",
        "foreign",
        "formatting",
        "open",
        "steps",
        "unusual",
        "weight",
        "weights",
    )

    def __init__(self) -> None:
        self.open: list[bytes] = []
        self.weights: list[int] = []  # bytes of the formatting tags in `open`
        self.weight = self.formatting = 0  # bytes of all of them, and their number
        # Where in `weights` and in `open` the latest anchor is, if no element since keeps another
        # from ending it; -1 if one does.
        self.anchor_at = self.anchor_depth = -1
        # So many of these bytes may belong to elements that the parser has closed without their end
        # tag, to open them again, as copies, at the next tag.
        self.doubted = 0
        self.copied = 0  # the sum of that over all start tags
        self.steps = 0  # open elements that the parser may have looked at in search of one
        self.unusual = self.foreign = 0  # of these kinds in `open`
        # Where in `open` an <svg> or <math> stands since which all is foreign, exactly as the
        # parser has it; -1 if there is none.
        self.exact_at = -1

    def is_endless(self, html: bytes) -> bool:
        """Whether a limit is passed anywhere. Linear."""
        roots = 0
        open_ = self.open
        texts = MergedText()
        behind = 0  # where the step before ended
        steps_max = STEPS_PER_BYTE_MAX * max(len(html), BYTES_SAFE)
        at: int | None = 0
        while at is not None:
            steps = _STEP.finditer(html, at)
            at = None
            for step in steps:
                kind = step.lastindex
                if texts.plain:
                    texts.run += step.start() - behind
                elif step.start() > behind:
                    texts.add(html[behind : step.start()])
                behind = step.end()
                if kind is None:  # a comment
                    texts.comment()
                    continue
                if kind == _END:
                    name = step[_END].lower()
                    attributes = behind - step.end(_END) > 1
                    if attributes or not texts.plain:
                        texts.end(name, attributes=attributes)
                    if open_ and open_[-1] == name and name not in _COUNTED:
                        open_.pop()
                        continue
                    if name in _ROOTS:
                        roots += 1
                        if roots > ROOTS_MAX:
                            return True
                    if open_:
                        self.end(name)
                    continue
                if kind == _MANY:
                    return True
                if kind == _CDATA:
                    # Text in foreign content; in HTML a comment, which ends with the next ">".
                    if self.foreign and (self.exact_at < 0 or self.unusual > self.foreign):
                        return True
                    ending = b"]]>" if self.foreign else b">"
                    at = html.find(ending, step.end())
                    at = None if at < 0 else at + len(ending)
                    break  # its text is added with what stands behind it
                name = step[_TAG].lower()
                if texts.plain and name not in SPECIAL and not self.unusual:
                    texts.run = 0
                else:
                    attributes = step.start(_SLASH) > step.end(_TAG)
                    texts.start(name, attributes=attributes, unusual=self.unusual > 0)
                if self.weight > self.doubted and self.may_close(name):
                    self.doubted = self.weight
                self.copied += self.doubted
                if name in _CLOSES:
                    self.steps += len(open_)
                if name in _ROOTS:
                    roots += 1
                    if roots > ROOTS_MAX:
                        return True
                if kind == _LEAF:
                    if texts.plain:
                        texts.run += behind - step.end(_SLASH)
                    else:
                        texts.add(step[_LEAF])
                        texts.end(name, attributes=False)
                    if self.exact_at >= 0 and (
                        name in _HTML_INSTEAD or step[_SLASH].endswith(b"/")
                    ):
                        self.exact_at = -1
                    continue
                if name in _VOID and not self.unusual:
                    continue
                if name in RAW_TEXT_AND_REST and self.exact_at < 0:
                    if name == b"plaintext":
                        at = None
                        if self.unusual:
                            return True
                        break
                    at = raw_text_end(html, step.end(), name)
                    if self.unusual and html.find(b"<", step.end(), at) >= 0:
                        return True
                    behind = at
                    break
                self.start(name, step)
                if (
                    len(open_) > NESTING_MAX
                    or self.copied > COPIED_BYTES_MAX
                    or self.formatting > FORMATTING_MAX
                ):
                    return True
        return (
            self.copied > COPIED_BYTES_MAX
            or self.steps > steps_max
            or texts.copied_bytes > MERGED_BYTES_MAX
        )

    def may_close(self, name: bytes) -> bool:
        """Whether a start tag may close an element with a formatting element inside."""
        if self.exact_at >= 0:
            return name in _HTML_INSTEAD
        if self.unusual:
            return True
        return name in _CLOSES and not _CLOSES[name].isdisjoint(self.open)

    def start(self, name: bytes, step: re.Match[bytes]) -> None:
        """Open an element, if it can be open, whose start tag is `step`."""
        open_ = self.open
        closed = (self.unusual > 0 or name in _FOREIGN) and step[_SLASH].endswith(b"/")
        if self.exact_at >= 0:
            if name in (_HTML_INSTEAD if closed else _HTML_AGAIN):
                self.exact_at = -1
            if closed:
                return
        elif (closed and not self.unusual) or (name in _VOID_EVERYWHERE):
            return
        if name in _ENDED_BY and not self.foreign:
            ended = _ENDED_BY[name]
            while open_ and open_[-1] in ended:
                open_.pop()
        open_.append(name)
        if name in MARKERS:
            self.anchor_at = -1
        elif name in FORMATTING:
            if name == b"a" and not self.unusual:
                self.end_anchor()
                self.anchor_at = len(self.weights)
                self.anchor_depth = len(open_) - 1
            size = step.end() - step.start()
            self.weights.append(size)
            self.weight += size
            self.formatting += 1
        elif name in _UNUSUAL:
            self.unusual += 1
            if name in _FOREIGN:
                self.foreign += 1
                if self.exact_at < 0 and not closed:
                    self.exact_at = len(open_) - 1

    def end_anchor(self) -> None:
        """Of anchors only the latest is copied: another `<a>` takes it out of the list of active
        formatting elements, unless more than seven blocks are open in it (13.2.6.4.7, the adoption
        agency algorithm), although it may stay open here."""
        if self.anchor_at >= 0 and len(self.open) - self.anchor_depth <= 8:
            self.weight -= self.weights[self.anchor_at]
            self.weights[self.anchor_at] = 0
            self.formatting -= 1
            self.anchor_at = -1
            self.doubted = min(self.doubted, self.weight)

    def end(self, name: bytes) -> None:
        """Close an element, if that is sure to be what its end tag does."""
        open_ = self.open
        depth = len(open_) - 1
        if open_[depth] != name:
            self.steps += len(open_)
            self.doubted = self.weight
            lowest = max(self.exact_at, 0)
            if self.exact_at >= 0:
                while depth >= lowest and open_[depth] != name:
                    depth -= 1
            elif name in _CLOSERS and not self.foreign:
                while depth > 0 and open_[depth] != name and open_[depth] in _NEED_NO_END:
                    depth -= 1
            if depth < lowest or open_[depth] != name:
                self.exact_at = -1
                return
        while len(open_) > depth:
            name = open_.pop()
            if name in FORMATTING:
                size = self.weights.pop()
                self.weight -= size
                self.formatting -= size > 0
            elif name in _UNUSUAL:
                self.unusual -= 1
                self.foreign -= name in _FOREIGN
        self.doubted = min(self.doubted, self.weight)
        if self.anchor_at >= len(self.weights):
            self.anchor_at = -1
        if depth <= self.exact_at:
            self.exact_at = -1
