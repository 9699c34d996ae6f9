"""SIGINT, SIGTERM and SIGHUP while a crawl runs: first a clean stop, then, at a second Ctrl-C, at
once."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from typing import Any, Self


class Signals:
    """While it is open: the first signal sets `stop`, a further SIGINT sets `leave`.

    SIGHUP is a terminal that was closed. Who started the crawl with `nohup` does not want it heard.

    Until `started` is called they cancel `starting` instead: there is nothing to finish yet.
    `say` is told what happens, in a sentence. To be opened in the event loop.
    """

    def __init__(
        self,
        stop: asyncio.Event,
        leave: asyncio.Event,
        say: Callable[[str], None],
        *,
        starting: asyncio.Task[Any] | None = None,
    ) -> None:
        self._starting = starting
        self._stop = stop
        self._leave = leave
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._actions: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGINT: self._interrupted,
            signal.SIGTERM: self._terminated,
        }
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            self._actions[signal.SIGHUP] = self._terminated

    def __enter__(self) -> Self:
        # Where there are no such handlers (Windows, threads), Ctrl-C cancels the crawl instead.
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            for number, action in self._actions.items():
                self._loop.add_signal_handler(number, action)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            for number in self._actions:
                self._loop.remove_signal_handler(number)

    def started(self) -> None:
        """From now on there is a crawl to be stopped."""
        self._starting = None

    def _interrupted(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            return
        if self._stop.is_set():
            self._say("leaving at once; what was committed stays")
            self._leave.set()
            return
        self._say("stopping after what is in flight; press Ctrl-C again to leave at once")
        self._stop.set()

    def _terminated(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            return
        if not self._stop.is_set():
            self._say("stopping after what is in flight")
            self._stop.set()
