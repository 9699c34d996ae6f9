"""References of a page or style sheet to other files: their roles and limits."""

from __future__ import annotations

import enum
from abc import abstractmethod
from typing import Final

from crawler.documents.decoders import UTF8
from crawler.documents.query import with_encoded_query
from policies.url import canonical

# References read of one file: as many as links are kept of a page.
REFERENCES_MAX: Final = 50_000
# Growth of one file by its references. Real pages with thousands of links grow by less than 2 MB.
GROWTH_BYTES_MAX: Final = 10_000_000
# Of one reference as written. Embedded files (data:) may be longer and are not fetched.
_REFERENCE_CHARS_MAX: Final = 16_384


class ReferenceRole(enum.StrEnum):
    """The purpose of a reference. It determines the extension of files whose URLs have none."""

    PAGE = "page"  # a link, a frame
    STYLE = "style"
    SCRIPT = "script"
    MANIFEST = "manifest"  # of a web application
    PART = "part"  # an image, a font, audio, video


class References:
    """Decides what to write for the references of one file, within limits.

    room_bytes: how far the file may still grow.
    skipped: number of references beyond the limits, which stay unchanged.
    encoding: of the file's text, which its queries are written in.
    """

    def __init__(self) -> None:
        self._left = REFERENCES_MAX
        self.room_bytes = GROWTH_BYTES_MAX
        self.skipped = 0
        self.encoding = UTF8

    @abstractmethod
    def target(self, url: str, role: ReferenceRole, fragment: str) -> str | None:
        """Return what to write for a reference to the canonical `url`, or None to keep it.

        `fragment` starts with "#" or is empty.
        """

    def resolved(self, href: str, base: str, *, encoding: str | None = None) -> str | None:
        """Count a reference and return its canonical URL, if it has one.

        encoding: of its query, if different from that of the file.
        """
        if not href:
            return None
        if self._left <= 0 or len(href) > _REFERENCE_CHARS_MAX:
            self.skipped += not href.startswith("data:")
            return None
        self._left -= 1
        return canonical(with_encoded_query(href, encoding or self.encoding), base)

    def changed(
        self, href: str, role: ReferenceRole, base: str, *, encoding: str | None = None
    ) -> str | None:
        """Return what to write for a reference, or None to keep it."""
        href = href.strip()
        if href.startswith("#"):
            return None
        url = self.resolved(href, base, encoding=encoding)
        return None if url is None else self.bounded_target(url, role, href)

    def bounded_target(self, url: str, role: ReferenceRole, href: str) -> str | None:
        """Return `target`, or None if the file would grow too much. `href` has the fragment."""
        _, mark, fragment = href.partition("#")
        to = self.target(url, role, mark + fragment)
        return to if to is not None and self.fits(len(to) - len(href)) else None

    def fits(self, growth_bytes: int) -> bool:
        """Return whether the file may grow by this. If so, reserve the space."""
        if growth_bytes > self.room_bytes:
            self.skipped += 1
            return False
        self.room_bytes -= max(growth_bytes, 0)
        return True
