"""References of a page or a style sheet to other files: what each is for, and how many are read."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final

from crawler.documents.encoding import UTF8
from crawler.documents.query import with_encoded_query
from policies.url import canonical

# References of one file that are read: as many as links are taken from a page.
REFERENCES_MAX: Final = 50_000
# How far the references of one file may make it grow. Real pages with thousands of links grow by
# less than 2 MB.
GROWTH_BYTES_MAX: Final = 10_000_000
# Of one reference as it is written; an embedded file (data:) is none to be fetched.
_REFERENCE_CHARS_MAX: Final = 16_384


class Role(enum.StrEnum):
    """What a reference is for; a file's ending follows from it where the URL has none."""

    PAGE = "page"  # a link, a frame
    STYLE = "style"
    SCRIPT = "script"
    MANIFEST = "manifest"  # of a web application
    PART = "part"  # an image, a font, sound, a film


# (canonical URL, role, fragment with its "#" or "") → what stands there instead; None: as it was.
Change = Callable[[str, Role, str], str | None]


class References:
    """What to write in the places of one file's references, for at most REFERENCES_MAX of them and
    as long as the file grows by at most GROWTH_BYTES_MAX. `skipped` counts those beyond, which stay
    as they are."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self._left = REFERENCES_MAX
        self.room_bytes = GROWTH_BYTES_MAX  # by which the file may still grow
        self.skipped = 0
        self.encoding = UTF8  # in which queries are written: that of the file's text

    def resolved(self, href: str, base: str, *, encoding: str | None = None) -> str | None:
        """The canonical URL of a reference, which counts as read; None where it has none.

        encoding: of its query, if that is another than the file's."""
        if not href:
            return None
        if self._left <= 0 or len(href) > _REFERENCE_CHARS_MAX:
            self.skipped += not href.startswith("data:")
            return None
        self._left -= 1
        return canonical(with_encoded_query(href, encoding or self.encoding), base)

    def changed(
        self, href: str, role: Role, base: str, *, encoding: str | None = None
    ) -> str | None:
        """What stands in the place of a reference instead; None: it stays."""
        href = href.strip()
        if href.startswith("#"):
            return None
        url = self.resolved(href, base, encoding=encoding)
        return None if url is None else self.led(url, role, href)

    def led(self, url: str, role: Role, href: str) -> str | None:
        """The same for a reference whose URL is known; `href` has its fragment."""
        _, mark, fragment = href.partition("#")
        to = self._change(url, role, mark + fragment)
        return to if to is not None and self.fits(len(to) - len(href)) else None

    def fits(self, growth_bytes: int) -> bool:
        """Whether the file may grow by this; if so, it has grown."""
        if growth_bytes > self.room_bytes:
            self.skipped += 1
            return False
        self.room_bytes -= max(growth_bytes, 0)
        return True
