"""The JSON Lines sink: one object per page."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from crawler.clock import RealClock
from crawler.config import SinkConfig
from crawler.documents.charset import media_type, to_text
from crawler.documents.crawled_page import CrawledPage
from crawler.documents.page import PageLink
from crawler.sinks.rotating_file import RotatingFileSink, WallClock
from crawler.sinks.sink import SinkError, Withdrawn
from storage.safe_files import FILE_MODE

_COMPRESSION: Final = 6  # gzip's default; level 9 takes three times as long for nearly no gain
_PIECE_BYTES: Final = 1_000_000
_LINE_STARTS: Final = (b'{"url":', b'{"withdrawn":')
# Bytes of links in a line that would be much longer than the body of its page.
_LINKS_BYTES_MAX: Final = 2_000_000
_TEXT_TYPE: Final = re.compile(
    r"text/.*|application/(?:.+\+)?(?:xml|json|xhtml\+xml|javascript|ecmascript|x-javascript)"
)
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_encode = msgspec.json.Encoder().encode


class JsonLines(RotatingFileSink):
    """The `jsonl` sink. docs/sinks.md describes its objects."""

    def __init__(
        self, config: SinkConfig, *, mode: int = FILE_MODE, clock: WallClock = RealClock
    ) -> None:
        super().__init__(config, mode=mode, clock=clock)
        self._lines = bytearray()  # to be compressed

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

    def flush(self) -> None:
        self._compress()
        super().flush()

    def undo(self) -> None:
        self._lines = bytearray()
        super().undo()

    def _add(self, line: bytes) -> None:
        if self._config.compresses:
            self._lines += line + b"\n"
            if len(self._lines) >= _PIECE_BYTES:
                self._compress()
        else:
            self.append(line + b"\n")

    def _compress(self) -> None:
        """Append the lines as one gzip member, which a crash keeps or discards as a whole."""
        if self._lines:
            self.append(gzip.compress(self._lines, _COMPRESSION, mtime=0))
            self._lines = bytearray()

    def whole_records(self, file: BinaryIO, path: Path) -> int:
        """Return the end of the last complete line.

        Raises SinkError if the file does not contain JSON lines, or if its last line is incomplete
        for another reason than a crash.
        """
        size = file.seek(0, 2)
        file.seek(0)
        if file.read(1) != b"{":
            raise SinkError(f"the sink {path} does not contain JSON lines and was not touched")
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
                f"the last line of the sink {path} is incomplete, but not because of a crash; the"
                " file was not touched"
            )
        return whole


def _bounded_line(page: CrawledPage, *, body: str, links: bool) -> bytes:
    """Return the line of a page, bounded by the size of its body plus _LINKS_BYTES_MAX.

    Otherwise 10 KB on the wire could become 60 MB: JSON escapes a control character as six bytes,
    and a link of one byte becomes an absolute URL.
    """
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
    """Return the first links of a page and the number of omitted ones."""
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
    except UnicodeEncodeError:  # a lone surrogate
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
    if page.data is not None:
        row["data"] = page.data
    if links:
        row["links"] = [_link(link) for link in page.links]
    text, encoding = _body(page, body)
    row["body"] = text
    row["body_encoding"] = encoding
    return row


def _link(link: PageLink) -> dict[str, object]:
    return {"url": link.url, "anchor": link.anchor, "nofollow": link.nofollow}


def _body(page: CrawledPage, how: str) -> tuple[str | None, str | None]:
    """Return the body and its encoding in JSON, or None if it was not read or may not be kept."""
    if how == "none" or not page.body_read or not page.directives.archive:
        return None, None
    declared = media_type(page.content_type)
    is_text = bool(_TEXT_TYPE.fullmatch(declared)) if declared else b"\0" not in page.body[:1024]
    if how == "auto" and is_text:
        return to_text(page.body, page.content_type), "text"
    return base64.b64encode(page.body).decode(), "base64"


def _is_torn(file: BinaryIO, at: int) -> bool:
    """Return whether the end of a file may be the start of a line that this sink wrote.

    Otherwise it is the last line of an unrelated file, which must not be truncated.
    """
    file.seek(at)
    head = file.read(max(map(len, _LINE_STARTS)))
    if any(one.startswith(head) or head.startswith(one) for one in _LINE_STARTS):
        return True
    file.seek(at)
    try:
        json.loads(file.read(_PIECE_BYTES))
    except (ValueError, RecursionError):
        return head.startswith(b"{")
    return False
