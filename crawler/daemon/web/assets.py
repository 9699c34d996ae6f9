"""The files that pages refer to, under names that change with their content: kept for ever."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from importlib import resources
from typing import Final

from aiohttp import web

from crawler.daemon.problem import Problem

TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
PREFIX: Final = "/static/"
_CACHE: Final = "public, max-age=31536000, immutable"
_COMMENT = re.compile(rb"/\*.*?\*/", re.DOTALL)


class Assets:
    """`url("courtly.css")` → "/static/courtly.0123456789.css"; `serve` answers for it."""

    def __init__(self) -> None:
        self._by_name: dict[str, str] = {}
        self._files: dict[str, tuple[bytes, str]] = {}
        for file in resources.files("crawler.daemon.web").joinpath("static").iterdir():
            stem, _, kind = file.name.rpartition(".")
            if kind not in TYPES:
                continue
            body = file.read_bytes()
            if kind == "css":
                body = _COMMENT.sub(b"", body)
            versioned = f"{stem}.{hashlib.sha256(body).hexdigest()[:10]}.{kind}"
            self._by_name[file.name] = PREFIX + versioned
            self._files[versioned] = (body, TYPES[kind])

    @property
    def urls(self) -> Mapping[str, str]:
        """By the file's plain name."""
        return self._by_name

    def url(self, name: str) -> str:
        """KeyError for a file there is not: a template is wrong."""
        return self._by_name[name]

    async def serve(self, request: web.Request) -> web.Response:
        found = self._files.get(request.match_info["name"])
        if found is None:
            raise Problem(404, "there is no such file")
        body, kind = found
        return web.Response(
            body=body,
            headers={
                "Content-Type": kind,
                "Cache-Control": _CACHE,
            },
        )

    async def favicon(self, _: web.Request) -> web.Response:
        """For browsers that ask by the old name whatever the page says."""
        raise web.HTTPMovedPermanently(self.url("favicon.svg"))
