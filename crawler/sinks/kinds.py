"""Roles and extensions of files in a mirror by media type."""

from __future__ import annotations

import mimetypes
from typing import Final

from crawler.documents.page import HTML_TYPES
from crawler.sinks.inert import is_xml
from crawler.sinks.manifests import MANIFEST_TYPE
from crawler.sinks.mirror_paths import DRAWING, ENDINGS
from crawler.sinks.references import Role

HTML_ENDINGS: Final = frozenset({"html", "htm"})
_SCRIPTS: Final = frozenset(
    {"text/javascript", "application/javascript", "application/x-javascript"}
)
_PARTS: Final = ("image/", "font/", "audio/", "video/", "application/font", "application/x-font")


def kind_by_type(declared: str, body: bytes) -> tuple[Role, str | None]:
    """Return the role of a body, and the extension of its file if its URL has none."""
    if declared in HTML_TYPES or (not declared and body.lstrip()[:1] == b"<"):
        return Role.PAGE, None
    if declared == "text/css":
        return Role.STYLE, None
    if declared in _SCRIPTS:
        return Role.SCRIPT, None
    if declared == MANIFEST_TYPE:
        return Role.MANIFEST, None
    if declared == "image/svg+xml":
        return Role.PART, DRAWING  # browsers do not recognise SVG by content
    if declared.startswith(_PARTS):
        return Role.PART, None
    if is_xml(declared, b""):
        return Role.PART, ".xml"
    guessed = mimetypes.guess_extension(declared) or ""
    return Role.PART, guessed if guessed[1:] in ENDINGS - HTML_ENDINGS else ".bin"
