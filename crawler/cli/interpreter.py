"""How the interpreter is set for a crawl: threads, garbage, memory, the event loop."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from crawler.cli import interrupts

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

# How long the store's thread waits for the interpreter while the event loop is busy, for each of
# its statements; Python's 5 ms would make commits several times slower.
SWITCH_INTERVAL_S = 0.0005
# A crawl makes many objects and hardly any cycles, so the collector looks after each 5,000 made
# and not after each 700: 5 µs a page instead of 19. What outlives that is looked at once more soon
# (every third time) and then seldom: once in about 100,000 pages, and then only if a quarter more
# has come. When it was five times as often, 200,000 objects of new hosts held up all others for 50
# to 100 ms; when it was a tenth as often, cycles that had grown old were kept for hours. From 3.14
# on old ones are looked at a few at a time, the fewer the larger the second number.
GC_THRESHOLDS = (5_000, 2, 100) if sys.version_info < (3, 14) else (5_000, 20, 0)


@contextmanager
def loading() -> Iterator[None]:
    """While modules are imported: they make 110,000 objects, all of which stay. To have them looked
    at again and again, and once more at the end, took 80 ms of a start of 550."""
    gc.disable()
    try:
        with interrupts.leaving():
            yield
    finally:
        gc.freeze()
        gc.enable()


def settle() -> None:
    """To be called once, when all is imported: what is there by then is never looked at again."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)

    from crawler.cli.allocator import keep_freed_memory  # with ctypes

    keep_freed_memory()


def run(main: Coroutine[object, object, T]) -> T:
    """asyncio.run, with asyncio loaded when a command is called: its help needs none."""
    import asyncio

    return asyncio.run(main)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed (the extra `fast`), else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
