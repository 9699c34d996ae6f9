"""What a polite request answers: a plain value, its body read."""

from __future__ import annotations

from dataclasses import dataclass, field

from crawler.documents.charset import to_text
from crawler.fetching.request import Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A complete answer, of any status.

    url: canonical, that answered; after redirects the last one. redirects: the answers that led
    here, first to last. body: decompressed. elapsed_s: of the contact alone, without the wait for
    its turn.
    """

    url: str
    status: int
    headers: Headers
    body: bytes = field(repr=False)  # megabytes, in somebody's log
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
