"""Which pages a sink wants: by URL, status, declared type, and what the page says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from policies.scope import Globs, globs

_NO_TYPE: Final = "application/octet-stream"  # RFC 9110, 8.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Wants:
    """include, exclude: globs on whole URLs, as in `[scope]`. statuses: 200, and classes as 2 for
    2xx; empty: all. content_types: as `scope.content_types`. noindex: pages that ask not to be
    indexed, too. body: whether bodies are wanted at all."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    statuses: frozenset[int] = frozenset()
    content_types: tuple[str, ...] = ()
    noindex: bool = False
    body: bool = True

    def url(self, url: str) -> bool:
        include, exclude = globs(self.include), globs(self.exclude)
        return (include is None or include.match(url)) and not (exclude and exclude.match(url))

    def answer(self, url: str, status: int, content_type: str | None) -> bool:
        """What can be said when the header is there."""
        if self.statuses and status not in self.statuses and status // 100 not in self.statuses:
            return False
        types: Globs | None = globs(self.content_types)
        if types is not None:
            declared = (content_type or "").partition(";")[0].strip().lower()
            if not types.match(declared or _NO_TYPE):
                return False
        return self.url(url)
