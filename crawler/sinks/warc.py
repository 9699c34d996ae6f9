"""Pages as WARC records (ISO 28500:2017): a response with its request and metadata, or a revisit
where the same payload was written before."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
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
from crawler.sinks.members import whole_members
from crawler.sinks.rotating_file import RotatingFile
from crawler.sinks.sink import SinkError, Withdrawn
from policies.url import origin_of, path_of
from storage.files import FILE_MODE

_VERSION: Final = "WARC/1.1"
# Payloads remembered, so that the same one is written once: some 8 MB of memory.
_DIGESTS_MAX: Final = 25_000
# A revisit record takes as much room as so small a payload.
_PAYLOAD_BYTES_MIN: Final = 256
# Bodies are kept as decoded; what the header says of how they were sent is kept under other names.
_OF_TRANSFER: Final = frozenset({"content-encoding", "transfer-encoding", "content-length"})
_CONTENT_LENGTH: Final = re.compile(
    rb"\r\nContent-Length:[ \t]*([0-9]{1,18})[ \t]*\r\n", re.IGNORECASE
)
_HEAD_BYTES_MAX: Final = 1_000_000  # of a WARC record: ours have a few lines
# A field that was folded over several lines is the same on one (RFC 9112, 5.2).
_BREAKS: Final = re.compile(r"[\r\n\0]+")
_NOT_IN_NAMES: Final = re.compile(r"[^!-9;-~]")  # as a record's reader tells a name from its value


class Warc:
    """The `warc` sink.

    about: what the warcinfo record of each file says, name by name. sent: the request headers that
    are no secret.
    """

    def __init__(
        self,
        config: SinkConfig,
        *,
        about: Mapping[str, str],
        sent: Mapping[str, str],
        mode: int = FILE_MODE,
    ) -> None:
        self._packs = config.compresses
        self._about = about
        self._sent = sent
        self._payloads: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._new: list[str] = []  # of these, since the last flush
        self._files = RotatingFile(
            config.path,
            whole=whole_members if self._packs else _whole_records,
            head=self._head,
            bytes_max=config.max_file_bytes,
            age_s_max=config.max_age_s,
            fsync=config.fsync,
            mode=mode,
        )

    def open(self) -> None:
        self._files.open()

    def close(self, hurried: threading.Event) -> None:
        del hurried  # there is nothing to finish
        self._files.close()

    def flush(self) -> None:
        self._files.flush()
        self._new.clear()

    def undo(self) -> None:
        for digest in self._new:  # no later record may refer to them
            self._payloads.pop(digest, None)
        self._new.clear()
        self._files.undo()

    # ------------------------------------------------------------ records

    def put(self, page: CrawledPage) -> None:
        out = BytesIO()
        writer = WARCWriter(out, gzip=self._packs, warc_version=_VERSION)
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
        self._files.append(out.getvalue())
        for digest in fresh:  # not before: what was not written must not be referred to
            self._payloads[digest] = (page.url, date)
            self._new.append(digest)
            if len(self._payloads) > _DIGESTS_MAX:
                self._payloads.popitem(last=False)

    def withdraw(self, page: Withdrawn) -> None:
        out = BytesIO()
        writer = WARCWriter(out, gzip=self._packs, warc_version=_VERSION)
        date = _date(page.withdrawn_at)
        said = {"withdrawn": date, "reason": page.reason}
        if page.robots_url is not None:
            said |= {"robots": page.robots_url, "rule": page.rule or ""}
        writer.write_record(self._metadata(writer, page.url, said, {"WARC-Date": date}))
        self._files.append(out.getvalue())
        for digest in [d for d, (url, _) in self._payloads.items() if url == page.url]:
            del self._payloads[digest]  # nothing refers to it any more

    def _response(
        self, writer: WARCWriter, page: CrawledPage, date: str, fresh: list[str]
    ) -> ArcWarcRecord:
        """`fresh` gets the digest of a payload that no record has yet."""
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
            said["WARC-Truncated"] = "unspecified"  # nobody wanted it: it was not downloaded
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

    def _head(self, path: Path) -> bytes:
        out = BytesIO()
        writer = WARCWriter(out, gzip=self._packs, warc_version=_VERSION)
        writer.write_record(writer.create_warcinfo_record(path.name, dict(self._about)))
        return out.getvalue()


class _HttpHead(StatusAndHeaders):  # type: ignore[misc]
    """The header of an answer, byte for byte; warcio would quote what is not ASCII, and fails at
    some of it."""

    def to_ascii_bytes(self, header_filter: Callable[..., Any] | None = None) -> bytes:
        text: str = self.to_str(header_filter)
        try:
            return text.encode("utf-8", "surrogateescape") + b"\r\n"
        except UnicodeEncodeError:  # of a fetcher that gives what was never received
            return text.encode("utf-8", "replace") + b"\r\n"


def _headers(page: CrawledPage, body_bytes: int) -> list[tuple[str, str]]:
    """The answer's fields as they fit the body that is kept."""
    found: list[tuple[str, str]] = []
    for name, value in (page.headers if page.raw_headers is None else page.raw_headers).items():
        if name.lower() in _OF_TRANSFER:
            name = f"X-Crawler-{name}"
        found.append((_NOT_IN_NAMES.sub("_", name), _BREAKS.sub(" ", value)))
    return [*found, ("Content-Length", str(body_bytes))]


def _fields(page: CrawledPage) -> dict[str, str]:
    fields = {
        "fetched-at": repr(page.fetched_at),  # as in the database: of repeats, this one counts
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


def _whole_records(file: BinaryIO, path: Path) -> int:
    """Up to the end of the last whole record of a file that is not compressed."""
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
            raise SinkError(f"the sink {path} is not a WARC file: it was not touched")
        end = head.find(b"\r\n\r\n")
        length = _CONTENT_LENGTH.search(head, 0, end + 2)
        if end < 0 or length is None or not head.startswith(b"WARC/1."):
            break
        after = at + end + 4 + int(length[1]) + 4
        if after > size:
            break
        at = after
    return at
