"""A bounded memory of links met lately, so that most need not be asked of the store again."""

from __future__ import annotations

from collections.abc import Iterable

URLS_KEPT = 100_000  # about 20 MB; pages of a site repeat each other's links


class Known:
    """Exact: what it calls known was given to the store by this process at that depth or less
    (or left out by scope). What it has forgotten the store still knows.

    Two generations: when the younger is full it becomes the older, and the older is forgotten.
    """

    def __init__(self, kept: int = URLS_KEPT) -> None:
        self._half = max(1, kept // 2)
        self._young: dict[str, int] = {}
        self._old: dict[str, int] = {}

    def clear(self) -> None:
        """Forget all: what scope left out before may be in now."""
        self._young, self._old = {}, {}

    def new(self, url: str, depth: int) -> bool:
        """True the first time; remembers it. A shallower depth is news."""
        known = self._young.get(url)
        if known is None:
            known = self._old.get(url)
        if known is not None and known <= depth:
            return False
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        self._young[url] = depth
        return True

    def fresh(self, urls: Iterable[str], depth: int) -> list[str]:
        """Those of them that are `new`; of a page's links at once, for 70 ns each."""
        young, old = self._young, self._old
        found = []
        for url in urls:
            known = young.get(url)
            if known is None:
                known = old.get(url)
            if (known is None or known > depth) and self.new(url, depth):
                found.append(url)
                young, old = self._young, self._old
        return found
