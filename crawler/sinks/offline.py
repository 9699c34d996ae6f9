"""A page as it stands in a mirror: its references lead to files, and none to the network."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from html import escape
from typing import Final

from crawler.documents import markup
from crawler.documents.charset import media_type, style_text, to_utf8
from crawler.documents.page import XHTML
from crawler.sinks import relinking
from crawler.sinks.inert import inert_xml, is_drawing, xml_text
from crawler.sinks.mirror_paths import DRAWING, PART, drawing, file_of, relative
from crawler.sinks.references import References, Role
from crawler.sinks.requisites import BYTES_READ_MAX
from crawler.sinks.rewriting import BLANK, ORIGIN, REFRESH, Rewriter
from crawler.sinks.styles import in_style
from policies.url import host_of

# No URL begins so.
WEB: Final = "!"
IMAGE: Final = "~"
USED: Final = "#"
_REFRESH: Final = "0; url="  # as a stub has it
# Before all else in a file: whatever it says of its charset, it is UTF-8.
_UTF8: Final = b"\xef\xbb\xbf"
# What may stand before a page's first element, up to its document type: behind that the policy is
# the first thing in the page. Without one it goes before everything.
_PROLOGUE: Final = re.compile(
    rb"(?:[\t\n\f\r ]++|<!--(?:-?>|.*?--!?>)|<\?[^>]*+>|<!(?!--|doctype)[^>]*+>)*+"
    rb"<!doctype[^>]*+>",
    re.IGNORECASE | re.DOTALL,
)

_PART_NAME: Final = re.compile(rb"(?<![\w./~+-])[\w./~+-]++(?<=\.part)")
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


class OfflineReferences(References):
    """What to write in the places of one file's references.

    Links within the host are taken to be there one day, others only if they are. `marked` gathers
    the links whose files are not there yet, those that lead to the web with WEB before them, and
    images that may turn out to be drawings with IMAGE.
    """

    def __init__(
        self, url: str, path: str, *, is_there: Callable[[str], bool], scripts: bool
    ) -> None:
        super().__init__(self.change)
        self.url = url
        self.path = path
        self.scripts = scripts
        self.marked: dict[str, None] = {}
        self._is_there = is_there
        self._host = host_of(url)

    def change(self, url: str, role: Role, fragment: str) -> str | None:
        place = file_of(url, role)
        if role is Role.PART and place.endswith(PART):
            place = self._image(url, place)
        there = role is not Role.PAGE or self._is_there(place)
        leads_out = not there and host_of(url) != self._host
        if not there and not self.fits(len(url)):
            return None
        if not there:
            self.marked[f"{WEB}{url}" if leads_out else url] = None
        return (url if leads_out else relative(place, self.path)) + fragment

    def _image(self, url: str, place: str) -> str:
        """Where an image is whose URL has no ending: a drawing has another one."""
        if self._is_there(place):
            return place
        if self._is_there(drawing(url)):
            return drawing(url)
        if self.fits(len(url)):
            self.marked[f"{IMAGE}{url}"] = None
        return place


def offline_page(body: bytes, content_type: str | None, links: OfflineReferences) -> bytes:
    """The page with its links led to files, and nothing in it that asks the network."""
    html, links.encoding = to_utf8(body, content_type)
    if media_type(content_type) == XHTML:
        html = markup.expand_empty_elements(html)
    page = Rewriter(links, scripts=links.scripts).rewritten(html, links.url)
    prologue = _PROLOGUE.match(page)
    end = 0 if prologue is None else prologue.end()
    return b"".join((_UTF8, page[:end], _head(_run(links.scripts)).encode(), page[end:]))


def offline_xml(body: bytes, links: OfflineReferences) -> bytes:
    """The same for XML, which has no policy; of an SVG the references are changed, too."""
    text, links.encoding = xml_text(body)
    if is_drawing(text):
        rewriter = Rewriter(links, scripts=False)
        body = _UTF8 + rewriter.rewritten(text.encode("utf-8", "replace"), links.url)
    return inert_xml(body)


def _run(scripts: bool) -> str:
    return f"{_FILES} 'unsafe-inline' 'unsafe-eval'" if scripts else "data: 'unsafe-inline'"


def _head(run: str) -> str:
    """run: which scripts may run, as a policy has it."""
    policy = (
        f"default-src {_FILES} 'unsafe-inline'; script-src {run}; base-uri 'none'; webrtc 'block'"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{policy}">{_NO_LOOKUPS}{_GUARD}'


def own_page(title: str, body: str, *, head: str = "") -> bytes:
    """A page that the mirror itself has to show; `body` and `head` are HTML."""
    title = escape(title)
    return (
        _UTF8 + f"<!DOCTYPE html>{_head(_NO_SCRIPT)}<title>{title}</title>{head}{body}\n".encode()
    )


def notice(url: str, robots_url: str | None) -> bytes:
    """What stands in the place of a page that is withdrawn."""
    what = f"fetch {url}" if robots_url else "have it indexed"
    text = escape(f"{robots_url or url} asks not to {what}.")
    return own_page("Withdrawn", f"<h1>Withdrawn</h1>\n<p>{text}</p>")


def stub(href: str, url: str) -> bytes:
    """A page that leads on to a file, which is that of `url` if that is not empty."""
    href, mark = escape(href), f' {ORIGIN}="{escape(url)}"' if url else ""
    head = f'<meta http-equiv="refresh" content="{_REFRESH}{href}"{mark}>'
    return own_page("Moved", f'<p><a href="{href}"{mark}>Moved</a></p>', head=head)


def offline_style(body: bytes, content_type: str | None, links: OfflineReferences) -> bytes:
    text, links.encoding = style_text(body[:BYTES_READ_MAX], content_type)
    changed = in_style(text, links.url, links)
    return _UTF8 + (text if changed is None else changed).encode("utf-8", "replace")


def importing(href: str) -> bytes:
    """A style sheet that is another one, which is at `href`."""
    return _UTF8 + f'@import "{href}";\n'.encode()


def relinked(
    page: bytes, path: str, is_there: Callable[[str], bool], drawings: Collection[str] = ()
) -> bytes | None:
    """A file of the mirror with its links led to files that are there, and to the web where they
    are not; None if all of them are right already. drawings: files of images whose URLs have no
    ending and that are there under that of a drawing."""

    def link(url: str, attribute: str, value: str) -> str | None:
        before, href = "", value
        if attribute == "content":
            found = REFRESH.match(value)
            before, href = (_REFRESH, "") if found is None else (found[1], found[2])
        _, mark, fragment = href.partition("#")
        place = file_of(url, Role.PAGE)
        if is_there(place):
            meant = before + relative(place, path) + mark + fragment
        elif attribute == "content":
            meant = ""  # nobody is led to the network without a click
        else:
            meant = BLANK if attribute == "src" else url + mark + fragment
        return None if meant == value else meant

    changed = relinking.relinked(page, link)
    if not drawings:
        return changed
    written = {relative(name, path).encode() for name in drawings}

    def drawn(found: re.Match[bytes]) -> bytes:
        name = found[0]
        return name.removesuffix(PART.encode()) + DRAWING.encode() if name in written else name

    return _PART_NAME.sub(drawn, page if changed is None else changed)
