"""SIGINT, SIGTERM and SIGHUP: before a command starts, while a crawl runs, and after it has ended.

This module is imported before everything else, and imports nothing heavy.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import asyncio

    from crawler.cli.progress import Display

_Handler = Callable[[int, FrameType | None], object]

EXIT_CODE = 130
REPEATED_AFTER_S = 0.01


def exit_on_interrupt() -> None:
    """Make SIGINT exit silently and immediately from now on.

    By default, Python raises KeyboardInterrupt wherever it is: in the middle of an import, or in a
    callback that cannot propagate exceptions, where it prints a traceback and the interrupt is
    lost. Applies to the command line only: a program that imports this package keeps Python's own
    handling.
    """
    if _is_program() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)
        sys.unraisablehook = _repeat_interrupt


def interrupts_raised() -> AbstractContextManager[None]:
    """Make SIGINT raise KeyboardInterrupt in this block, because there is something to clean up."""
    return _replaced(_exit, signal.default_int_handler)


def interrupts_exit() -> AbstractContextManager[None]:
    """Make SIGINT exit again in this block, inside `interrupts_raised`: no work has started yet."""
    if not _is_program():
        return contextlib.nullcontext()
    return _replaced(signal.default_int_handler, _exit)


@contextlib.contextmanager
def _replaced(handler: _Handler, by: _Handler) -> Iterator[None]:
    """Replace the handler of SIGINT in this block, if it is `handler`."""
    if signal.getsignal(signal.SIGINT) is not handler:
        yield
        return
    signal.signal(signal.SIGINT, by)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


class CrawlSignals:
    """Signal handlers of a crawl: the first signal sets `stop`, a further SIGINT sets `exit_now`.

    Until `started` is called, signals cancel the task `starting` instead, because no request is in
    flight. SIGHUP (a closed terminal) stops the crawl unless it is ignored, as under `nohup`. To be
    entered inside the event loop.
    """

    def __init__(
        self,
        stop: asyncio.Event,
        exit_now: asyncio.Event,
        display: Display,
        *,
        starting: asyncio.Task[Any] | None = None,
    ) -> None:
        import asyncio

        self._starting = starting
        self._stop = stop
        self._exit = exit_now
        self._display = display
        self._loop = asyncio.get_running_loop()
        self._actions: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGINT: self._interrupt,
            signal.SIGTERM: self._terminate,
        }
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            self._actions[signal.SIGHUP] = self._terminate

    def __enter__(self) -> Self:
        # Without support for handlers (Windows, threads), Ctrl-C cancels the crawl instead.
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            for number, action in self._actions.items():
                self._loop.add_signal_handler(number, action)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            for number in self._actions:
                self._loop.remove_signal_handler(number)

    def started(self) -> None:
        """Make signals stop the crawl cleanly from now on."""
        self._starting = None

    def stop(self) -> None:
        """Stop the crawl as the first SIGINT does."""
        self._terminate("; press Ctrl-C again to exit immediately")

    def exit_now(self) -> None:
        """End the crawl as the second SIGINT does."""
        self._display.say("exiting immediately; committed pages are kept")
        self._exit.set()

    def _interrupt(self) -> None:
        if self._starting is None and self._stop.is_set():
            self.exit_now()
        else:
            self.stop()

    def _terminate(self, hint: str = "") -> None:
        if self._starting is not None:
            self._starting.cancel()
        elif not self._stop.is_set():
            self._display.say(f"finishing the requests in flight{hint}")
            self._stop.set()


def _exit(_number: int, _frame: FrameType | None) -> None:
    os._exit(EXIT_CODE)


def _repeat_interrupt(lost: sys.UnraisableHookArgs) -> None:
    """Send SIGINT again if its KeyboardInterrupt was raised in a weak reference's callback or in a
    finalizer, which discard it."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    import threading  # only in this rare case

    again = threading.Timer(REPEATED_AFTER_S, os.kill, (os.getpid(), signal.SIGINT))
    again.daemon = True
    again.start()


def _is_program() -> bool:
    arguments = sys.orig_argv[1:]
    if "-m" in arguments and arguments[-1] != "-m":
        return arguments[arguments.index("-m") + 1].startswith("crawler.cli")
    return os.path.basename(sys.argv[0] if sys.argv else "") == "courtly"  # noqa: PTH119 - light
