"""Pages as JSON lines: one object a page, whole lines only."""

from __future__ import annotations

import base64
import gzip
import re
import threading
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from crawler.config import SinkConfig
from crawler.documents.charset import to_utf8
from crawler.documents.crawled import CrawledPage
from crawler.sinks.base import SinkError, Withdrawn
from crawler.sinks.files import Files
from crawler.sinks.members import whole_members

_COMPRESSION: Final = 6  # gzip's own default: a third of level 9's time for nearly its size
_PIECE_BYTES: Final = 1_000_000
_TEXT: Final = re.compile(
    r"text/.*|application/(?:.+\+)?(?:xml|json|xhtml\+xml|javascript|ecmascript|x-javascript)"
)

_encode = msgspec.json.Encoder().encode


class JsonLines:
    """The `jsonl` sink. Its objects are described in docs/sinks.md."""

    def __init__(self, config: SinkConfig) -> None:
        self._config = config
        self._packs = config.compresses
        self._lines = bytearray()
        self._files = Files(
            config.path,
            whole=whole_members if self._packs else _whole_lines,
            bytes_max=config.max_file_bytes,
            age_s_max=config.max_age_s,
            fsync=config.fsync,
        )

    def open(self) -> None:
        self._files.open()

    def put(self, page: CrawledPage) -> None:
        self._add(_encode(_row(page, body=self._config.body, links=self._config.links)))

    def withdraw(self, page: Withdrawn) -> None:
        row = {
            "withdrawn": page.url,
            "withdrawn_at": page.withdrawn_at,
            "reason": page.reason,
            "robots_url": page.robots_url,
            "rule": page.rule,
        }
        self._add(_encode(row))

    def _add(self, line: bytes) -> None:
        if self._packs:
            self._lines += line + b"\n"
            if len(self._lines) >= _PIECE_BYTES:
                self._pack()
        else:
            self._files.append(line + b"\n")

    def _pack(self) -> None:
        """A gzip member of whole lines: a crash costs a whole member, or nothing."""
        if self._lines:
            self._files.append(gzip.compress(self._lines, _COMPRESSION, mtime=0))
            self._lines.clear()

    def flush(self) -> None:
        self._pack()
        self._files.flush()

    def close(self, hurried: threading.Event) -> None:
        del hurried  # there is nothing to finish
        self._files.close()


def _row(page: CrawledPage, *, body: str, links: bool) -> dict[str, object]:
    row: dict[str, object] = {
        "url": page.url,
        "status": page.status,
        "fetched_at": page.fetched_at,
        "content_type": page.content_type,
        "title": page.title,
        "depth": page.depth,
        "redirect_url": page.redirect_url,
        "canonical_url": page.canonical_url,
        "indexable": page.directives.index,
        "followable": page.directives.follow,
        "archivable": page.directives.archive,
        "usage": [
            {"where": str(one.where), "name": one.name, "value": one.value}
            for one in page.usage.signals
        ],
        "elapsed_s": round(page.timings.elapsed_s, 6),
        "headers": [[str(name), value] for name, value in page.headers.items()],
    }
    if links:
        row["links"] = [
            {"url": link.url, "anchor": link.anchor, "nofollow": link.nofollow}
            for link in page.links
        ]
    text, encoding = _body(page, body)
    row["body"] = text
    row["body_encoding"] = encoding
    return row


def _body(page: CrawledPage, how: str) -> tuple[str | None, str | None]:
    """The body and how it stands there; none where it was not read or must not be kept."""
    if how == "none" or not page.body_read or not page.directives.archive:
        return None, None
    declared = (page.content_type or "").partition(";")[0].strip().lower()
    is_text = bool(_TEXT.fullmatch(declared)) if declared else b"\0" not in page.body[:1024]
    if how == "auto" and is_text:
        return to_utf8(page.body, page.content_type)[0].decode("utf-8", "replace"), "text"
    return base64.b64encode(page.body).decode(), "base64"


def _whole_lines(file: BinaryIO, path: Path) -> int:
    """Up to the last line's end. Raises SinkError if the file has no JSON lines in it."""
    size = file.seek(0, 2)
    file.seek(0)
    if file.read(1) != b"{":
        raise SinkError(f"the sink {path} has no JSON lines of a crawl in it: it was not touched")
    end = size
    while end:
        start = max(0, end - _PIECE_BYTES)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
