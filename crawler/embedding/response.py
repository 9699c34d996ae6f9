"""The response to a polite request: a plain value with its complete body."""

from __future__ import annotations

from dataclasses import dataclass, field

from crawler.documents.charset import to_text
from crawler.fetching.request import Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A complete response, of any status.

    url: canonical; after redirects, the last one. redirects: the responses that led here, in order.
    body: decompressed. elapsed_s: duration of the contact, without the wait for permission.
    """

    url: str
    status: int
    headers: Headers
    body: bytes = field(repr=False)  # may be megabytes
    elapsed_s: float
    redirects: tuple[Response, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status < 400

    @property
    def content_type(self) -> str | None:
        return self.headers.get("Content-Type")

    @property
    def text(self) -> str:
        """The body as text: by BOM, header, meta, and only then by guessing."""
        return to_text(self.body, self.content_type)
