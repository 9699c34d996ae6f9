"""A page as it stands in a mirror: its references lead to files, and none to the network."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Final

from selectolax.lexbor import LexborHTMLParser

from crawler.sinks.names import file_of, relative
from crawler.sinks.requisites import (
    Role,
    in_style,
    in_tree,
    is_hint,
    style_text,
    tree_of,
)
from policies.url import canonical, host_of

WEB: Final = "!"  # no URL begins so
# On a link: where it leads on the web.
_ORIGIN: Final = "data-courtly-url"
_HREF: Final = {
    "a": "href", "area": "href", "iframe": "src", "frame": "src", "meta": "content",
}  # fmt: skip
_BLANK: Final = "about:blank"
_REFRESH: Final = "0; url="  # as a stub has it
# Before all else in a file: whatever it says of its charset, it is UTF-8.
_UTF8: Final = b"\xef\xbb\xbf"


class Links:
    """What to write in the places of one file's references.

    Links within the host are taken to be there one day, others only if they are. `marked` gathers
    the links whose files are not there yet, those that lead to the web with WEB before them.
    """

    def __init__(
        self, url: str, path: str, *, is_there: Callable[[str], bool], scripts: bool
    ) -> None:
        self.url = url
        self.path = path
        self.scripts = scripts
        self.marked: dict[str, None] = {}
        self._is_there = is_there
        self._host = host_of(url)

    def change(self, url: str, role: Role, fragment: str) -> str | None:
        place = file_of(url, role)
        if role is Role.PAGE:
            if not self._is_there(place):
                leads_out = host_of(url) != self._host
                self.marked[f"{WEB}{url}" if leads_out else url] = None
                if leads_out:
                    return url + fragment
        elif role is Role.SCRIPT and not self.scripts:
            return "data:,"  # nothing is fetched and nothing runs
        return relative(place, self.path) + fragment


def offline_page(body: bytes, content_type: str | None, links: Links) -> bytes:
    """A page too tangled for a tree stays as it was."""
    tree = tree_of(body, content_type)
    if tree is None:
        return body
    base = _base(tree, links.url)
    for node in tree.css("a[href],area[href],iframe[src],frame[src]"):
        href = (node.attributes.get(_HREF[node.tag or "a"]) or "").strip()
        url = canonical(href, base) if href and not href.startswith("#") else None
        if url is not None:
            node.attrs[_ORIGIN] = url
    in_tree(tree, links.url, links.change)
    for node in tree.css("iframe[src],frame[src]"):
        if (node.attributes.get("src") or "").startswith(("http:", "https:")):
            node.attrs["src"] = _BLANK  # it would be loaded without being asked for
    for node in tree.css("form[action]"):
        action = canonical(node.attributes.get("action") or "", base)
        if action is not None:
            node.attrs["action"] = action
    for node in tree.css("[integrity],[crossorigin],[ping]"):
        for name in ("integrity", "crossorigin", "ping"):
            if name in node.attributes:
                del node.attrs[name]
    for node in tree.css("base"):
        node.decompose()
    for node in tree.css("link[rel]"):
        if is_hint(node):
            node.decompose()
    return _UTF8 + (tree.html or "").encode("utf-8", "replace")


def _base(tree: LexborHTMLParser, url: str) -> str:
    first = tree.css_first("base[href]")
    return url if first is None else canonical(first.attributes.get("href") or "", url) or url


def stub(href: str, url: str) -> bytes:
    """A page that leads on to a file, which is that of `url` if that is not empty."""
    href, mark = escape(href), f' {_ORIGIN}="{escape(url)}"' if url else ""
    page = (
        f'<!DOCTYPE html><title>Moved</title><meta http-equiv="refresh"{mark}'
        f' content="{_REFRESH}{href}"><p><a href="{href}"{mark}>Moved</a></p>\n'
    )
    return _UTF8 + page.encode()


def offline_style(body: bytes, content_type: str | None, links: Links) -> bytes:
    text = style_text(content_type, body)
    changed = in_style(text, links.url, links.change)
    return _UTF8 + (text if changed is None else changed).encode("utf-8", "replace")


def relinked(page: bytes, path: str, is_there: Callable[[str], bool]) -> bytes | None:
    """A page of the mirror with its links led to files that are there, and to the web where they
    are not; None if all of them are right already."""
    tree = LexborHTMLParser(page.removeprefix(_UTF8))
    changed = False
    for node in tree.css(f"[{_ORIGIN}]"):
        url, name = node.attributes.get(_ORIGIN), _HREF.get(node.tag or "")
        if not url or name is None:
            continue
        value = node.attributes.get(name) or ""
        before, href = ("", value) if name != "content" else (_REFRESH, value[len(_REFRESH) :])
        fragment = "#" + href.partition("#")[2] if "#" in href else ""
        place = file_of(url, Role.PAGE)
        away = _BLANK if name == "src" else url + fragment
        meant = before + (relative(place, path) + fragment if is_there(place) else away)
        if meant != value:
            node.attrs[name] = meant
            changed = True
    return _UTF8 + (tree.html or "").encode("utf-8", "replace") if changed else None
