"""Detection of markup that would take the HTML parser more than linear time.

Lexbor's time grows with the square of the nesting depth, of the attributes of one tag, and of
unclosed formatting elements, all of which are copied into each new block. `is_tangled` finds such
documents. They are read by markup.py instead, tag by tag.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from crawler.documents.markup import ATTRIBUTE, RAW_TEXT_AND_REST, raw_text_end
from crawler.documents.merged_text import SPECIAL, MergedText
from crawler.documents.open_elements import (
    BREAKING_OUT,
    CLOSING_P,
    FORMATTING,
    HEADINGS,
    MARKERS,
    VOID,
    names,
)

# Open elements. Browsers stop at 512. Real pages stay below 100.
NESTING_MAX: Final = 512
# Open formatting elements, which are copied. The text of each open anchor is also read completely.
FORMATTING_MAX: Final = 50
# Bytes of formatting tags that the parser copies. Each takes at most 0.2 µs and 50 bytes of memory,
# measured with single letters as attributes: 0.1 s and 25 MB in total.
COPIED_BYTES_MAX: Final = 500_000
# Bytes of text that the parser copies, in at most 0.1 s. It frees them only after parsing.
MERGED_BYTES_MAX: Final = 100_000_000
# Attributes of one tag. Real tags have fewer than 30. Parsing 100 of them takes 12 µs.
ATTRIBUTES_MAX: Final = 100
# Tags named html or body. Each further one takes as long as all before it: their attributes are
# merged into the first, and comments after an end tag are moved behind the body.
ROOTS_MAX: Final = 40
# Open elements that the parser examines per byte of the document, at 6 ns each: start tags that
# close other elements, and end tags of elements that are not innermost, search the stack. Real
# pages stay below 0.5.
STEPS_PER_BYTE_MAX: Final = 8
# In documents up to this size, nesting costs at most a millisecond, and copies of one element at
# most 0.1 s.
TAGS_SAFE: Final = 800
BYTES_SAFE: Final = 65_536
# A tree of more tags than this takes 100 MB even if it is flat.
TREE_TAGS_MAX: Final = 300_000

_NAME = rb"[A-Za-z][^\t\n\f\r />]*+"
_ATTRIBUTES = rb"(?:[\t\n\f\r /]*+" + ATTRIBUTE + rb")"
_SPACE = rb"[\t\n\f\r />]"

# One match per step of the walk. Possessive, and each form may also end with the document, so no
# byte is examined twice. A leaf is an element with nothing but text inside.
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
# The groups of _STEP, as reported by `lastindex`: name and end of a start tag, the rest of a leaf,
# the name of an end tag, a tag with too many attributes, the start of CDATA.
_TAG, _SLASH, _LEAF, _END, _TOO_MANY, _CDATA = 1, 2, 3, 4, 5, 6

# In SVG and MathML, other void elements nest. These end the foreign content instead.
_VOID_EVERYWHERE: Final = names(b"br embed hr img meta")
_ROOTS: Final = names(b"html body")
_FOREIGN: Final = names(b"svg math")
# Elements in which raw text may contain markup and void elements may nest.
_UNUSUAL: Final = _FOREIGN | {b"frameset"}
_COUNTED: Final = FORMATTING | _UNUSUAL | _ROOTS
# Start tags that end foreign content (WHATWG HTML, 13.2.6.5), and those that may resume HTML in it.
_ENDING_FOREIGN: Final = BREAKING_OUT | {b"font"}
_RESUMING_HTML: Final = _ENDING_FOREIGN | names(
    b"annotation-xml desc foreignobject mi mn mo ms mtext title"
)
# The elements that a start tag closes if they are innermost.
_ENDED_BY: Final = {
    b"p": names(b"p"),
    b"li": names(b"li"),
    b"option": names(b"option"),
    b"dt": names(b"dt dd"),
    b"dd": names(b"dt dd"),
    b"td": names(b"td th"),
    b"th": names(b"td th"),
    b"tr": names(b"td th tr"),
}
_CLOSED_BY_PARTS: Final = names(
    b"a button caption colgroup dd dt h1 h2 h3 h4 h5 h6 li nobr optgroup option p rb rp rt rtc"
    b" select table tbody td tfoot th thead tr"
)
# The elements that a start tag may close anywhere in the stack, including their content.
_CLOSES: Final = {
    **dict.fromkeys(CLOSING_P, names(b"p")),
    **dict.fromkeys(
        names(
            b"body button caption col colgroup dd dt frameset head html input keygen li optgroup"
            b" option rb rp rt rtc select table tbody td template textarea tfoot th thead tr"
        ),
        _CLOSED_BY_PARTS,
    ),
    **dict.fromkeys(HEADINGS, HEADINGS | {b"p"}),
    b"a": names(b"a"),
    b"nobr": names(b"nobr"),
}
_END_OPTIONAL: Final = names(b"p li option optgroup dt dd td th tr tbody thead tfoot")
# End tags that also close open elements of the kind above.
_CLOSERS: Final = names(
    b"article aside blockquote center dd details div dl dt fieldset figure footer form header li"
    b" main nav ol section select table tbody td tfoot th thead tr ul"
)


@cache
def _suspect() -> re.Pattern[bytes]:
    """Match a tag with too many attributes, or a formatting tag with all of its attributes.

    Compiled on first use, because that takes 3 ms.
    """
    # Both cases are spelled out because re.IGNORECASE takes three times as long.
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
    """Return whether parsing a document may take more than linear time.

    The result may be a false positive. `html` is UTF-8 or another superset of ASCII. Linear.
    """
    tags = html.count(b"<")
    if tags <= TAGS_SAFE and len(html) <= BYTES_SAFE:
        formatting = _suspect().findall(html)
        if b"" in formatting:
            return True
        # At most all formatting tags are copied at each tag.
        if sum(map(len, formatting)) * tags <= COPIED_BYTES_MAX:
            return False
    return tags > TREE_TAGS_MAX or _CostEstimate().exceeds_limits(html)


@dataclass(slots=True, eq=False)
class _CostEstimate:
    """An upper bound of the parser's work, from a walk over the tags.

    The stack is at least as deep as the parser's, except for elements that tables imply, which are
    at most two per element here. For this, an element counts as open until an end tag certainly
    closes it. Where the parser might read raw text as markup, the walk gives up.

    open: names of the open elements.
    weights: sizes in bytes of the formatting tags among them; `weight` is their sum, `formatting`
        their number.
    anchor_at, anchor_depth: where in `weights` and in `open` the latest anchor is, or -1 if an
        element inside it prevents another anchor from ending it.
    doubted: bytes of formatting tags that the parser may have closed without their end tags. It
        would reopen them, as copies, at the next tag.
    copied: the sum of `doubted` over all start tags.
    steps: open elements that the parser may have examined in search of one.
    unusual, foreign: numbers of open elements of these kinds.
    exact_at: where in `open` an <svg> or <math> is since which the stack is exact, or -1.
    behind: where the previous step ended.
    """

    open: list[bytes] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)
    weight: int = 0
    formatting: int = 0
    anchor_at: int = -1
    anchor_depth: int = -1
    doubted: int = 0
    copied: int = 0
    steps: int = 0
    unusual: int = 0
    foreign: int = 0
    exact_at: int = -1
    behind: int = 0
    roots: int = 0
    gives_up: bool = False
    texts: MergedText = field(default_factory=MergedText)

    def exceeds_limits(self, html: bytes) -> bool:
        at: int | None = 0
        while at is not None and not self.gives_up:
            at = self._walk(html, at)
        return (
            self.gives_up
            or self.copied > COPIED_BYTES_MAX
            or self.steps > STEPS_PER_BYTE_MAX * max(len(html), BYTES_SAFE)
            or self.texts.copied_bytes > MERGED_BYTES_MAX
        )

    def _walk(self, html: bytes, at: int) -> int | None:
        """Walk to the next raw text or CDATA. Return where to resume, or None at the end."""
        texts, open_, behind = self.texts, self.open, self.behind
        for step in _STEP.finditer(html, at):
            kind = step.lastindex
            if texts.plain:
                texts.run += step.start() - behind
            elif step.start() > behind:
                texts.add(html[behind : step.start()])
            behind = step.end()
            if kind is None:
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
                    self._count_root()
                if open_:
                    self.end(name)
            elif kind <= _LEAF:
                resume = self._start_tag(html, step, kind)
                if resume is not None:
                    self.behind = resume
                    return resume
            elif kind == _CDATA:
                self.behind = behind
                return self._cdata(html, behind)
            else:
                self.gives_up = True
                return None
        return None

    def _cdata(self, html: bytes, at: int) -> int | None:
        """Skip CDATA, which is text in foreign content and a comment up to ">" in HTML."""
        if self.foreign and (self.exact_at < 0 or self.unusual > self.foreign):
            self.gives_up = True
            return None
        ending = b"]]>" if self.foreign else b">"
        end = html.find(ending, at)
        return None if end < 0 else end + len(ending)

    def _count_root(self) -> None:
        self.roots += 1
        if self.roots > ROOTS_MAX:
            self.gives_up = True

    def _start_tag(self, html: bytes, step: re.Match[bytes], kind: int) -> int | None:
        """Process a start tag. Return where to resume if raw text follows or the walk gives up."""
        texts, open_ = self.texts, self.open
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
            self._count_root()
        if kind == _LEAF:
            if texts.plain:
                texts.run += step.end() - step.end(_SLASH)
            else:
                texts.add(step[_LEAF])
                texts.end(name, attributes=False)
            if self.exact_at >= 0 and (name in _ENDING_FOREIGN or step[_SLASH].endswith(b"/")):
                self.exact_at = -1
            return None
        if name in VOID and not self.unusual:
            return None
        if name in RAW_TEXT_AND_REST and self.exact_at < 0:
            end = len(html) if name == b"plaintext" else raw_text_end(html, step.end(), name)
            if self.unusual and (name == b"plaintext" or html.find(b"<", step.end(), end) >= 0):
                self.gives_up = True
            return end
        closed = (self.unusual > 0 or name in _FOREIGN) and step[_SLASH].endswith(b"/")
        if self.exact_at >= 0:
            if name in (_ENDING_FOREIGN if closed else _RESUMING_HTML):
                self.exact_at = -1
            if closed:
                return None
        elif (closed and not self.unusual) or (name in _VOID_EVERYWHERE):
            return None
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
        if (
            len(open_) > NESTING_MAX
            or self.copied > COPIED_BYTES_MAX
            or self.formatting > FORMATTING_MAX
        ):
            self.gives_up = True
            return len(html)
        return None

    def may_close(self, name: bytes) -> bool:
        """Return whether a start tag may close an element with a formatting element inside."""
        if self.exact_at >= 0:
            return name in _ENDING_FOREIGN
        if self.unusual:
            return True
        return name in _CLOSES and not _CLOSES[name].isdisjoint(self.open)

    def end_anchor(self) -> None:
        """Exclude the latest anchor from copies.

        Another `<a>` removes it from the list of active formatting elements, unless more than seven
        blocks are open inside (WHATWG HTML, 13.2.6.4.7, "adoption agency algorithm").
        """
        if self.anchor_at >= 0 and len(self.open) - self.anchor_depth <= 8:
            self.weight -= self.weights[self.anchor_at]
            self.weights[self.anchor_at] = 0
            self.formatting -= 1
            self.anchor_at = -1
            self.doubted = min(self.doubted, self.weight)

    def end(self, name: bytes) -> None:
        """Close an element if its end tag certainly does."""
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
                while depth > 0 and open_[depth] != name and open_[depth] in _END_OPTIONAL:
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
