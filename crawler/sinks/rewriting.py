"""Rewriting of references in markup, in one pass over its tags.

Everything else stays unchanged, byte for byte, except for elements that use the network in spite of
a page's policy, such as bases, hints and refreshes. They are removed. Where only browsers might see
such an element, and this tokenizer sees text, its name is escaped.

The same pass collects references if `References.target` returns None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from secrets import token_hex
from typing import Final

from crawler.documents import markup
from crawler.documents.decoders import UTF8, decode
from crawler.documents.query import with_encoded_query
from crawler.sinks.references import ReferenceRole, References
from crawler.sinks.styles import in_srcset, in_style
from policies.url import canonical

# The attribute that preserves the URL of a rewritten link.
ORIGIN: Final = "data-courtly-url"
BLANK: Final = "about:blank"
# A refresh: everything before its URL, and the URL.
REFRESH: Final = re.compile(
    r"(\s*+[0-9.]*+\s*+[;,]\s*+(?:url\s*+=\s*+)?+['\"]?+)([^'\"]*+)", re.IGNORECASE
)
_DEPTH_MAX: Final = 3  # nested srcdoc documents
_PAGE, _PART, _STYLE, _SCRIPT = (
    ReferenceRole.PAGE,
    ReferenceRole.PART,
    ReferenceRole.STYLE,
    ReferenceRole.SCRIPT,
)
_HREFS: Final = {"href": _PART, "xlink:href": _PART}
_LINKS: Final = {"href": _PAGE, "xlink:href": _PAGE}
# Attributes with a URL, by element.
_ATTRIBUTES: Final[dict[bytes, dict[str, ReferenceRole]]] = {
    b"a": _LINKS,
    b"area": _LINKS,
    b"iframe": {"src": _PAGE},
    b"frame": {"src": _PAGE},
    b"img": {"src": _PART},
    b"source": {"src": _PART},
    b"video": {"src": _PART, "poster": _PART},
    b"audio": {"src": _PART},
    b"track": {"src": _PART},
    b"embed": {"src": _PART},
    b"object": {"data": _PART},
    b"input": {"src": _PART},
    b"image": {"src": _PART, **_HREFS},  # in SVG; in HTML an alias of `img`
    b"use": _HREFS,
    b"feimage": _HREFS,
    b"script": {"src": _SCRIPT, "href": _SCRIPT, "xlink:href": _SCRIPT},
}
_ANCHORS: Final = frozenset({b"a", b"area"})
_FRAMES: Final = frozenset({b"iframe", b"frame"})
_SRCSETS: Final = frozenset({"srcset", "imagesrcset"})
# Attributes of any element that contain CSS.
_STYLES: Final = frozenset(
    {"style", "fill", "stroke", "filter", "mask", "clip-path", "cursor", "marker", "marker-start",
     "marker-mid", "marker-end"}
)  # fmt: skip
# URLs that browsers do not load. They become absolute.
_ABSOLUTE: Final = frozenset({"action", "formaction", "longdesc", "cite"})
# Attributes that are useless without the network.
_USELESS: Final = frozenset({"integrity", "crossorigin", "ping", "attributionsrc"})
_ANYWHERE: Final = re.compile(
    rb"style|background|\(|\\|action|longdesc|cite|integrity|crossorigin|ping|attributionsrc"
    rb"|data-courtly-url",
    re.IGNORECASE,
)
_WALKED: Final = frozenset({*_ATTRIBUTES, b"link", b"meta", b"base"})
# Kinds of `link` that load files for scripts, or connect in advance.
_HINTS: Final = frozenset({"prefetch", "prerender", "modulepreload", "preconnect", "dns-prefetch"})
_PRELOADED: Final = {
    "image": _PART, "font": _PART, "audio": _PART, "video": _PART, "track": _PART,
    "style": _STYLE, "script": _SCRIPT,
}  # fmt: skip
# Kinds of `http-equiv` that only affect how a page is shown.
_KEPT_EQUIVS: Final = frozenset({"content-language", "default-style"})
# A refresh to a file of the mirror.
_LOCAL: Final = re.compile(
    r"(?!.*//)\s*+[0-9.]*+\s*+(?:[;,]\s*+(?:url\s*+=\s*+)?+)?+['\"]?+(?!/)[^:\\\s'\"<>]*+",
    re.IGNORECASE,
)
# Names that take effect in spite of a policy. A character reference in the name of a tag or an
# attribute makes it another name. In text and values it means the same character.
_ACTIVE: Final = re.compile(
    rb"(?P<equiv>http-equi)v|(?<=[\t\n\f\r /\"'])(?P<srcdoc>srcdo)c(?=[\t\n\f\r ]*+=)"
    rb"|(?P<link><lin)k(?=[\t\n\f\r />])",
    re.IGNORECASE,
)
_ACTIVE_NAMES: Final = (b"http-equiv", b"srcdoc", b"<link")
_IN_SCRIPT: Final = re.compile(rb"srcdoc|<link", re.IGNORECASE)

_SPACE: Final = b"\t\n\f\r "

# By name: the value, and the start and end of the attribute in the document.
Attributes = dict[str, tuple[str, int, int]]
_Edit = tuple[int, int, bytes]


def quoted(value: bytes, *, srcdoc: bool = False) -> bytes:
    """Escape an attribute value for double quotes."""
    value = value.replace(b"&", b"&amp;").replace(b'"', b"&quot;")
    return value if srcdoc else value.replace(b"<", b"&lt;")


def rewritten(
    html: bytes, url: str, references: References, *, scripts: bool, depth: int = 0
) -> bytes:
    """Rewrite a document in UTF-8 at the canonical `url`. `scripts`: whether they may be loaded.

    Rewritten links preserve their URLs in the attribute ORIGIN, which `relinked` uses.
    """
    walk = _DocumentWalk(html, url, references, scripts=scripts, depth=depth)
    out: list[bytes] = []
    at = 0
    for start, end, new in walk.edits():
        out += (html[at:start], new)
        at = end
    out.append(html[at:])
    return walk.inert(b"".join(out))


def collect_references(html: bytes, url: str, references: References, *, scripts: bool) -> None:
    """Process all references except the links of anchors, and change nothing."""
    for _ in _DocumentWalk(html, url, references, scripts=scripts).edits(skipped=_ANCHORS):
        pass


class _DocumentWalk:
    def __init__(
        self, html: bytes, url: str, references: References, *, scripts: bool, depth: int = 0
    ) -> None:
        self._html = html
        self._url = url
        self._base = url
        self._references = references
        self._scripts = scripts
        self._depth = depth
        self._room_bytes = 0  # before the current edit
        # Random placeholders for the last letter of names that take effect, inserted by this walk.
        self._own = {letter: token_hex(8).encode() for letter in "vck"}

    def edits(self, *, skipped: frozenset[bytes] = frozenset()) -> Iterator[_Edit]:
        """Yield the edits in order, without overlap.

        skipped: elements of which only the attributes common to all elements are processed.
        """
        if (href := markup.base_href(self._html)) is not None:
            href = with_encoded_query(href, self._references.encoding)
            self._base = canonical(href, self._url) or self._url
        opened, end_of_opened = b"", 0
        for name, raw, start, end, foreign in markup.tags_with_attributes(self._html):
            if opened:
                # In SVG and MathML, comments and CDATA divide the content.
                foreign = foreign or name[:1] == b"!"
                yield from self._in_raw_text(opened, end_of_opened, start, escaped=foreign)
                if opened == b"style" and name == markup.CDATA:
                    yield from self._in_raw_text(opened, start + 9, self._end_of_cdata(end))
                end_of_opened = end
                opened = opened if name[:1] == b"!" else b""
            if name[:1] in b"/!":  # the end of the document has no name
                continue
            if raw and ((name in _WALKED and name not in skipped) or _ANYWHERE.search(raw)):
                yield from self._in_tag(name, raw, start, end)
            if name in (b"style", b"script"):
                opened, end_of_opened = name, end

    def inert(self, html: bytes) -> bytes:
        """Escape names that take effect, except those that the walk has kept."""
        lower = html.lower()
        if any(name in lower for name in _ACTIVE_NAMES):
            html = without_active_names(html)
        for letter, own in self._own.items():
            html = html.replace(own, letter.encode())
        return html

    def _end_of_cdata(self, end: int) -> int:
        return end - 3 if self._html.endswith(b"]]>", 0, end) else end

    def _in_raw_text(
        self, name: bytes, start: int, end: int, *, escaped: bool = False
    ) -> Iterator[_Edit]:
        """Edit a style sheet or script. `escaped`: it may contain character references."""
        text = self._html[start:end]
        self._room_bytes = self._references.room_bytes
        if name == b"style":
            css = decode(text, UTF8)
            css = markup.unescaped(css) if escaped else css
            changed = in_style(css, self._base, self._references)
            if changed is not None:
                new = changed.encode("utf-8", "replace")
                if escaped:
                    new = new.replace(b"&", b"&amp;").replace(b"<", b"&lt;")
                yield from self._edit(start, end, new)
            return
        protected = _IN_SCRIPT.sub(lambda found: self._kept_name(found[0]), text)
        if protected != text:
            yield start, end, protected

    def _in_tag(self, name: bytes, raw: bytes, start: int, end: int) -> Iterator[_Edit]:
        attributes = markup.located(raw, start + 1 + len(name))
        if name == b"base":
            yield self._base_tag(attributes, start, end)
            return
        if name == b"meta":
            yield from self._meta(attributes, start, end)
            return
        roles = _ATTRIBUTES.get(name, {})
        if name == b"link":
            rels = set(attributes.get("rel", ("", 0, 0))[0].lower().split())
            linked = self._link_role(attributes, rels)
            if linked is None:
                yield start, end, b""
                return
            roles = {"href": linked}
            yield start + 1, start + 5, self._kept_name(self._html[start + 1 : start + 5])
        edits: list[_Edit] = []
        for attribute, written in attributes.items():
            edits += self._in_attribute(name, roles, attribute, written)
        yield from edits

    def _in_attribute(
        self, tag: bytes, roles: dict[str, ReferenceRole], name: str, written: tuple[str, int, int]
    ) -> Iterator[_Edit]:
        value, start, end = written
        self._room_bytes = self._references.room_bytes
        role = roles.get(name)
        new: str | None = None
        origin = ""
        if role is _SCRIPT and not self._scripts:
            new = "data:,"  # an empty script
        elif role is _PAGE:
            new, origin = self._page(tag, value)
        elif role is not None:
            new = self._references.changed(value, role, self._base)
        elif name == "background":
            new = self._references.changed(value, _PART, self._base)
        elif name in _SRCSETS:
            new = in_srcset(value, self._base, self._references)
        elif name in _STYLES:
            # Chromium always encodes their queries in UTF-8.
            if "(" in value or "\\" in value:
                new = in_style(value, self._base, self._references, encoding=UTF8)
        elif name == "srcdoc" and tag == b"iframe":
            yield from self._srcdoc(value, start, end)
            return
        elif name in _ABSOLUTE:
            new = self._references.resolved(value.strip(), self._base)
        elif name == "rel" and tag == b"link":
            rels = value.lower().split()
            new = " ".join(rel for rel in rels if rel not in _HINTS) if _HINTS & {*rels} else None
        elif name in _USELESS or name == ORIGIN:
            yield self._without(start, end)
            return
        elif name == "type" and tag == b"script" and value.strip().lower() == "speculationrules":
            new = "text/plain"
        if new is not None:
            yield from self._value(start, end, new, origin=origin)

    def _page(self, tag: bytes, value: str) -> tuple[str | None, str]:
        """Return the target of a link in the mirror, and its URL."""
        href = value.strip()
        if (not href or href.startswith("#")) and self._base == self._url:
            return None, ""  # inside the page
        url = self._references.resolved(href or self._base, self._base)
        if url is None:
            return None, ""
        to = self._references.bounded_target(url, _PAGE, href)
        if tag in _FRAMES and (to is None or to.startswith(("http:", "https:"))):
            to = BLANK  # would be loaded without a click
        return to, url

    def _link_role(self, attributes: Attributes, rels: set[str]) -> ReferenceRole | None:
        """Return the role of a `link` element, or None if it must be removed."""
        if "stylesheet" in rels:
            return _STYLE
        if "preload" in rels:
            kind = attributes.get("as", ("", 0, 0))[0].strip().lower()
            role = _PRELOADED.get(kind)
            return None if role is _SCRIPT and not self._scripts else role
        if rels & _HINTS:
            return None
        if "manifest" in rels:
            return ReferenceRole.MANIFEST
        return _PART if any("icon" in rel or "image" in rel for rel in rels) else _PAGE

    def _base_tag(self, attributes: Attributes, start: int, end: int) -> _Edit:
        if "target" not in attributes:
            return start, end, b""
        if "href" not in attributes:
            return start, start, b""
        return self._without(*attributes["href"][1:])

    def _meta(self, attributes: Attributes, start: int, end: int) -> Iterator[_Edit]:
        if "http-equiv" not in attributes:
            return
        kind, equiv_start, _ = attributes["http-equiv"]
        kind = kind.strip().lower()
        kept: list[_Edit] = []
        if kind == "refresh":
            kept = list(self._refresh(attributes))
        if not kept and kind not in _KEPT_EQUIVS:
            yield start, end, b""
            return
        name = self._kept_name(self._html[equiv_start : equiv_start + len(b"http-equiv")])
        kept.append((equiv_start, equiv_start + len(b"http-equiv"), name))
        yield from sorted(kept)

    def _refresh(self, attributes: Attributes) -> Iterator[_Edit]:
        """Yield the edits of a refresh to a file."""
        if "content" not in attributes:
            return
        content, start, end = attributes["content"]
        self._room_bytes = self._references.room_bytes
        found = REFRESH.match(content)
        if found is None:
            return
        to, url = self._page(b"", found[2])
        if to is None:
            return
        new = f"{found[1]}{to}"
        if _LOCAL.fullmatch(new):
            yield from self._value(start, end, new, origin=url)

    def _srcdoc(self, value: str, start: int, end: int) -> Iterator[_Edit]:
        """Rewrite the document in an attribute, whose links are relative to this document."""
        if self._depth >= _DEPTH_MAX:
            self._references.skipped += 1
            yield self._without(start, end)
            return
        encoding, self._references.encoding = (
            self._references.encoding,
            UTF8,
        )  # text in attributes is UTF-8
        inner = rewritten(
            value.encode("utf-8", "replace"),
            self._base,
            self._references,
            scripts=self._scripts,
            depth=self._depth + 1,
        )
        self._references.encoding = encoding
        new = b'%s="%s"' % (self._kept_name(b"srcdoc"), quoted(inner, srcdoc=True))
        yield from self._edit(start, end, new)

    def _value(self, start: int, end: int, value: str, *, origin: str = "") -> Iterator[_Edit]:
        """Replace the value of an attribute. `origin`: the URL of the link."""
        name = self._html[start:end].partition(b"=")[0].rstrip(_SPACE)
        new = name + b'="' + quoted(value.encode("utf-8", "replace")) + b'"'
        if origin:
            new += f' {ORIGIN}="{origin}"'.replace("&", "&amp;").encode()
        yield from self._edit(start, end, new)

    def _edit(self, start: int, end: int, new: bytes) -> Iterator[_Edit]:
        charged_bytes = self._room_bytes - self._references.room_bytes
        if self._references.fits(len(new) - (end - start) - charged_bytes):
            yield start, end, new

    def _without(self, start: int, end: int) -> _Edit:
        """Remove an attribute with the white space before it."""
        html = self._html
        while html[start - 1] in _SPACE:
            start -= 1
        return start, end, b"" if html[end] in b"\t\n\f\r />" else b" "

    def _kept_name(self, name: bytes) -> bytes:
        """Protect a name that may take effect. `inert` restores its last letter."""
        return name[:-1] + self._own[chr(name[-1]).lower()]


def without_active_names(html: bytes) -> bytes:
    """Escape names that take effect in spite of a policy."""
    return _ACTIVE.sub(lambda found: b"%s&#%d;" % (found[0][:-1], found[0][-1]), html)
