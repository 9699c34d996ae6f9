"""The files that a browser needs to show a page or a style sheet: images, styles, fonts, media."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from crawler.documents import markup
from crawler.documents.charset import media_type, style_text, to_utf8
from crawler.documents.page import HTML_TYPES, XHTML
from crawler.sinks.inert import is_drawing, xml_text
from crawler.sinks.mirror_paths import file_of
from crawler.sinks.references import ReferenceRole, References
from crawler.sinks.rewriting import collect_references
from crawler.sinks.styles import in_style

# Requisites of one page or style sheet. Real ones have up to a few hundred.
REQUISITES_MAX: Final = 1_000
# Bytes read of one file. Real style sheets stay below 1 MB.
BYTES_READ_MAX: Final = 5_000_000
MANIFEST_TYPE: Final = "application/manifest+json"
_JSON_TYPES: Final = frozenset({MANIFEST_TYPE, "application/json", "text/json"})
_ENDINGS: Final = ("json", "webmanifest")
MANIFEST_BYTES_MAX: Final = 1_000_000  # longer files are not manifests


class Requisites(NamedTuple):
    """The URLs that a file needs, with their roles. `whole`: whether they are complete."""

    roles: Mapping[str, ReferenceRole]
    whole: bool


class _Collector(References):
    """Collects the references of the file at `url`, and changes none."""

    def __init__(self, url: str, *, scripts: bool) -> None:
        super().__init__()
        self._url = url
        self._scripts = scripts
        self.roles: dict[str, ReferenceRole] = {}

    def target(self, url: str, role: ReferenceRole, fragment: str) -> None:
        del fragment
        if (
            role is ReferenceRole.PAGE
            or (role is ReferenceRole.SCRIPT and not self._scripts)
            or url == self._url
        ):
            return
        if len(self.roles) < REQUISITES_MAX:
            self.roles.setdefault(url, role)
        else:
            self.skipped += url not in self.roles


def requisites(url: str, content_type: str | None, body: bytes, *, scripts: bool) -> Requisites:
    """Return what a page, style sheet, SVG or manifest needs. Never raises."""
    declared = media_type(content_type)
    references = _Collector(url, scripts=scripts)
    start = body[:BYTES_READ_MAX]
    whole = len(start) == len(body)
    if declared == "text/css":
        text, references.encoding = style_text(start, content_type)
        in_style(text, url, references)
    elif declared in HTML_TYPES:
        html, references.encoding = to_utf8(start, content_type)
        html = markup.expand_empty_elements(html) if declared == XHTML else html
        collect_references(html, url, references, scripts=scripts)
    elif declared == "image/svg+xml":
        text, references.encoding = xml_text(start)
        if is_drawing(text):
            svg = text.encode("utf-8", "replace")
            collect_references(svg, url, references, scripts=False)
        else:
            whole = True
    else:
        whole = True
        in_manifest(declared, body, url, references)
    return Requisites(references.roles, whole and not references.skipped)


def in_manifest(declared: str, body: bytes, url: str, references: References) -> bytes | None:
    """Change the references to images in a manifest. Never raises.

    Return None if none was changed, or if this is not a manifest. `declared`: the media type.
    """
    ending = file_of(url, ReferenceRole.PART).rpartition(".")[2]
    if declared not in _JSON_TYPES and ending not in _ENDINGS:
        return None
    if len(body) > MANIFEST_BYTES_MAX or b'"src"' not in body:
        return None
    changed = False
    try:
        manifest = json.loads(body.decode("utf-8-sig", "replace"))
        for image in _images(manifest):
            to = references.changed(image["src"], ReferenceRole.PART, url)
            if to is not None:
                image["src"] = to
                changed = True
        if not changed:
            return None
        return json.dumps(manifest, ensure_ascii=False).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return None  # not JSON, or nested too deep


def _images(manifest: Any) -> Iterator[dict[str, Any]]:
    for of in (manifest, *_objects(manifest, "shortcuts")):
        for image in (*_objects(of, "icons"), *_objects(of, "screenshots")):
            if isinstance(image.get("src"), str):
                yield image


def _objects(of: Any, key: str) -> list[dict[str, Any]]:
    values = of.get(key) if isinstance(of, dict) else None
    return [one for one in values if isinstance(one, dict)] if isinstance(values, list) else []
