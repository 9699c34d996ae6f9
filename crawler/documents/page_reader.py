"""The choice of the reader of pages: in native code where it is installed, otherwise in Python.

Both read the same from a page; the native one leaves some pages to the other. The environment
variable COURTLY_READER chooses one. This module imports little, because `courtly --version` names
the reader.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Final, NoReturn

from crawler.version import __version__

VARIABLE: Final = "COURTLY_READER"
PURE: Final = "pure"
NATIVE: Final = "native"


class PagesRead:
    """Numbers of pages offered to the native reader in this process.

    native: read by it.
    declined: left to the reader in Python.
    """

    __slots__ = ("declined", "native")

    def __init__(self) -> None:
        self.native = 0
        self.declined = 0


pages_read: Final = PagesRead()


@cache
def name() -> str:
    """Return the name of the reader that is used.

    Raises ConfigError: COURTLY_READER names no reader that can be used.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", PURE, NATIVE):
        _refuse(f'{VARIABLE} is "{wanted}"; it must be "{PURE}" or "{NATIVE}"')
    if wanted == PURE:
        return PURE
    problem = native_problem()
    if problem is None:
        return NATIVE
    if wanted == NATIVE:
        _refuse(f'{VARIABLE} is "{NATIVE}", but {problem}')
    return PURE


def native_problem() -> str | None:
    """Return why the native reader cannot be used, or None."""
    try:
        from courtly_native import VERSION
    except ImportError:
        return "courtly-native is not installed"
    if __version__ != VERSION:
        return f"courtly-native {VERSION} is not of this version, {__version__}"
    return None


def _refuse(problem: str) -> NoReturn:
    from crawler.config import ConfigError  # slow to import, rarely needed

    raise ConfigError(problem)
