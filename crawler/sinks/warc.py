"""The WARC sink (ISO 28500:2017).

Each page becomes a response record, or a revisit record if the same payload was written before,
with a request and a metadata record.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Final

from warcio.recordloader import ArcWarcRecord
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from crawler.config import SinkConfig
from crawler.documents.crawled_page import CrawledPage
from crawler.sinks.rotating_file import RotatingFileSink
from crawler.sinks.sink import SinkError, Withdrawn
from policies.url import origin_of, path_of
from storage.safe_files import FILE_MODE

_VERSION: Final = "WARC/1.1"
# Digests of payloads kept in memory for revisit records: about 8 MB.
_DIGESTS_MAX: Final = 25_000
# A revisit record saves no space for smaller payloads.
_PAYLOAD_BYTES_MIN: Final = 256
# Bodies are stored decoded. These headers describe the transfer and are stored under other names.
_OF_TRANSFER: Final = frozenset({"content-encoding", "transfer-encoding", "content-length"})
_CONTENT_LENGTH: Final = re.compile(
    rb"\r\nContent-Length:[ \t]*([0-9]{1,18})[ \t]*\r\n", re.IGNORECASE
)
_HEAD_BYTES_MAX: Final = 1_000_000  # of a WARC record
# Folded header fields are joined to one line (RFC 9112, section 5.2).
_BREAKS: Final = re.compile(r"[\r\n\0]+")
_NOT_IN_NAMES: Final = re.compile(r"[^!-9;-~]")  # would end a name for readers of the record


class Warc(RotatingFileSink):
    """The `warc` sink.

    about: the fields of the warcinfo record at the start of each file.
    sent: the request headers that are not secret.
    """

    def __init__(
        self,
        config: SinkConfig,
        *,
        about: Mapping[str, str],
        sent: Mapping[str, str],
        mode: int = FILE_MODE,
    ) -> None:
        super().__init__(config, mode=mode)
        self._about = about
        self._sent = sent
        self._payloads: OrderedDict[str, tuple[str, str]] = OrderedDict()  # URL and date by digest
        self._new: list[str] = []  # digests since the last flush

    def flush(self) -> None:
        super().flush()
        self._new.clear()

    def undo(self) -> None:
        for digest in self._new:  # later records must not refer to them
            self._payloads.pop(digest, None)
        self._new.clear()
        super().undo()

    def head(self, path: Path) -> bytes:
        out, writer = self._writer()
        writer.write_record(writer.create_warcinfo_record(path.name, dict(self._about)))
        return out.getvalue()

    def whole_records(self, file: BinaryIO, path: Path) -> int:
        size = file.seek(0, 2)
        at = 0
        while at < size:
            file.seek(at)
            head = b""
            while b"\r\n\r\n" not in head and len(head) < _HEAD_BYTES_MAX:
                piece = file.read(4096)
                if not piece:
                    break
                head += piece
            if at == 0 and not head.startswith(b"WARC/1."[: len(head)]):
                raise SinkError(f"the sink {path} is not a WARC file and was not touched")
            end = head.find(b"\r\n\r\n")
            length = _CONTENT_LENGTH.search(head, 0, end + 2)
            if end < 0 or length is None or not head.startswith(b"WARC/1."):
                break
            after = at + end + 4 + int(length[1]) + 4
            if after > size:
                break
            at = after
        return at

    def _writer(self) -> tuple[BytesIO, WARCWriter]:
        out = BytesIO()
        return out, WARCWriter(out, gzip=self._config.compresses, warc_version=_VERSION)

    def put(self, page: CrawledPage) -> None:
        out, writer = self._writer()
        date = _date(page.timings.started_at)
        fresh: list[str] = []
        response = self._response(writer, page, date, fresh)
        response_id = response.rec_headers.get_header("WARC-Record-ID")
        beside = {"WARC-Date": date, "WARC-Concurrent-To": response_id}
        writer.write_record(response)
        request = _HttpHead(
            f"GET {path_of(page.url)} HTTP/1.1",
            [("Host", origin_of(page.url).partition("://")[2]), *self._sent.items()],
            is_http_request=True,
        )
        writer.write_record(
            writer.create_warc_record(
                page.url, "request", http_headers=request, warc_headers_dict=dict(beside)
            )
        )
        writer.write_record(self._metadata(writer, page.url, _fields(page), beside))
        self.append(out.getvalue())
        for digest in fresh:  # only now: revisits must refer to written records
            self._payloads[digest] = (page.url, date)
            self._new.append(digest)
            if len(self._payloads) > _DIGESTS_MAX:
                self._payloads.popitem(last=False)

    def withdraw(self, page: Withdrawn) -> None:
        out, writer = self._writer()
        date = _date(page.withdrawn_at)
        said = {"withdrawn": date, "reason": page.reason}
        if page.robots_url is not None:
            said |= {"robots": page.robots_url, "rule": page.rule or ""}
        writer.write_record(self._metadata(writer, page.url, said, {"WARC-Date": date}))
        self.append(out.getvalue())
        for digest in [d for d, (url, _) in self._payloads.items() if url == page.url]:
            del self._payloads[digest]  # no later record may refer to it

    def _response(
        self, writer: WARCWriter, page: CrawledPage, date: str, fresh: list[str]
    ) -> ArcWarcRecord:
        """Create the response record. The digest of a new payload is added to `fresh`."""
        body = page.body if page.body_read and page.directives.archive else b""
        try:
            phrase = HTTPStatus(page.status).phrase
        except ValueError:
            phrase = ""
        head = _HttpHead(
            f"{page.status} {phrase}".rstrip(), _headers(page, len(body)), protocol="HTTP/1.1"
        )
        said = {"WARC-Date": date}
        if page.address:
            said["WARC-IP-Address"] = page.address
        if len(body) >= _PAYLOAD_BYTES_MIN:
            sha1 = hashlib.sha1(body, usedforsecurity=False).digest()
            digest = "sha1:" + base64.b32encode(sha1).decode()
            if (first := self._payloads.get(digest)) is not None:
                self._payloads.move_to_end(digest)
                return writer.create_revisit_record(
                    page.url, digest, *first, http_headers=head, warc_headers_dict=said
                )
            fresh.append(digest)
        elif not body and not page.body_read and page.status not in (204, 304):
            said["WARC-Truncated"] = "unspecified"  # not downloaded, because no consumer needs it
        elif not body and page.body:
            said["WARC-Truncated"] = "unspecified"  # the page asks not to be archived
        return writer.create_warc_record(
            page.url,
            "response",
            payload=BytesIO(body),
            length=len(body),
            http_headers=head,
            warc_headers_dict=said,
        )

    def _metadata(
        self, writer: WARCWriter, url: str, fields: Mapping[str, str], said: Mapping[str, str]
    ) -> ArcWarcRecord:
        lines = [f"{name}: {_BREAKS.sub(' ', value)}\r\n" for name, value in fields.items()]
        payload = "".join(lines).encode("utf-8", "replace")
        return writer.create_warc_record(
            url,
            "metadata",
            payload=BytesIO(payload),
            length=len(payload),
            warc_headers_dict=dict(said),
        )


class _HttpHead(StatusAndHeaders):  # type: ignore[misc]
    """A response header, byte for byte. warcio would quote non-ASCII characters or fail."""

    def to_ascii_bytes(self, header_filter: Callable[..., Any] | None = None) -> bytes:
        text: str = self.to_str(header_filter)
        try:
            return text.encode("utf-8", "surrogateescape") + b"\r\n"
        except UnicodeEncodeError:  # from a custom fetcher
            return text.encode("utf-8", "replace") + b"\r\n"


def _headers(page: CrawledPage, body_bytes: int) -> list[tuple[str, str]]:
    """Return the header fields of a response, adapted to the stored body."""
    found: list[tuple[str, str]] = []
    for name, value in (page.headers if page.raw_headers is None else page.raw_headers).items():
        if name.lower() in _OF_TRANSFER:
            name = f"X-Crawler-{name}"
        found.append((_NOT_IN_NAMES.sub("_", name), _BREAKS.sub(" ", value)))
    return [*found, ("Content-Length", str(body_bytes))]


def _fields(page: CrawledPage) -> dict[str, str]:
    fields = {
        "fetched-at": repr(page.fetched_at),  # identifies the committed record
        "fetchTimeMs": str(round(page.timings.elapsed_s * 1000)),
        "hopsFromSeed": str(page.depth),
    }
    directives = page.directives
    asked = {"noindex": directives.index, "nofollow": directives.follow}
    asked["noarchive"] = directives.archive
    if any(not may for may in asked.values()):
        fields["robots-directives"] = ", ".join(name for name, may in asked.items() if not may)
    if page.usage:
        fields["usage"] = str(page.usage)
    if page.canonical_url:
        fields["canonical"] = page.canonical_url
    if page.redirect_url:
        fields["redirects-to"] = page.redirect_url
    return fields


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
