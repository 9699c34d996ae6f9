"""A bounded memory of links met lately, so that most need not be asked of the store again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Protocol

from crawler.documents import page_reader
from crawler.documents.links import LinkMemory

# About 20 MB: a dictionary's entry and an integer each. A page shows its own site's links again
# and again, and many sites take turns: what is forgotten costs 40 times as much to be found known
# by the store, so the memory is worth more than that of most things.
URLS_KEPT: Final = 250_000
_NEVER: Final = 1 << 62  # deeper than any link


class SeenLinks(LinkMemory, Protocol):
    """The links this process gave to the store, at that depth or less, or found out of scope.
    The store still knows links that are forgotten here.

    It knows a URL by a hash of it, 64 bits under a secret of this process: half the memory of the
    text, and no text has to be fetched to be compared. Of ten million URLs one is taken for another
    with a chance of 2 in a million, as with the store's own fingerprints.

    Two generations: when the younger is full it becomes the older, and the older is forgotten,
    but for what was met again.
    """

    def __len__(self) -> int: ...

    def clear(self) -> None:
        """Forget all: what scope left out before may be in now."""
        ...

    def new(self, url: str, depth: int) -> bool:
        """Return whether a link is new, and remember it. A shallower depth is news."""
        ...

    def knows(self, url: str, depth: int) -> bool:
        """Return whether it is no longer `new`; remembers nothing."""
        ...


def seen_links(kept: int = URLS_KEPT) -> SeenLinks:
    """Return an empty memory, in native code where pages are read there."""
    if page_reader.name() == page_reader.NATIVE:
        from courtly_native import SeenLinks as SeenNatively

        return SeenNatively(kept)
    return SeenInPython(kept)


class SeenInPython:
    """See `SeenLinks`."""

    native: ClassVar[bool] = False

    def __init__(self, kept: int) -> None:
        self._half = max(1, kept // 2)
        self._young: dict[int, int] = {}  # hash of a URL -> the minimum depth at which it was found
        self._old: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def clear(self) -> None:
        self._young, self._old = {}, {}

    def new(self, url: str, depth: int) -> bool:
        key = hash(url)
        known = self._young.get(key, _NEVER)
        if known <= depth:
            return False
        older = self._old.get(key, _NEVER)
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        self._young[key] = min(older, depth)
        return older > depth

    def knows(self, url: str, depth: int) -> bool:
        key = hash(url)
        return min(self._young.get(key, _NEVER), self._old.get(key, _NEVER)) <= depth

    def fresh(self, urls: Sequence[str], depth: int) -> Sequence[str]:
        known = self._young.get
        return [url for url in urls if known(hash(url), _NEVER) > depth and self.new(url, depth)]
