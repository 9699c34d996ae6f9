"""The stack of open elements, kept from tags alone: what a tag is depends on what is open.

In SVG and MathML `<title/>` is closed, `<script>` holds markup and `<![CDATA[` begins text; a
template's content is no part of the page. The rules are those of WHATWG HTML, 13.2.4.2 and 13.2.6,
without the nodes: nothing is moved or copied, because no tree is made. Each tag takes constant time
on average. These differ from a tree:

- Formatting elements that the parser opens anew, after the end of what held them, are not open here
  (13.2.4.3). This decides which end tags are heard where SVG or MathML is misnested with them, and
  an `<a>` of a template is copied behind it if an `<object>` or a cell of it is not closed there.
- Behind a `<col>` that stands directly in a template the parser ignores all but templates up to its
  end; here a `<style>` or `<script>` is raw text as elsewhere.
- What a frameset replaces, when it comes after something of a body, is not taken back.
- A form in a form, and a noscript in that of a head, which the parser ignores, count as elements.
- Content of a table outside of its cells is not moved before the table.
- No more than OPEN_MAX elements are open; a tag beyond that is read, and opens nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

# A browser stops at 512; beyond it what is open hardly matters, but memory does.
OPEN_MAX: Final = 100_000


def names(words: bytes) -> frozenset[bytes]:
    return frozenset(words.split())


VOID: Final = names(
    b"area base basefont bgsound br col embed frame hr image img input keygen link meta param"
    b" source track wbr"
)
# Start tags that end foreign content (13.2.6.5); font does with these attributes alone.
BREAKING_OUT: Final = names(
    b"b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img"
    b" li listing menu meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var"
)
_OF_FONT: Final = frozenset({"color", "face", "size"})
_HTML_ENCODINGS: Final = frozenset({"text/html", "application/xhtml+xml"})
# The only elements whose attributes matter here.
ATTRIBUTES_MATTER: Final = names(b"annotation-xml font input")
_BLOCKS_PASSED: Final = 8
HEADINGS: Final = names(b"h1 h2 h3 h4 h5 h6")
FORMATTING: Final = names(b"a b big code em font i nobr s small strike strong tt u")
_ROW_GROUPS: Final = names(b"tbody tfoot thead")
TABLE_PARTS: Final = _ROW_GROUPS | names(b"caption col colgroup td th tr")
_IMPLIED_ENDS: Final = names(b"dd dt li optgroup option p rb rp rt rtc")
_SPECIAL: Final = names(
    b"address applet area article aside base basefont bgsound blockquote body br button caption"
    b" center col colgroup dd details dir div dl dt embed fieldset figcaption figure footer form"
    b" frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html iframe img input keygen li link"
    b" listing main marquee menu meta nav noembed noframes noscript object ol p param plaintext pre"
    b" script search section select source style summary table tbody td template textarea tfoot th"
    b" thead title tr track ul wbr xmp"
)
_BLOCKS: Final = names(
    b"address applet article aside blockquote button center dd details dialog dir div dl dt"
    b" fieldset figcaption figure footer form header hgroup listing main marquee menu nav object ol"
    b" pre search section select summary ul"
)
CLOSING_P: Final = (
    HEADINGS
    | (_BLOCKS - names(b"applet button marquee object select"))
    | names(b"hr li p plaintext table xmp")
)
_SCOPES: Final = names(b"applet caption html marquee object select table td template th")
MARKERS: Final = names(b"applet caption marquee object td template th")
_TABLE_SCOPES: Final = names(b"html table template")
_FRAMESET_REFUSED_BY: Final = names(
    b"applet area body br button dd dt embed hr iframe image img input keygen li listing marquee"
    b" object pre select table textarea wbr xmp"
)
_OF_HEAD_NOSCRIPT: Final = names(b"basefont bgsound head html link meta noframes noscript style")
_OF_HEAD: Final = _OF_HEAD_NOSCRIPT | names(b"base script template title")
_MATHML_TEXT: Final = names(b"mi mn mo ms mtext")
_SVG_HTML: Final = names(b"desc foreignobject title")

# Classes of elements, whose latest can be asked for like a name's; no name has a space.
_HTML, _SVG, _MATHML, _DRAWING = b"  html", b"  svg", b"  mathml", b"  drawing"
_SCOPE, _BUTTON_SCOPE, _LIST_SCOPE, _TABLE_SCOPE = b"  scope", b"  button", b"  list", b"  table"
_IS_SPECIAL, _LIST_STOP, _MARKER, _HTML_INSIDE = b"  special", b"  stop", b"  marker", b"  inside"


def _classes_of(name: bytes) -> tuple[bytes, ...]:
    found = [name, _HTML]
    found += [_SCOPE, _BUTTON_SCOPE, _LIST_SCOPE] if name in _SCOPES else []
    found += [_BUTTON_SCOPE] if name == b"button" else []
    found += [_LIST_SCOPE] if name in (b"ol", b"ul") else []
    found += [_TABLE_SCOPE] if name in _TABLE_SCOPES else []
    found += [_IS_SPECIAL] if name in _SPECIAL else []
    found += [_LIST_STOP] if name in _SPECIAL - {b"address", b"div", b"p"} else []
    found += [_MARKER] if name in MARKERS else []
    return tuple(found)


_CLASSES: Final = {
    name: _classes_of(name) for name in _SPECIAL | _BLOCKS | _SCOPES | FORMATTING | _IMPLIED_ENDS
}
# What must not stand between an end tag and the element that it closes with all inside; for other
# names it is any special element.
_CLOSED_WITHIN: Final = {
    **dict.fromkeys(_BLOCKS | HEADINGS, _SCOPE),
    **dict.fromkeys(TABLE_PARTS | {b"table"}, _TABLE_SCOPE),
    b"li": _LIST_SCOPE,
    b"p": _BUTTON_SCOPE,
    b"template": b"template",
}
_FOREIGN_STOPS: Final = (_SCOPE, _BUTTON_SCOPE, _LIST_SCOPE, _IS_SPECIAL, _LIST_STOP)


class OpenElements:
    """What is open, from the document's beginning to the tag read last.

    Names are in lower case throughout. `foreign`: the innermost element is of SVG or MathML, so
    that CDATA is text and end tags close elements of these. `in_template`, `in_svg`: some element
    around is a `<template>` of HTML, an `<svg>`.
    """

    __slots__ = ("_at", "_framesets", "_in_head", "_may_be_frameset", "_stack")

    def __init__(self, *, frames: bool = True) -> None:
        """`frames`: the document may have framesets."""
        self._stack: list[tuple[bytes, ...]] = []  # the classes of each; its own name first
        self._at: dict[bytes, list[int]] = {}  # class -> where in the stack
        self._may_be_frameset = frames
        self._in_head = True
        self._framesets = -1  # how many are open; -1: this is no page of frames

    @property
    def foreign(self) -> bool:
        return bool(self._stack) and self._stack[-1][1] != _HTML

    @property
    def in_template(self) -> bool:
        return self._last(b"template") >= 0

    @property
    def in_svg(self) -> bool:
        return self._last(_DRAWING) >= 0

    @property
    def heeds_text(self) -> bool:
        """Whether text other than white space would still make a difference."""
        return self._in_head or self._may_be_frameset

    def add_text(self) -> None:
        """Take in text other than white space: with it the body begins, and no frameset follows."""
        self._may_be_frameset = False
        self._leave_head(b"")

    # ------------------------------------------------------------ tags

    def start(self, name: bytes, attributes: Mapping[str, str], *, closed: bool) -> bool | None:
        """Take in a start tag. True: its element is of SVG or MathML. None: there is no element,
        because the parser ignores the tag.

        `attributes` may be empty unless the name is in ATTRIBUTES_MATTER; `closed`: it ends in
        "/>".
        """
        stack = self._stack
        if stack and stack[-1][1] != _HTML and not self._begins_html(name):
            if name not in BREAKING_OUT and not (
                name == b"font" and not _OF_FONT.isdisjoint(attributes)
            ):
                if not closed:
                    self._start_foreign(name, attributes, stack[-1][1])
                return True
            self._pop_to(max(self._last(_HTML), self._last(_HTML_INSIDE)) + 1)
        if self._framesets >= 0:
            return self._start_in_frameset(name)
        self._leave_head(name)
        if name in (b"svg", b"math"):
            if not closed:
                self._start_foreign(name, attributes, _SVG if name == b"svg" else _MATHML)
            return True
        return False if self._start_html(name, attributes) else None

    def end(self, name: bytes) -> None:
        """Take in an end tag, of this name without its slash."""
        if self._framesets >= 0:
            self._framesets -= name == b"frameset" and self._framesets > 0
            return
        if name == b"br":
            self.add_text()
        elif name in (b"head", b"body", b"html") and not self._stack:
            self._in_head = False
        if self._stack and self._stack[-1][1] != _HTML:
            if name in (b"p", b"br"):
                self._pop_to(max(self._last(_HTML), self._last(_HTML_INSIDE)) + 1)
            elif (at := self._last(b" " + name)) > self._last(_HTML):
                self._pop_to(at)
                return
        self._end_html(name)

    # ------------------------------------------------------------ foreign content

    def _begins_html(self, name: bytes) -> bool:
        """Whether a start tag inside the innermost element, which is foreign, is read as HTML."""
        classes = self._stack[-1]
        if classes[0] == b" annotation-xml" and name == b"svg":
            return True
        if _HTML_INSIDE not in classes:
            return False
        return classes[1] == _SVG or (
            classes[0] == b" annotation-xml" or name not in (b"mglyph", b"malignmark")
        )

    def _start_foreign(self, name: bytes, attributes: Mapping[str, str], namespace: bytes) -> None:
        classes = [b" " + name, namespace]
        if name == b"svg":
            classes.append(_DRAWING)
        if name in (_SVG_HTML if namespace == _SVG else _MATHML_TEXT):
            classes += [*_FOREIGN_STOPS, _HTML_INSIDE]
        elif name == b"annotation-xml" and namespace == _MATHML:
            classes += _FOREIGN_STOPS
            if attributes.get("encoding", "").lower() in _HTML_ENCODINGS:
                classes.append(_HTML_INSIDE)
        self._push(tuple(classes))

    # ------------------------------------------------------------ HTML

    def _start_in_frameset(self, name: bytes) -> bool | None:
        if self._framesets > 0:
            if name == b"frameset":
                self._framesets += 1
            if name in (b"frame", b"frameset"):
                return False
        return False if name in (b"noframes", b"html") else None

    def _leave_head(self, name: bytes) -> None:
        """End the `<noscript>` of a head with what cannot stand in it."""
        if self._in_head and not self.in_template:
            self._in_head = name in _OF_HEAD
            if name not in _OF_HEAD_NOSCRIPT and self._stack and self._stack[-1][0] == b"noscript":
                self._pop_to(len(self._stack) - 1)

    def _start_html(self, name: bytes, attributes: Mapping[str, str]) -> bool:
        """Whether there is an element of it; what it closes is closed, and it is opened."""
        if name in _FRAMESET_REFUSED_BY and (
            name != b"input" or attributes.get("type", "").lower() != "hidden"
        ):
            self._may_be_frameset = False
        if name in (b"html", b"head", b"body", b"frame"):
            return name != b"frame"
        if name == b"frameset":
            if not self._may_be_frameset:
                return False
            self._pop_to(0)
            self._framesets = 1
            return True
        if name in TABLE_PARTS:
            return self._start_in_table(name)
        if name == b"select" and 0 <= self._last(_SCOPE) <= self._last(name):
            self._pop_to(self._last(name))  # it counts as the end tag
            return False
        self._close_for(name)
        if name not in VOID:
            self._push(_CLASSES.get(name) or (name, _HTML))
        return True

    def _close_for(self, name: bytes) -> None:
        """Close what this start tag ends (13.2.6.4.7)."""
        last = self._last
        if name in (b"li", b"dd", b"dt"):
            at = last(name) if name == b"li" else max(last(b"dd"), last(b"dt"))
            if at >= 0 and at >= last(_LIST_STOP):
                self._pop_to(at)
        elif name in FORMATTING:
            if last(name) > {b"a": last(_MARKER), b"nobr": last(_SCOPE)}.get(name, OPEN_MAX):
                self._end_formatting(name)
        elif name == b"button":
            if last(name) > last(_SCOPE):
                self._pop_to(last(name))
        elif name == b"table":
            # In a table, but in no cell, it ends that table.
            at = last(b"table")
            cell = max(last(b"td"), last(b"th"), last(b"caption"))
            if at > max(cell, last(b"template")):
                self._pop_to(at)
        elif name in (b"option", b"optgroup", b"hr") and self._stack:
            if last(b"select") > last(_IS_SPECIAL) - 1:
                for option in (b"option", b"optgroup") if name != b"option" else (b"option",):
                    if last(option) > last(_IS_SPECIAL):
                        self._pop_to(last(option))
            elif name != b"hr" and self._stack[-1][0] == b"option":
                self._pop_to(len(self._stack) - 1)
        elif name in (b"input", b"keygen"):
            if (at := last(b"select")) >= 0 and at >= last(_SCOPE):
                self._pop_to(at)
        elif name in (b"rb", b"rtc", b"rp", b"rt") and last(b"ruby") > last(_SCOPE):
            self._end_implied(_IMPLIED_ENDS - {b"rtc"} if name in (b"rp", b"rt") else _IMPLIED_ENDS)
        if name in CLOSING_P:
            if last(b"p") > last(_BUTTON_SCOPE):
                self._pop_to(last(b"p"))
            if name in HEADINGS and self._stack and self._stack[-1][0] in HEADINGS:
                self._pop_to(len(self._stack) - 1)

    def _start_in_table(self, name: bytes) -> bool:
        """A part of a table begins: what is open inside of the part around it is closed, and parts
        that were not written are opened."""
        last = self._last
        table = last(b"table")
        if table < 0 or table < last(b"template"):
            return last(b"template") >= 0
        group = max(map(last, _ROW_GROUPS))
        row = last(b"tr")
        if name in (b"td", b"th"):
            if row > table:
                self._pop_to(row + 1)
            else:
                self._start_in_table(b"tr")
        elif name == b"tr":
            if group > table:
                self._pop_to(group + 1)
            else:
                self._start_in_table(b"tbody")
        else:
            columns = last(b"colgroup")
            self._pop_to((columns if name == b"col" and columns > table else table) + 1)
        if name != b"col":
            self._push(_CLASSES[name])
        return True

    def _end_html(self, name: bytes) -> None:
        last = self._last
        at = max(map(last, HEADINGS)) if name in HEADINGS else last(name)
        if name in FORMATTING:
            if at > last(_SCOPE):
                self._end_formatting(name)
        elif name == b"form" and at > last(_SCOPE):
            self._end_implied(_IMPLIED_ENDS)
            self._remove(at)
        elif at >= max(0, last(_CLOSED_WITHIN.get(name, _IS_SPECIAL))):
            self._pop_to(at)

    def _end_formatting(self, name: bytes) -> None:
        """The adoption agency algorithm (13.2.6.4.7), without the copies that it makes: the element
        moves down through up to eight blocks that are open in it, and ends with what is open in the
        last. Between blocks only the three innermost formatting elements stay open."""
        at, block = self._last(name), self._last(_IS_SPECIAL)
        if block < at:
            self._pop_to(at)
            return
        blocks = self._at[_IS_SPECIAL]
        if len(blocks) - bisect_left(blocks, at) < _BLOCKS_PASSED:
            self._pop_to(block + 1)
            kept = 0
            for place in range(block, at, -1):
                classes = self._stack[place]
                if _IS_SPECIAL in classes:
                    kept = 0
                elif classes and classes[0] in FORMATTING and kept < 3:
                    kept += 1
                elif classes:
                    self._remove(place)
        self._remove(at)

    def _end_implied(self, names: frozenset[bytes]) -> None:
        while self._stack and self._stack[-1][0] in names:
            self._pop_to(len(self._stack) - 1)

    # ------------------------------------------------------------ the stack

    def _last(self, kind: bytes) -> int:
        """Where in the stack the innermost element of this name or class is; -1 if there is none.
        The name of a foreign element has a space before it."""
        places = self._at.get(kind)
        return places[-1] if places else -1

    def _push(self, classes: tuple[bytes, ...]) -> None:
        place = len(self._stack)
        if place < OPEN_MAX:
            self._stack.append(classes)
            for kind in classes:
                self._at.setdefault(kind, []).append(place)

    def _pop_to(self, depth: int) -> None:
        stack = self._stack
        while len(stack) > depth or (stack and not stack[-1]):
            for kind in stack.pop():
                places = self._at[kind]
                places.pop()
                if not places:
                    del self._at[kind]

    def _remove(self, place: int) -> None:
        """Close one element, the innermost of its name, and nothing that is open in it."""
        for kind in self._stack[place]:
            places = self._at[kind]
            del places[bisect_left(places, place)]
            if not places:
                del self._at[kind]
        self._stack[place] = ()
        self._pop_to(len(self._stack))
