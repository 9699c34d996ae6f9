"""The response to a polite request: a plain value with its complete body."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from crawler.documents.charset import to_text
from crawler.fetching.request import Headers

SHOWN_BYTES: Final = 60  # of a body that is not JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A complete response, of any status.

    url: canonical; after redirects, the last one. redirects: the responses that led here, in order.
    body: decompressed. elapsed_s: duration of the contact, without the wait for permission.
    from_cache: from the session's response cache, without a contact now.
    """

    url: str
    status: int
    headers: Headers
    body: bytes = field(repr=False)  # may be megabytes
    elapsed_s: float
    redirects: tuple[Response, ...] = ()
    from_cache: bool = False

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

    def json(self) -> Any:
        """The body read as JSON (RFC 8259), which is UTF-8, or UTF-16 or UTF-32 as older servers
        send it; without regard to the Content-Type. Raises ValueError, which shows the beginning
        of the body."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            shown = ascii(self.body[:SHOWN_BYTES])[1:]
            more = "…" if len(self.body) > SHOWN_BYTES else ""
            raise ValueError(
                f"the body of {self.url} (status {self.status}, {self.content_type or 'no type'}) "
                f"is not JSON: {error}. It begins with {shown}{more}"
            ) from error
