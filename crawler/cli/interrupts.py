"""Ctrl-C at a moment when nothing has begun, or all is over: the process exits, without a word.

Python would raise KeyboardInterrupt wherever it is: in the middle of an import, or in a callback
from which it can only print a traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_CODE = 130


def leave_when_interrupted() -> None:
    """From now on SIGINT ends the process at once. For the program alone: whoever imports this as a
    library keeps Python's own handling."""
    if _is_program() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


@contextmanager
def raised() -> Iterator[None]:
    """Meanwhile SIGINT raises KeyboardInterrupt: there is something to clean up."""
    if signal.getsignal(signal.SIGINT) is not _leave:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _leave)


@contextmanager
def leaving() -> Iterator[None]:
    """Inside of `raised`: SIGINT ends the process again, because nothing has begun yet."""
    if not _is_program() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(EXIT_CODE)


def _is_program() -> bool:
    started = sys.orig_argv[1:]
    if "-m" in started and started[-1] != "-m":
        return started[started.index("-m") + 1].startswith("crawler.cli")
    return os.path.basename(sys.argv[0] if sys.argv else "") == "courtly"  # noqa: PTH119 - light
