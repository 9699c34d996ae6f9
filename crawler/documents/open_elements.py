"""The stack of open elements, derived from tags alone.

It determines the meaning of a tag: in SVG and MathML, `<title/>` is closed, `<script>` contains
markup, and `<![CDATA[` starts text. The content of a template is not part of the page. The rules
are those of WHATWG HTML, 13.2.4.2 and 13.2.6, without nodes to move or copy. Each tag takes
constant time on average. These are the differences from a tree:

- Formatting elements that the parser reopens after their container has ended (13.2.4.3) are not
  open here. This affects end tags where SVG or MathML is misnested with them, and an `<a>` of a
  template that is copied behind it because an `<object>` or cell in it is not closed.
- After a `<col>` directly in a template, the parser ignores everything but templates. Here a
  `<style>` or `<script>` is raw text as elsewhere.
- A frameset that follows content of the body replaces it. Here that content is kept.
- Nested forms, and a noscript in that of a head, are ignored by the parser, and elements here.
- Content of a table outside its cells is not moved before the table.
- At most OPEN_MAX elements are open. Further tags are read, but open nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

# Bounds memory. Browsers stop at 512 open elements.
OPEN_MAX: Final = 100_000


def names(words: bytes) -> frozenset[bytes]:
    return frozenset(words.split())


VOID: Final = names(
    b"area base basefont bgsound br col embed frame hr image img input keygen link meta param"
    b" source track wbr"
)
# Start tags that end foreign content (13.2.6.5). `font` does only with the attributes in _OF_FONT.
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

# Classes of elements. They share the index with names, which contain no spaces.
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
# An end tag closes an element with its content, unless an element of this class is open inside. For
# other names, any special element prevents it.
_CLOSED_WITHIN: Final = {
    **dict.fromkeys(_BLOCKS | HEADINGS, _SCOPE),
    **dict.fromkeys(TABLE_PARTS | {b"table"}, _TABLE_SCOPE),
    b"li": _LIST_SCOPE,
    b"p": _BUTTON_SCOPE,
    b"template": b"template",
}
_FOREIGN_STOPS: Final = (_SCOPE, _BUTTON_SCOPE, _LIST_SCOPE, _IS_SPECIAL, _LIST_STOP)


class OpenElements:
    """The open elements after each tag. Names are in lower case.

    foreign: the innermost element belongs to SVG or MathML, so CDATA is text.
    in_template: the tag is inside a `<template>` of HTML.
    in_svg: the tag is inside an `<svg>`.
    """

    __slots__ = ("_at", "_framesets", "_in_head", "_may_be_frameset", "_stack")

    def __init__(self, *, frames: bool = True) -> None:
        """`frames`: whether the document may have framesets."""
        self._stack: list[tuple[bytes, ...]] = []  # classes, the name first
        self._at: dict[bytes, list[int]] = {}  # positions in the stack by class
        self._may_be_frameset = frames
        self._in_head = True
        self._framesets = -1  # open ones, or -1 before the first

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
        """Whether text other than white space still has an effect."""
        return self._in_head or self._may_be_frameset

    def add_text(self) -> None:
        """Process text other than white space, which starts the body and excludes framesets."""
        self._may_be_frameset = False
        self._leave_head(b"")

    def start(self, name: bytes, attributes: Mapping[str, str], *, closed: bool) -> bool | None:
        """Process a start tag. Return whether it belongs to SVG or MathML, or None if ignored.

        attributes: may be empty unless the name is in ATTRIBUTES_MATTER.
        closed: whether it ends in "/>".
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
        """Process an end tag. `name`: without the slash."""
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

    def _begins_html(self, name: bytes) -> bool:
        """Return whether a start tag inside the innermost, foreign element belongs to HTML."""
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

    def _start_in_frameset(self, name: bytes) -> bool | None:
        if self._framesets > 0:
            if name == b"frameset":
                self._framesets += 1
            if name in (b"frame", b"frameset"):
                return False
        return False if name in (b"noframes", b"html") else None

    def _leave_head(self, name: bytes) -> None:
        """Close the `<noscript>` of a head before content that it cannot contain."""
        if self._in_head and not self.in_template:
            self._in_head = name in _OF_HEAD
            if name not in _OF_HEAD_NOSCRIPT and self._stack and self._stack[-1][0] == b"noscript":
                self._pop_to(len(self._stack) - 1)

    def _start_html(self, name: bytes, attributes: Mapping[str, str]) -> bool:
        """Open an element and close those that it ends. Return False if the tag is ignored."""
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
            self._pop_to(self._last(name))  # acts as the end tag
            return False
        self._close_for(name)
        if name not in VOID:
            self._push(_CLASSES.get(name) or (name, _HTML))
        return True

    def _close_for(self, name: bytes) -> None:
        """Close the elements that a start tag ends (13.2.6.4.7)."""
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
            # Outside of the cells of a table, it ends that table.
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
        """Open a part of a table and the parts that it implies. Return False if it is ignored."""
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
        """Run the adoption agency algorithm (13.2.6.4.7) without creating copies.

        The element moves down through up to eight blocks open inside, and ends with the content of
        the last one. Between blocks, only the three innermost formatting elements stay open.
        """
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

    def _last(self, kind: bytes) -> int:
        """Return the position of the innermost element of a name or class, or -1.

        Names of foreign elements have the prefix " ".
        """
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
        """Close the innermost element of its name, but not its content."""
        for kind in self._stack[place]:
            places = self._at[kind]
            del places[bisect_left(places, place)]
            if not places:
                del self._at[kind]
        self._stack[place] = ()
        self._pop_to(len(self._stack))
