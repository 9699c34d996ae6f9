"""A page as it stands in a mirror: its references lead to files, and none to the network."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from secrets import token_hex
from typing import Final

from selectolax.lexbor import LexborHTMLParser

from crawler.documents.charset import style_text, to_text
from crawler.documents.encoding import UTF8, decode
from crawler.sinks.names import file_of, relative
from crawler.sinks.requisites import (
    STYLE_BYTES_MAX,
    USELESS,
    Role,
    TooManyReferencesError,
    check_references,
    in_style,
    in_tree,
    is_hint,
    tree_of,
)
from policies.url import canonical, host_of

WEB: Final = "!"  # no URL begins so
# How far the links of one file may make it grow; those beyond stay as they came. Real pages with
# thousands of links grow by less than 2 MB.
GROWTH_BYTES_MAX: Final = 10_000_000
# In what a page is written to, besides its links: other encodings take up to three bytes for one,
# and a parser writes out what was implied.
_TIMES_MAX: Final = 4
# On a link: where it leads on the web.
_ORIGIN: Final = "data-courtly-url"
_HREF: Final = {
    "a": "href", "area": "href", "iframe": "src", "frame": "src", "meta": "content",
}  # fmt: skip
_BLANK: Final = "about:blank"
_REFRESH: Final = "0; url="  # as a stub has it
# Before all else in a file: whatever it says of its charset, it is UTF-8.
_UTF8: Final = b"\xef\xbb\xbf"
_DOCTYPE: Final = re.compile(r"\s*<!DOCTYPE[^>]*>", re.IGNORECASE)
_EQUIV: Final = re.compile("(http)-(equiv)", re.IGNORECASE)
# A refresh that leads to a file of the mirror.
_LOCAL: Final = re.compile(
    r"(?!.*//)\s*+[0-9.]*+\s*+(?:[;,]\s*+(?:url\s*+=\s*+)?+)?+['\"]?+(?!/)[^:\\\s'\"<>]*+",
    re.IGNORECASE,
)

# What a page may load: files, and 'self' where a web server serves the mirror (for browsers no file
# is the same origin as another).
_FILES: Final = "'self' file: data: blob:"
_NO_SCRIPT: Final = "'none'"
_NO_LOOKUPS: Final = '<meta http-equiv="x-dns-prefetch-control" content="off">'
# A policy does not keep a script from leaving the page for another on the network; this does.
_GUARD: Final = (
    "<script>(()=>{const here=u=>{u=new URL(u);"
    "return /^(file|data|blob|about|javascript):$/.test(u.protocol)||u.origin===location.origin};"
    'window.navigation?.addEventListener("navigate",e=>{'
    "if(!e.userInitiated&&!here(e.destination.url))e.preventDefault()});"
    'addEventListener("click",e=>{if(!e.isTrusted)e.preventDefault()},true);'
    "window.open=HTMLFormElement.prototype.submit=()=>null})()</script>"
)


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
        self._room_bytes = GROWTH_BYTES_MAX
        self._is_there = is_there
        self._host = host_of(url)

    def change(self, url: str, role: Role, fragment: str) -> str | None:
        if role is Role.SCRIPT and not self.scripts:
            return "data:,"  # nothing is fetched and nothing runs
        place = file_of(url, role)
        there = role is not Role.PAGE or self._is_there(place)
        leads_out = not there and host_of(url) != self._host
        to = (url if leads_out else relative(place, self.path)) + fragment
        if not self.fits(to):
            return None
        if not there:
            self.marked[f"{WEB}{url}" if leads_out else url] = None
        return to

    def fits(self, text: str) -> bool:
        """Whether the file may grow by so much; it counts as written from then on."""
        text_bytes = len(escape(text).encode("utf-8", "replace"))
        if text_bytes > self._room_bytes:
            return False
        self._room_bytes -= text_bytes
        return True


def offline_page(body: bytes, content_type: str | None, links: Links) -> bytes:
    """The page with its links led to files, and nothing in it that asks the network.

    A page too tangled for a tree, one of too many references, or one that its tree makes more than
    four times as long besides its links, keeps its references, which its policy keeps from loading;
    no script of it runs, since what a script may do cannot be taken out of it."""
    tree = tree_of(body, content_type)
    if tree is not None:
        try:
            page = _offline(tree, links)
        except TooManyReferencesError:
            page = None
        if page is not None and len(page) <= _TIMES_MAX * len(body) + GROWTH_BYTES_MAX:
            return page
        links.marked.clear()
    return _finished(to_text(body, content_type), run=_NO_SCRIPT)


def _offline(tree: LexborHTMLParser, links: Links) -> bytes:
    check_references(tree)
    base = _base(tree, links.url)
    for node in tree.css("a[href],area[href],iframe[src],frame[src]"):
        href = (node.attributes.get(_HREF[node.tag or "a"]) or "").strip()
        url = canonical(href, base) if href and not href.startswith("#") else None
        if url is not None and links.fits(f' {_ORIGIN}="{url}"'):
            node.attrs[_ORIGIN] = url
    in_tree(tree, links.url, links.change)
    for node in tree.css("iframe[src],frame[src]"):
        if (node.attributes.get("src") or "").startswith(("http:", "https:")):
            node.attrs["src"] = _BLANK  # it would be loaded without being asked for
    for node in tree.css("form[action]"):
        action = canonical(node.attributes.get("action") or "", base)
        if action is not None and links.fits(action):
            node.attrs["action"] = action
    for node in tree.css(",".join(f"[{name}]" for name in USELESS)):
        for name in USELESS:
            if name in node.attributes:
                del node.attrs[name]
    for node in tree.css("base,script[type=speculationrules i]"):
        node.decompose()
    for node in tree.css("link[rel]"):
        if is_hint(node):
            node.decompose()
    return _finished(tree, run=_run(links.scripts))


def _finished(page: LexborHTMLParser | str, *, run: str) -> bytes:
    """The page as it is written: its policy before everything else, and no `http-equiv` but those
    that lead to a file of the mirror, wherever a browser may find one that our parser did not."""
    own = f"data-{token_hex(8)}"  # what no page can have
    if not isinstance(page, str):
        for node in page.css("meta[http-equiv]"):
            found = _LOCAL.fullmatch(node.attributes.get("content") or "")
            kind = (node.attributes.get("http-equiv") or "").strip().lower()
            if kind != "refresh" or (found is None and _ORIGIN not in node.attributes):
                node.decompose()
                continue
            node.attrs[own] = "refresh"
            del node.attrs["http-equiv"]
        page = page.html or ""
    # Where the name is one of an attribute this is another name; elsewhere it reads the same.
    page = _EQUIV.sub(r"\1&#45;\2", page).replace(own, "http-equiv")
    doctype = _DOCTYPE.match(page)
    end = 0 if doctype is None else doctype.end()
    return _UTF8 + f"{page[:end]}{_head(run)}{page[end:]}".encode("utf-8", "replace")


def _run(scripts: bool) -> str:
    return f"{_FILES} 'unsafe-inline' 'unsafe-eval'" if scripts else "data: 'unsafe-inline'"


def _head(run: str) -> str:
    """run: which scripts may run, as a policy has it."""
    policy = (
        f"default-src {_FILES} 'unsafe-inline'; script-src {run}; base-uri 'none'; webrtc 'block'"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{policy}">{_NO_LOOKUPS}{_GUARD}'


def _base(tree: LexborHTMLParser, url: str) -> str:
    first = tree.css_first("base[href]")
    return url if first is None else canonical(first.attributes.get("href") or "", url) or url


def own_page(title: str, body: str, *, head: str = "") -> bytes:
    """A page that the mirror itself has to show; `body` and `head` are HTML."""
    title = escape(title)
    return (
        _UTF8 + f"<!DOCTYPE html>{_head(_NO_SCRIPT)}<title>{title}</title>{head}{body}\n".encode()
    )


def stub(href: str, url: str) -> bytes:
    """A page that leads on to a file, which is that of `url` if that is not empty."""
    href, mark = escape(href), f' {_ORIGIN}="{escape(url)}"' if url else ""
    head = f'<meta http-equiv="refresh"{mark} content="{_REFRESH}{href}">'
    return own_page("Moved", f'<p><a href="{href}"{mark}>Moved</a></p>', head=head)


def offline_style(body: bytes, content_type: str | None, links: Links) -> bytes:
    text = style_text(body[:STYLE_BYTES_MAX], content_type)
    changed = in_style(text, links.url, links.change)
    return _UTF8 + (text if changed is None else changed).encode("utf-8", "replace")


def relinked(page: bytes, path: str, is_there: Callable[[str], bool]) -> bytes | None:
    """A page of the mirror with its links led to files that are there, and to the web where they
    are not; None if all of them are right already."""
    text = decode(page.removeprefix(_UTF8), UTF8)
    runs = (_NO_SCRIPT, _run(True), _run(False))
    run = next((one for one in runs if _head(one) in text), _run(False))
    tree = LexborHTMLParser(text.replace(_head(run), "", 1))
    changed = False
    room_bytes = GROWTH_BYTES_MAX
    for node in tree.css(f"[{_ORIGIN}]"):
        url, name = node.attributes.get(_ORIGIN), _HREF.get(node.tag or "")
        if not url or name is None:
            continue
        value = node.attributes.get(name) or ""
        before, href = ("", value) if name != "content" else (_REFRESH, value[len(_REFRESH) :])
        fragment = "#" + href.partition("#")[2] if "#" in href else ""
        place = file_of(url, Role.PAGE)
        if is_there(place):
            meant = before + relative(place, path) + fragment
        elif name == "content":
            meant = ""  # nobody is led to the network without a click
        else:
            meant = _BLANK if name == "src" else url + fragment
        growth_bytes = len(escape(meant).encode("utf-8", "replace"))
        if meant != value and growth_bytes <= room_bytes:
            room_bytes -= growth_bytes
            node.attrs[name] = meant
            changed = True
    return _finished(tree, run=run) if changed else None
