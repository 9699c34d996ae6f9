"""A worker process of `--workers N`, and its channel to the supervisor: a socket on standard input.

Each message is one byte. When the supervisor dies, the channel ends, and so does the worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec import Struct

CHANNEL: Final = 0  # standard input, which workers have no other use for
# To a worker. A signal would not do: one sent to all processes of a group would count twice.
STOP: Final = b"s"
EXIT: Final = b"x"
RELOAD: Final = b"h"
OTHERS_ENDED: Final = b"e"
# From a worker.
READY: Final = b"r"


class WorkerNumber(Struct, frozen=True):
    """One of `workers` processes that a supervisor has started, numbered from 1."""

    number: int
    workers: int

    @property
    def leads(self) -> bool:
        """Whether this worker speaks for all: shows progress, serves the page, sums up."""
        return self.number == 1


class SupervisorChannel:
    """The worker's end of the channel; to be made inside the event loop."""

    def __init__(self) -> None:
        self.others_ended = asyncio.Event()
        self._actions: Mapping[bytes, Callable[[], None]] = {}

    @contextlib.contextmanager
    def obeying(self, actions: Mapping[bytes, Callable[[], None]]) -> Iterator[None]:
        """Call the action of each message that arrives in this block: STOP (also when the channel
        ends), EXIT and RELOAD."""
        self._actions = actions
        loop = asyncio.get_running_loop()
        os.set_blocking(CHANNEL, False)
        loop.add_reader(CHANNEL, self._read)
        try:
            yield
        finally:
            loop.remove_reader(CHANNEL)

    def ready(self) -> None:
        """Tell the supervisor that the crawl has started."""
        with contextlib.suppress(OSError):
            os.write(CHANNEL, READY)

    def _read(self) -> None:
        try:
            messages = os.read(CHANNEL, 4_096)
        except BlockingIOError:
            return
        except OSError:
            messages = b""
        if not messages:  # the supervisor is gone
            asyncio.get_running_loop().remove_reader(CHANNEL)
            messages = OTHERS_ENDED + STOP
        for n in range(len(messages)):
            message = messages[n : n + 1]
            if message == OTHERS_ENDED:
                self.others_ended.set()
            elif message in self._actions:
                self._actions[message]()
