"""Pages as JSON lines: one object a page, whole lines only."""

from __future__ import annotations

import base64
import gzip
import json
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from crawler.config import SinkConfig
from crawler.documents.charset import media_type, to_text
from crawler.documents.crawled_page import CrawledPage
from crawler.documents.page import PageLink
from crawler.sinks.members import whole_members
from crawler.sinks.rotating_file import RotatingFile
from crawler.sinks.sink import SinkError, Withdrawn
from storage.files import FILE_MODE

_COMPRESSION: Final = 6  # gzip's own default: a third of level 9's time for nearly its size
_PIECE_BYTES: Final = 1_000_000
_BEGINNINGS: Final = (b'{"url":', b'{"withdrawn":')  # of lines
# Of a page whose line would be much longer than its body; a thousand of the longest URLs.
_LINKS_BYTES_MAX: Final = 2_000_000
_TEXT: Final = re.compile(
    r"text/.*|application/(?:.+\+)?(?:xml|json|xhtml\+xml|javascript|ecmascript|x-javascript)"
)

_SURROGATES: Final = re.compile("[\ud800-\udfff]")

_encode = msgspec.json.Encoder().encode


class JsonLines:
    """The `jsonl` sink. Its objects are described in docs/sinks.md."""

    def __init__(self, config: SinkConfig, *, mode: int = FILE_MODE) -> None:
        self._config = config
        self._packs = config.compresses
        self._lines = bytearray()
        self._files = RotatingFile(
            config.path,
            whole=whole_members if self._packs else _whole_lines,
            bytes_max=config.max_file_bytes,
            age_s_max=config.max_age_s,
            fsync=config.fsync,
            mode=mode,
        )

    def open(self) -> None:
        self._files.open()

    def put(self, page: CrawledPage) -> None:
        self._add(_bounded_line(page, body=self._config.body, links=self._config.links))

    def withdraw(self, page: Withdrawn) -> None:
        row = {
            "withdrawn": page.url,
            "withdrawn_at": page.withdrawn_at,
            "reason": page.reason,
            "robots_url": page.robots_url,
            "rule": page.rule,
        }
        self._add(_line(row))

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

    def undo(self) -> None:
        self._lines.clear()
        self._files.undo()

    def close(self, hurried: threading.Event) -> None:
        del hurried  # there is nothing to finish
        self._files.close()


def _bounded_line(page: CrawledPage, *, body: str, links: bool) -> bytes:
    """A page's line, at most about as long as its body in base64 and _LINKS_BYTES_MAX of links.

    JSON writes a control character in six bytes, and a link of one byte as a whole URL: of 10 KB
    on the wire 60 MB could become."""
    row = _row(page, body=body, links=links)
    line = _line(row)
    if len(line) <= 2 * len(page.body) + _LINKS_BYTES_MAX:
        return line
    if row["body_encoding"] == "text":
        row["body"], row["body_encoding"] = _body(page, "base64")
    if links:
        row["links"], row["links_omitted"] = _some_links(page)
    return _line(row)


def _some_links(page: CrawledPage) -> tuple[list[dict[str, object]], int]:
    """The first links of a page, and how many are left out."""
    kept: list[dict[str, object]] = []
    left = _LINKS_BYTES_MAX
    for link in page.links:
        shown = _link(link)
        left -= len(_line(shown))
        if left < 0:
            break
        kept.append(shown)
    return kept, len(page.links) - len(kept)


def _line(row: Mapping[str, object]) -> bytes:
    try:
        return _encode(row)
    except UnicodeEncodeError:  # a lone surrogate, which no UTF-8 has
        text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
        return _SURROGATES.sub("\ufffd", text).encode()


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
        row["links"] = [_link(link) for link in page.links]
    text, encoding = _body(page, body)
    row["body"] = text
    row["body_encoding"] = encoding
    return row


def _link(link: PageLink) -> dict[str, object]:
    return {"url": link.url, "anchor": link.anchor, "nofollow": link.nofollow}


def _body(page: CrawledPage, how: str) -> tuple[str | None, str | None]:
    """The body and how it stands there; none where it was not read or must not be kept."""
    if how == "none" or not page.body_read or not page.directives.archive:
        return None, None
    declared = media_type(page.content_type)
    is_text = bool(_TEXT.fullmatch(declared)) if declared else b"\0" not in page.body[:1024]
    if how == "auto" and is_text:
        return to_text(page.body, page.content_type), "text"
    return base64.b64encode(page.body).decode(), "base64"


def _whole_lines(file: BinaryIO, path: Path) -> int:
    """Up to the last line's end. Raises SinkError if the file has no JSON lines in it, or if what
    follows the last line's end is none that a crash has torn."""
    size = file.seek(0, 2)
    file.seek(0)
    if file.read(1) != b"{":
        raise SinkError(f"the sink {path} has no JSON lines of a crawl in it: it was not touched")
    whole, end = 0, size
    while end:
        start = max(0, end - _PIECE_BYTES)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            whole = start + found + 1
            break
        end = start
    if whole < size and not _is_torn(file, whole):
        raise SinkError(
            f"the last line of the sink {path} has no end and was not torn by a crash: it was not "
            "touched"
        )
    return whole


def _is_torn(file: BinaryIO, at: int) -> bool:
    """Whether the end of a file may be the beginning of a line of ours; else it is the last line of
    another file, which would be lost."""
    file.seek(at)
    head = file.read(max(map(len, _BEGINNINGS)))
    if any(one.startswith(head) or head.startswith(one) for one in _BEGINNINGS):
        return True
    file.seek(at)
    try:
        json.loads(file.read(_PIECE_BYTES))
    except (ValueError, RecursionError):
        return head.startswith(b"{")
    return False
