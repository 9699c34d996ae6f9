"""The choice of the reader of pages: in native code where it is installed, otherwise in Python.

Both read the same from a page; the native one leaves some pages to the other. The environment
variable COURTLY_READER chooses one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache, lru_cache
from html.entities import html5
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policies.declarations import NAMES

if TYPE_CHECKING:
    from courtly_native import Reader

from crawler.version import __version__

VARIABLE: Final = "COURTLY_READER"
PURE: Final = "pure"
NATIVE: Final = "native"


class ReaderError(ValueError):
    """COURTLY_READER names no reader that can be used. The message is a sentence for people."""


class PagesRead(Struct):
    """Numbers of pages offered to the native reader in this process.

    native: read by it.
    declined: left to the reader in Python.
    """

    native: int = 0
    declined: int = 0


pages_read: Final = PagesRead()


@cache
def name() -> str:
    """Return the name of the reader that is used. Raises ReaderError."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", PURE, NATIVE):
        raise ReaderError(f'{VARIABLE} is "{wanted}"; it must be "{PURE}" or "{NATIVE}"')
    if wanted == PURE:
        return PURE
    problem = _problem()
    if problem is None:
        return NATIVE
    if wanted == NATIVE:
        raise ReaderError(f'{VARIABLE} is "{NATIVE}", but {problem}')
    return PURE


def _problem() -> str | None:
    """Return why the native reader cannot be used, or None."""
    try:
        from courtly_native import VERSION
    except ImportError:
        return "courtly-native is not installed"
    if __version__ != VERSION:
        return f"courtly-native {VERSION} is not of this version, {__version__}"
    return None


def relevant_words(tokens: Sequence[str]) -> list[str]:
    """Return the words in the attributes of meta elements that may address this crawler."""
    return ["refresh", "robots", *NAMES, *tokens]


@lru_cache(maxsize=256)
def native(tokens: tuple[str, ...]) -> Reader | None:
    """Return the native reader for these product tokens, if it is used."""
    if name() != NATIVE or not all(map(str.isascii, tokens)):
        return None
    from courtly_native import Reader

    return Reader(relevant_words(tokens), html5)
