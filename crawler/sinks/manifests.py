"""Images of web application manifests (W3C Web Application Manifest)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from crawler.sinks.mirror_paths import file_of
from crawler.sinks.references import ReferenceRole, References

MANIFEST_TYPE: Final = "application/manifest+json"
_JSON_TYPES: Final = frozenset({MANIFEST_TYPE, "application/json", "text/json"})
_ENDINGS: Final = ("json", "webmanifest")
MANIFEST_BYTES_MAX: Final = 1_000_000  # longer files are not manifests


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
