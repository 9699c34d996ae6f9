"""Selection of the pages for a sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from crawler.documents.charset import media_type
from policies.globs import Globs, globs

_NO_TYPE: Final = "application/octet-stream"  # RFC 9110, 8.3


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFilter:
    """The pages that a sink accepts.

    include, exclude: globs on whole URLs, as in `[scope]`.
    statuses: such as 200, and classes such as 2 for 2xx. Empty for all.
    content_types: as `scope.content_types`.
    noindex: include pages that ask not to be indexed.
    body, links: whether the sink uses them.
    requisites: include the files that pages need, regardless of `include`.
    scripts: whether these files include scripts.
    session_headers: keep response headers that may contain secrets of a session.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    statuses: frozenset[int] = frozenset()
    content_types: tuple[str, ...] = ()
    noindex: bool = False
    body: bool = True
    links: bool = True
    requisites: bool = False
    scripts: bool = False
    session_headers: bool = False

    def url(self, url: str, *, requisite: bool = False) -> bool:
        include, exclude = globs(self.include), globs(self.exclude)
        if exclude is not None and exclude.match(url):
            return False
        return include is None or (requisite and self.requisites) or include.match(url)

    def answer(
        self, url: str, status: int, content_type: str | None, *, requisite: bool = False
    ) -> bool:
        """Return whether a response is accepted, given its header."""
        if self.statuses and status not in self.statuses and status // 100 not in self.statuses:
            return False
        types: Globs | None = globs(self.content_types)
        if types is not None:
            declared = media_type(content_type)
            if not types.match(declared or _NO_TYPE):
                return False
        return self.url(url, requisite=requisite)
