"""Files of a mirror, whose references lead to other files and never to the network."""

from __future__ import annotations

import re
from collections.abc import Container
from html import escape
from typing import Final

from crawler.documents import markup
from crawler.documents.charset import media_type, style_text, to_utf8
from crawler.documents.page import XHTML
from crawler.sinks.inert import inert_xml, is_drawing, xml_text
from crawler.sinks.mirror_paths import PART, drawing, file_of, relative
from crawler.sinks.references import ReferenceRole, References
from crawler.sinks.relinking import STUB_REFRESH
from crawler.sinks.requisites import BYTES_READ_MAX
from crawler.sinks.rewriting import ORIGIN, rewritten
from crawler.sinks.styles import in_style
from policies.url import host_of, same_host

# Prefixes of entries in `OfflineReferences.marked`. No URL starts with them.
WEB: Final = "!"
IMAGE: Final = "~"
USED: Final = "#"
# The byte order mark at the start of every file: it is UTF-8, whatever else it declares.
_UTF8: Final = b"\xef\xbb\xbf"
# What may precede the first element of a page, up to its document type. The policy is inserted
# after it, or at the very start.
_PROLOGUE: Final = re.compile(
    rb"(?:[\t\n\f\r ]++|<!--(?:-?>|.*?--!?>)|<\?[^>]*+>|<!(?!--|doctype)[^>]*+>)*+"
    rb"<!doctype[^>]*+>",
    re.IGNORECASE | re.DOTALL,
)

# What a page may load: files, and 'self' if a web server serves the mirror, because browsers treat
# each file as an origin of its own.
_FILES: Final = "'self' file: data: blob:"
_NO_LOOKUPS: Final = '<meta http-equiv="x-dns-prefetch-control" content="off">'
# Prevents scripts from navigating to the network, which a policy cannot do.
_GUARD: Final = (
    "<script>(()=>{const here=u=>{u=new URL(u);"
    "return /^(file|data|blob|about|javascript):$/.test(u.protocol)||u.origin===location.origin};"
    'window.navigation?.addEventListener("navigate",e=>{'
    "if(!e.userInitiated&&!here(e.destination.url))e.preventDefault()});"
    'addEventListener("click",e=>{if(!e.isTrusted)e.preventDefault()},true);'
    "window.open=HTMLFormElement.prototype.submit=()=>null})()</script>"
)


class OfflineReferences(References):
    """Replacements for the references of the file `path` of a mirror.

    Links within the host lead to future files, other links only to existing `files`.

    marked: URLs of links whose files do not exist yet, with the prefix WEB if the link leads to the
        web, and of images that may turn out to be SVG, with the prefix IMAGE.
    """

    def __init__(self, url: str, path: str, *, files: Container[str], scripts: bool) -> None:
        super().__init__()
        self.url = url
        self.scripts = scripts
        self.marked: dict[str, None] = {}
        self._path = path
        self._files = files
        self._host = host_of(url)

    def target(self, url: str, role: ReferenceRole, fragment: str) -> str | None:
        name = file_of(url, role)
        if role is ReferenceRole.PART and name.endswith(PART):
            name = self._image(url, name)
        exists = role is not ReferenceRole.PAGE or name in self._files
        leads_out = not exists and not same_host(host_of(url), self._host)
        if not exists:
            if not self.fits(len(url)):
                return None
            self.marked[f"{WEB}{url}" if leads_out else url] = None
        return (url if leads_out else relative(name, self._path)) + fragment

    def _image(self, url: str, name: str) -> str:
        """Return the file of an image whose URL has no extension. That of an SVG differs."""
        if name in self._files:
            return name
        if drawing(url) in self._files:
            return drawing(url)
        if self.fits(len(url)):
            self.marked[f"{IMAGE}{url}"] = None
        return name


def offline_page(body: bytes, content_type: str | None, references: OfflineReferences) -> bytes:
    """Point the links of a page to files, and remove everything that uses the network."""
    html, references.encoding = to_utf8(body, content_type)
    if media_type(content_type) == XHTML:
        html = markup.expand_empty_elements(html)
    page = rewritten(html, references.url, references, scripts=references.scripts)
    prologue = _PROLOGUE.match(page)
    end = 0 if prologue is None else prologue.end()
    allowed = f"{_FILES} 'unsafe-inline' 'unsafe-eval'"
    head = _head(allowed if references.scripts else "data: 'unsafe-inline'")
    return b"".join((_UTF8, page[:end], head.encode(), page[end:]))


def offline_xml(body: bytes, references: OfflineReferences) -> bytes:
    """Remove everything that uses the network from XML, and point references of SVG to files."""
    text, references.encoding = xml_text(body)
    if is_drawing(text):
        svg = text.encode("utf-8", "replace")
        body = _UTF8 + rewritten(svg, references.url, references, scripts=False)
    return inert_xml(body)


def offline_style(body: bytes, content_type: str | None, references: OfflineReferences) -> bytes:
    text, references.encoding = style_text(body[:BYTES_READ_MAX], content_type)
    changed = in_style(text, references.url, references)
    return _UTF8 + (text if changed is None else changed).encode("utf-8", "replace")


def _head(script_sources: str) -> str:
    policy = (
        f"default-src {_FILES} 'unsafe-inline'; script-src {script_sources}; base-uri 'none';"
        " webrtc 'block'"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{policy}">{_NO_LOOKUPS}{_GUARD}'


def own_page(title: str, body: str, *, head: str = "") -> bytes:
    """Return a page of the mirror itself. `body` and `head` are HTML."""
    title = escape(title)
    policy = _head("'none'")
    return _UTF8 + f"<!DOCTYPE html>{policy}<title>{title}</title>{head}{body}\n".encode()


def notice(url: str, robots_url: str | None, reason: str = "noindex") -> bytes:
    """Return the page that replaces a withdrawn page."""
    what = f"fetch {url}" if robots_url else "index it" if reason == "noindex" else "keep it"
    text = escape(f"{robots_url or url} asks not to {what}.")
    return own_page("Withdrawn", f"<h1>Withdrawn</h1>\n<p>{text}</p>")


def stub(href: str, url: str) -> bytes:
    """Return a page that leads to another file, which is that of `url` unless that is empty."""
    href, mark = escape(href), f' {ORIGIN}="{escape(url)}"' if url else ""
    head = f'<meta http-equiv="refresh" content="{STUB_REFRESH}{href}"{mark}>'
    return own_page("Moved", f'<p><a href="{href}"{mark}>Moved</a></p>', head=head)


def importing(href: str) -> bytes:
    """Return a style sheet that imports another one."""
    return _UTF8 + f'@import "{href}";\n'.encode()
