"""The keys of a `[[sink]]`, and which of them each kind has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crawler.config import checks
from crawler.config.key import TEXTS, Key, as_given, whole_path
from crawler.config.readers import duration_s, each, one_of, size_limit

SINK_KINDS = ("jsonl", "warc", "mirror")
BODIES = ("auto", "base64", "none")

SINK = {
    "kind": Key(
        accepts=str,
        read=one_of(lambda: SINK_KINDS),
        note="what is written",
        choices=SINK_KINDS,
    ),
    "path": Key(
        accepts=str,
        read=checks.path_text,
        note="where; a relative path is relative to the config file",
        rooted=whole_path,
    ),
    "include": Key(
        accepts=TEXTS,
        read=each(checks.url_pattern),
        note="glob patterns on whole URLs; empty: all",
    ),
    "exclude": Key(
        accepts=TEXTS, read=each(checks.url_pattern), note="glob patterns on whole URLs"
    ),
    "status": Key(
        accepts=tuple[int | str, ...],
        read=checks.statuses,
        note='statuses and classes of them, such as [200, "3xx"]; empty: all',
    ),
    "content_types": Key(
        accepts=TEXTS, read=each(checks.media_type), note='such as "text/html"; empty: all'
    ),
    "noindex": Key(accepts=bool, read=as_given, note="take pages that ask not to be indexed, too"),
    "fsync": Key(
        accepts=bool,
        read=as_given,
        note="wait for the medium before a page is committed: outlives a power cut",
    ),
    "max_file": Key(
        accepts=float | str,
        read=size_limit,
        note="a larger file is followed by another, bytes",
        field="max_file_bytes",
    ),
    "max_age": Key(
        accepts=float | str,
        read=duration_s(above=True, inf=True),
        note="an older file is followed by another, seconds",
        field="max_age_s",
    ),
    "gzip": Key(
        accepts=bool,
        read=as_given,
        note='compress; default: by the name\'s ending, a WARC unless it ends in ".warc"',
    ),
    "body": Key(
        accepts=str,
        read=one_of(lambda: BODIES),
        note="bodies as text where they are text and else as base64; all as base64; or none",
        choices=BODIES,
    ),
    "links": Key(accepts=bool, read=as_given, note="the links of each page"),
    "requisites": Key(
        accepts=bool, read=as_given, note="fetch what its pages need to be shown, on any host"
    ),
    "scripts": Key(accepts=bool, read=as_given, note="fetch and keep scripts, too"),
    "session_headers": Key(
        accepts=bool,
        read=as_given,
        note="keep Set-Cookie and other response headers that may hold a session's secrets",
    ),
}
_OF_FILES = ("max_file", "max_age", "gzip")
_OF_ALL = ("kind", "path", "include", "exclude", "status", "content_types", "noindex", "fsync")
# Kind -> the keys that its [[sink]] may have.
SINK_KEYS: Mapping[str, Sequence[str]] = {
    "jsonl": (*_OF_ALL, *_OF_FILES, "body", "links", "session_headers"),
    "warc": (*_OF_ALL, *_OF_FILES, "session_headers"),
    "mirror": (*_OF_ALL, "requisites", "scripts"),
}
SINK_REQUIRED = ("kind", "path")
