"""The text of a response in the format that a call asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from selectolax.lexbor import LexborNode

from crawler.documents.charset import media_type, to_text, to_utf8
from crawler.documents.page import PageLink, may_be_html, parse_page
from crawler.documents.tree import Document
from crawler.embedding.response import Response
from crawler.explain.formatting import counted, plain, printable
from crawler.explain.site_text import SiteText
from crawler.mcp_server.arguments import Format
from crawler.mcp_server.main_text import main_text
from policies.declarations import NONE, Usage, usage_of

MARKUP_CHARS_MAX: Final = 1_000_000  # searched for the main text
TITLE_CHARS_SHOWN: Final = 300
LINKS_SHOWN_MAX: Final = 500
THIN_CHARS: Final = 1_000  # a shorter main text is followed by the links: it may be a page of links
_TEXT_TYPES: Final = frozenset(
    {
        "application/json",
        "application/ld+json",
        "application/xml",
        "application/javascript",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "image/svg+xml",
    }
)


NO_TITLE: Final = SiteText("")
_HIDDEN: Final = ("script", "style", "noscript", "template", "svg", "head", "iframe", "object")
_BLOCKS: Final = frozenset(
    {
        *("address", "article", "aside", "blockquote", "body", "br", "button", "caption", "dd"),
        *("details", "dialog", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer"),
        *("form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol"),
        *("option", "p", "pre", "section", "select", "summary", "table", "tbody", "tfoot"),
        *("thead", "tr", "ul"),
    }
)
_CELLS: Final = frozenset({"td", "th"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PageText:
    """A page as text.

    kind: what the text is, as a phrase of ours. title: empty if there is none. usage: the
    preferences that the page states on the use of its content. notes: sentences of ours on what is
    missing.
    """

    text: SiteText
    kind: str
    title: SiteText = NO_TITLE
    usage: Usage = NONE
    notes: tuple[str, ...] = ()


class NoTextError(Exception):
    """The body is not text. kind: its media type."""

    def __init__(self, kind: SiteText) -> None:
        super().__init__()
        self.kind = kind


def page_text(response: Response, wanted: Format, tokens: tuple[str, ...]) -> PageText:
    """Convert the body. Takes up to seconds: to be called in a thread. `tokens`: the product tokens
    of this crawler. Raises NoTextError for a body that is no text."""
    kind = media_type(response.content_type)
    if not may_be_html(response.content_type):
        if not _is_text(kind):
            raise NoTextError(SiteText(kind or "no type"))
        return PageText(
            text=SiteText(printable(_decoded(response))),
            kind="the body, as it is",
            usage=usage_of(lambda name: response.headers.getall(name, ()), (), ()),
        )
    if b"\0" in response.body[:1024] and response.content_type is None:
        raise NoTextError(SiteText("no type"))
    parsed = parse_page(response.url, response.headers, response.body, tokens=tokens)
    title = plain(parsed.title or "")[:TITLE_CHARS_SHOWN]
    usage = usage_of(lambda name: response.headers.getall(name, ()), parsed.metas, ())
    notes: tuple[str, ...] = ()
    if wanted == "html":
        text, kind = _decoded(response), "the source of the page"
    elif wanted == "text":
        visible = visible_text(response.body, response.content_type)
        text, kind = visible + _listed(parsed.links), "all visible text of the page, and its links"
        notes = () if visible else (_EMPTY,)
    else:
        text, kind, notes = _main_text(response, parsed.links)
    shown = SiteText(printable(text))
    return PageText(text=shown, kind=kind, title=SiteText(title), usage=usage, notes=notes)


_EMPTY: Final = (
    "The page has hardly any text without JavaScript, which is not run. Look for another page of "
    "the site with the same content, such as a feed or a sitemap."
)


def _main_text(response: Response, links: tuple[PageLink, ...]) -> tuple[str, str, tuple[str, ...]]:
    """The text, its kind, and notes."""
    source = _decoded(response)
    notes = []
    if len(source) > MARKUP_CHARS_MAX:
        notes.append(
            f"Only the first {MARKUP_CHARS_MAX:,} characters of the source were searched for the "
            "main text; format=text returns everything."
        )
        source = source[:MARKUP_CHARS_MAX]
    visible = visible_text(response.body, response.content_type)
    text = main_text(source, response.url)
    if not text:
        if text is None:
            notes.append("The page is too complex to find its main text.")
        elif not visible:
            notes.append(_EMPTY)
        kind = "all visible text, because no main text was found"
        return visible + _listed(links), kind, tuple(notes)
    if len(text) * 2 < len(visible) - THIN_CHARS:
        notes.append(
            f"The main text is a part of the {len(visible):,} characters that are visible; "
            "format=text returns all of them."
        )
    named = tuple(link for link in links if link.anchor and link.url != response.url)
    missing = len(named) - text.count("](")
    if missing > 0 and len(text) < THIN_CHARS:
        return text + _listed(named), "the main text in Markdown, and the links", tuple(notes)
    if missing > 0:
        notes.append(
            f"{counted(missing, 'link')} of the page not shown here; format=text lists all."
        )
    return text, "the main text in Markdown", tuple(notes)


def _listed(links: tuple[PageLink, ...]) -> str:
    """The links as a Markdown list; "" for none."""
    if not links:
        return ""
    lines = [f"- [{plain(one.anchor or one.url)}]({one.url})" for one in links[:LINKS_SHOWN_MAX]]
    more = len(links) - LINKS_SHOWN_MAX
    if more > 0:
        lines.append(f"- and {more:,} more links")
    return "\n\nLinks:\n" + "\n".join(lines)


def _decoded(response: Response) -> str:
    return to_text(response.body, response.content_type)


def _is_text(kind: str) -> bool:
    return kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith(("+json", "+xml"))


def visible_text(body: bytes, content_type: str | None) -> str:
    """One line per block of text; "" if the markup is too tangled to build a tree of it."""
    tree = Document(to_utf8(body, content_type)[0]).tree
    if tree is None:
        return ""
    tree.strip_tags(list(_HIDDEN))
    root = tree.body
    pieces: list[str] = []
    within = 0
    for node in () if root is None else root.traverse(include_text=True):
        tag = node.tag
        if tag == "-text":
            block = _block_of(node)
            pieces += ["\n" if block != within else "", node.text(deep=False)]
            within = block
        elif tag in _BLOCKS:
            pieces.append("\n")
        elif tag in _CELLS:
            pieces.append(" ")
    lines = (" ".join(line.split()) for line in _joined(pieces).split("\n"))
    return "\n".join(line for line in lines if line)


def _joined(pieces: list[str]) -> str:
    """Line ends inside a text node are mere white space."""
    return "".join(piece if piece == "\n" else piece.replace("\n", " ") for piece in pieces)


def _block_of(node: LexborNode) -> int:
    """The identity of the innermost block around a text."""
    parent = node.parent
    while parent is not None and parent.tag not in _BLOCKS:
        parent = parent.parent
    return 0 if parent is None else parent.mem_id
