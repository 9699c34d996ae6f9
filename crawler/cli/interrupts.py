"""Ctrl-C before a command has started and after it has finished: the process exits silently.

Python would raise KeyboardInterrupt wherever it is: in the middle of an import, or in a callback
that cannot pass an exception on, where it prints a traceback and the interrupt is lost.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_CODE = 130
REPEATED_AFTER_S = 0.01


def leave_when_interrupted() -> None:
    """From now on, exit immediately at SIGINT. Applies to the command line only: a program that
    imports this package keeps Python's own handling."""
    if _is_program() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
        sys.unraisablehook = _repeat_interrupt


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


def _repeat_interrupt(lost: sys.UnraisableHookArgs) -> None:
    """Send SIGINT again when its KeyboardInterrupt was raised in a callback of a weak reference or
    in a finalizer, which drop it."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    import threading  # only at this rare moment

    again = threading.Timer(REPEATED_AFTER_S, os.kill, (os.getpid(), signal.SIGINT))
    again.daemon = True
    again.start()


def _is_program() -> bool:
    started = sys.orig_argv[1:]
    if "-m" in started and started[-1] != "-m":
        return started[started.index("-m") + 1].startswith("crawler.cli")
    return os.path.basename(sys.argv[0] if sys.argv else "") == "courtly"  # noqa: PTH119 - light
