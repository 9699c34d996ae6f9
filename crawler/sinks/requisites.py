"""What a page refers to, and what of it a browser needs to show it: images, styles, fonts, media.

One walk serves both: finding what to fetch, and writing other addresses in their places."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawler.documents.charset import style_text, to_utf8
from crawler.documents.nesting import is_tangled
from crawler.documents.page import MARKUP_BYTES_MAX
from policies.url import canonical

# Fetched for one page or style sheet: real ones have up to a few hundred.
REQUISITES_MAX: Final = 1_000
# Read of one style sheet; real ones stay under 1 MB.
STYLE_BYTES_MAX: Final = 5_000_000
# Elements and references of one page that are looked at: as many as links are taken from a page.
REFERENCES_MAX: Final = 50_000
# References of one style sheet that are looked at; those behind them stay as they are.
_STYLE_REFERENCES_MAX: Final = 4_000
# Of one reference as it is written; an embedded image (data:) is none to be fetched.
_REFERENCE_CHARS_MAX: Final = 16_384


class Role(enum.StrEnum):
    """What a reference is for; a file's ending follows from it where the URL has none."""

    PAGE = "page"  # a link, a frame
    STYLE = "style"
    SCRIPT = "script"
    PART = "part"  # an image, a font, sound, a film


# (canonical URL, role, fragment with its "#" or "") → what stands there instead; None: as it was.
Change = Callable[[str, Role, str], str | None]

# Attributes that stand on any element, and are of no use without the network.
USELESS: Final = ("integrity", "crossorigin", "ping")
_SELECTOR: Final = (
    "base,a[href],area[href],iframe[src],frame[src],img,source,video,audio,track[src],embed[src],"
    "object[data],input[src],image,link[href],script[src],svg script,form[action],"
    "meta[http-equiv],[background],[style],style"
)
_HREFS: Final[Mapping[str, tuple[tuple[str, Role], ...]]] = {
    "a": (("href", Role.PAGE),),
    "area": (("href", Role.PAGE),),
    "iframe": (("src", Role.PAGE),),
    "frame": (("src", Role.PAGE),),
    "img": (("src", Role.PART),),
    "source": (("src", Role.PART),),
    "video": (("src", Role.PART), ("poster", Role.PART)),
    "audio": (("src", Role.PART),),
    "track": (("src", Role.PART),),
    "embed": (("src", Role.PART),),
    "object": (("data", Role.PART),),
    "input": (("src", Role.PART),),
    "image": (("href", Role.PART), ("xlink:href", Role.PART)),  # of an SVG
    "script": (("src", Role.SCRIPT), ("href", Role.SCRIPT), ("xlink:href", Role.SCRIPT)),
}
# Elements whose content a script would load, or that tell a browser to connect beforehand.
_HINTS: Final = frozenset(
    {"preload", "prefetch", "prerender", "modulepreload", "preconnect", "dns-prefetch", "manifest"}
)
_ICONS: Final = frozenset({"icon", "apple-touch-icon", "mask-icon"})
_CSS: Final = re.compile(
    r"/\*.*?(?:\*/|\Z)"
    r"|(?P<import>@import\s++)?(?:"
    r"url\(\s*+(?:\"(?P<a>(?:[^\"\\]++|\\.)*+)(?:\"|\Z)|'(?P<b>(?:[^'\\]++|\\.)*+)(?:'|\Z)"
    r"|(?P<c>[^\s\"'()]*+))\s*+(?:\)|\Z)"  # the end closes what is open
    r"|\"(?P<d>(?:[^\"\\\n]++|\\.)*+)\"|'(?P<e>(?:[^'\\\n]++|\\.)*+)'"
    # One that is not closed is passed over whole: the quotes inside of it begin no other.
    r"|\"(?:[^\"\\\n]++|\\.)*+|'(?:[^'\\\n]++|\\.)*+)",
    re.IGNORECASE | re.DOTALL,
)
# In an image-set, texts are addresses, but for those in parentheses. Possessive and bounded: one
# that is not closed must cost neither time nor memory. Real ones have a handful of pieces.
_IMAGE_SET: Final = re.compile(
    r"""(image-set\()((?:[^()"']++|"[^"\\\n]*+"|'[^'\\\n]*+'"""
    r"""|\((?:[^()"']++|"[^"\n]*+"|'[^'\n]*+'){0,1000}+\)){0,1000}+)\)"""
)
_SET_TEXT: Final = re.compile(r"""\([^()]*\)|"([^"\\\n]*)"|'([^'\\\n]*)'""")
_CSS_ESCAPE: Final = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))", re.DOTALL)
_REFRESH: Final = re.compile(
    r"(\s*+[0-9.]*+\s*+[;,]\s*+(?:url\s*+=\s*+)?+['\"]?+)([^'\"]*+)", re.IGNORECASE
)


class Requisites(NamedTuple):
    """What a page or a style sheet needs to be shown: URLs, each once, with what they are for."""

    roles: Mapping[str, Role]
    whole: bool  # these are all


def requisites(url: str, content_type: str | None, body: bytes, *, scripts: bool) -> Requisites:
    """At most REQUISITES_MAX of them. Never raises."""
    found: dict[str, Role] = {}
    whole = True

    def note(target: str, role: Role, _: str) -> None:
        nonlocal whole
        if role is Role.PAGE or (role is Role.SCRIPT and not scripts) or target == url:
            return
        if len(found) < REQUISITES_MAX:
            found.setdefault(target, role)
        else:
            whole = whole and target in found

    counted = _Counted(note)
    declared = media_type(content_type)
    if declared == "text/css":
        whole = len(body) <= STYLE_BYTES_MAX
        in_style(style_text(body[:STYLE_BYTES_MAX], content_type), url, counted)
    elif declared in ("text/html", "application/xhtml+xml"):
        tree = tree_of(body, content_type)
        whole = tree is not None and len(body) <= MARKUP_BYTES_MAX
        try:
            if tree is not None:
                in_tree(tree, url, counted)
        except TooManyReferencesError:  # those before are enough
            whole = False
    return Requisites(found, whole and counted.whole)


def media_type(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()


def tree_of(body: bytes, content_type: str | None) -> LexborHTMLParser | None:
    """The tree of a page; None of one that would take too long to build."""
    html, _ = to_utf8(body[:MARKUP_BYTES_MAX], content_type)
    return None if is_tangled(html) else LexborHTMLParser(html)


# ---------------------------------------------------------------- the walk


class TooManyReferencesError(Exception):
    """Of one page; the tree is half changed."""


class _Counted:
    """A `Change` for at most REFERENCES_MAX references."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self._left = REFERENCES_MAX
        self.whole = True  # none was passed over for its length, or for the number in its style

    def spend(self) -> None:
        """Raises TooManyReferencesError."""
        self._left -= 1
        if self._left < 0:
            raise TooManyReferencesError

    def __call__(self, url: str, role: Role, fragment: str) -> str | None:
        return self._change(url, role, fragment)


def check_references(tree: LexborHTMLParser) -> None:
    """Raises TooManyReferencesError for a page with more elements to be looked at than that."""
    for selector in (_SELECTOR, ",".join(f"[{name}]" for name in USELESS)):
        if len(tree.css(selector)) > REFERENCES_MAX:
            raise TooManyReferencesError


def in_tree(tree: LexborHTMLParser, url: str, change: Change) -> None:
    """Visit every reference of a page, and change the tree where `change` says so. Raises
    TooManyReferencesError."""
    check_references(tree)
    change = change if isinstance(change, _Counted) else _Counted(change)
    base = url
    if (first := tree.css_first("base[href]")) is not None:
        base = canonical(first.attributes.get("href") or "", url) or url
    for node in tree.css(_SELECTOR):
        tag = node.tag
        attributes = node.attributes
        if tag == "style":
            _in_style_element(node, base, change)
            continue
        if (style := attributes.get("style")) and "(" in style:
            _set(node, "style", in_style(style, base, change))
        if (href := attributes.get("background")) is not None:
            _set(node, "background", _one(href, Role.PART, base, change))
        for name, role in _HREFS.get(tag or "", ()):
            if (href := attributes.get(name)) is not None:
                _set(node, name, _one(href, role, base, change))
        if tag in ("img", "source") and (srcset := attributes.get("srcset")):
            _set(node, "srcset", in_srcset(srcset, base, change))
        elif tag == "link":
            _in_link(node, attributes, base, change)
        elif tag == "meta":
            _in_refresh(node, attributes, base, change)


def _in_link(
    node: LexborNode, attributes: Mapping[str, str | None], base: str, change: Change
) -> None:
    rels = set((attributes.get("rel") or "").lower().split())
    href = attributes.get("href") or ""
    if "stylesheet" in rels:
        _set(node, "href", _one(href, Role.STYLE, base, change))
    elif rels & _ICONS:
        _set(node, "href", _one(href, Role.PART, base, change))


def _in_refresh(
    node: LexborNode, attributes: Mapping[str, str | None], base: str, change: Change
) -> None:
    if (attributes.get("http-equiv") or "").strip().lower() != "refresh":
        return
    if found := _REFRESH.match(attributes.get("content") or ""):
        to = _one(found[2], Role.PAGE, base, change)
        _set(node, "content", None if to is None else f"{found[1]}{to}")


def is_hint(node: LexborNode) -> bool:
    """Is it a `link` that only makes a browser connect or fetch beforehand?"""
    rels = set((node.attributes.get("rel") or "").lower().split())
    return bool(rels & _HINTS) and "stylesheet" not in rels


def _in_style_element(node: LexborNode, base: str, change: Change) -> None:
    child = node.first_child
    if child is None or not child.is_text_node:
        return
    changed = in_style(node.text(), base, change)
    if changed is not None:
        child.replace_with(changed)


def _set(node: LexborNode, name: str, value: str | None) -> None:
    if value is not None:
        node.attrs[name] = value


def _one(href: str, role: Role, base: str, change: Change) -> str | None:
    href = href.strip()
    if not href or href.startswith("#"):
        return None
    if len(href) > _REFERENCE_CHARS_MAX:
        _passed_over(href, change)
        return None
    if isinstance(change, _Counted):
        change.spend()
    url = canonical(href, base)
    if url is None:
        return None
    _, mark, fragment = href.partition("#")
    return change(url, role, mark + fragment)


def _passed_over(href: str, change: Change) -> None:
    """Note that a reference was not looked at. An embedded file (data:) is none."""
    if isinstance(change, _Counted) and not href.startswith("data:"):
        change.whole = False


# ---------------------------------------------------------------- styles and srcset


def in_style(text: str, base: str, change: Change) -> str | None:
    """The style sheet with its references changed; None if none was."""
    changed = False
    references = 0

    def replace(found: re.Match[str]) -> str:
        nonlocal changed, references
        imported = found["import"] is not None
        quoted = found["d"] if found["d"] is not None else found["e"]
        if quoted is not None and not imported:
            return found[0]  # a text, no address
        given = next((found[n] for n in "abcde" if found[n] is not None), None)
        if given is None:
            return found[0]  # a comment
        references += 1
        if references > _STYLE_REFERENCES_MAX or len(given) > _REFERENCE_CHARS_MAX:
            _passed_over(given, change)
            return found[0]
        role = Role.STYLE if imported else Role.PART
        to = _one(_CSS_ESCAPE.sub(_unescaped, given), role, base, change)
        if to is None:
            return found[0]
        changed = True
        return f'{found["import"] or ""}url("{_css_quoted(to)}")'

    def replace_text(found: re.Match[str]) -> str:
        nonlocal changed, references
        given = found[1] or found[2]
        references += bool(given)
        wanted = given and references <= _STYLE_REFERENCES_MAX
        if given and not wanted:
            _passed_over(given, change)
        to = None if not wanted else _one(given, Role.PART, base, change)
        if to is None:
            return found[0]
        changed = True
        return f'"{_css_quoted(to)}"'

    text = _CSS.sub(replace, text)
    if "image-set(" in text:
        text = _IMAGE_SET.sub(
            lambda found: found[1] + _SET_TEXT.sub(replace_text, found[2]) + ")", text
        )
    return text if changed else None


def _unescaped(found: re.Match[str]) -> str:
    if found[1] is None:
        return found[2]
    code = int(found[1], 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"


def _css_quoted(text: str) -> str:
    return re.sub(r'["\\\n<]', lambda found: f"\\{ord(found[0]):x} ", text)


def in_srcset(text: str, base: str, change: Change) -> str | None:
    """A `srcset` with its candidates changed (WHATWG HTML, "parsing a srcset attribute"); None if
    none was."""
    candidates: list[str] = []
    changed = False
    if len(text) > _REFERENCE_CHARS_MAX:
        _passed_over("", change)
    for href, descriptor in _candidates(text[:_REFERENCE_CHARS_MAX]):
        to = _one(href, Role.PART, base, change)
        changed = changed or to is not None
        candidates.append(f"{href if to is None else to} {descriptor}".rstrip())
    return ", ".join(candidates) if changed else None


def _candidates(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while True:
        while at < len(text) and (text[at].isspace() or text[at] == ","):
            at += 1
        if at >= len(text):
            return
        start = at
        while at < len(text) and not text[at].isspace():
            at += 1
        href = text[start:at]
        if href.endswith(","):
            yield href.rstrip(","), ""
            continue
        start, depth = at, 0
        while at < len(text) and (text[at] != "," or depth):
            depth += (text[at] == "(") - (text[at] == ")" and depth > 0)
            at += 1
        yield href, " ".join(text[start:at].split())
