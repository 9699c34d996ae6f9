"""What a browser needs to show a page or a style sheet: images, styles, fonts, media."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from crawler.documents import markup
from crawler.documents.charset import media_type, style_text, to_utf8
from crawler.documents.page import HTML_TYPES, XHTML
from crawler.sinks.inert import is_drawing, xml_text
from crawler.sinks.manifests import in_manifest
from crawler.sinks.references import References, Role
from crawler.sinks.rewriting import Rewriter
from crawler.sinks.styles import in_style

# Fetched for one page or style sheet: real ones have up to a few hundred.
REQUISITES_MAX: Final = 1_000
# Read of one file, as of pages for their links; real style sheets stay under 1 MB.
BYTES_READ_MAX: Final = 5_000_000


class Requisites(NamedTuple):
    """What a file needs to be shown: URLs, each once, with what they are for."""

    roles: Mapping[str, Role]
    whole: bool  # these are all


def requisites(url: str, content_type: str | None, body: bytes, *, scripts: bool) -> Requisites:
    """Those of a page, a style sheet, a drawing or a manifest, at most REQUISITES_MAX.

    Never raises."""
    found: dict[str, Role] = {}
    whole = len(body) <= BYTES_READ_MAX

    def note(target: str, role: Role, _: str) -> None:
        nonlocal whole
        if role is Role.PAGE or (role is Role.SCRIPT and not scripts) or target == url:
            return
        if len(found) < REQUISITES_MAX:
            found.setdefault(target, role)
        else:
            whole = whole and target in found

    declared = media_type(content_type)
    references = References(note)
    whole_body, body = body, body[:BYTES_READ_MAX]
    if declared == "text/css":
        text, references.encoding = style_text(body, content_type)
        in_style(text, url, references)
    elif declared in HTML_TYPES:
        html, references.encoding = to_utf8(body, content_type)
        html = markup.expand_empty_elements(html) if declared == XHTML else html
        Rewriter(references, scripts=scripts).walk(html, url)
    elif declared == "image/svg+xml":
        text, references.encoding = xml_text(body)
        if is_drawing(text):
            Rewriter(references, scripts=False).walk(text.encode("utf-8", "replace"), url)
        else:
            whole = True
    else:
        whole = True
        in_manifest(declared, whole_body, url, references)
    return Requisites(found, whole and not references.skipped)
