"""Settings of the whole process for a crawl: garbage collector, allocator, event loop, limits."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from crawler.cli import signals

if TYPE_CHECKING:
    import asyncio

    from crawler.config import Config

T = TypeVar("T")

# How long the store's thread waits for the interpreter lock while the event loop is busy. Each SQL
# statement takes the lock, so Python's default of 5 ms would make commits several times slower.
SWITCH_INTERVAL_S: Final = 0.0005
# A crawl creates many objects and hardly any cycles, so the young generation is collected after
# 10,000 more objects than were freed instead of 700: the pages in flight have fewer, and do not
# cause it. The oldest is collected after 400,000, about 200,000 pages: collecting it more often
# pauses all hosts, and less often keeps old cycles for hours. From Python 3.14 on, the old
# generation is collected in steps, whose size decreases with the second number.
GC_THRESHOLDS: Final = (10_000, 2, 20) if sys.version_info < (3, 14) else (10_000, 20, 0)
# mallopt(3) options and values.
_MALLOPT: Final = (
    # M_TRIM_THRESHOLD: keep up to 8 MB of free memory. With the default of 128 KB, the parse tree
    # of every page is returned to the system and requested again, page fault by page fault.
    (-1, 8_388_608),
    # M_MMAP_THRESHOLD: map blocks of 1 MB and more separately. This is larger than most bodies, and
    # small enough that the largest bodies do not fragment the heap.
    (-3, 1_048_576),
    # M_ARENA_MAX: use two heaps. The default of eight per CPU keeps the peak usage of each, while
    # the threads of a crawl rarely allocate at the same time.
    (-8, 2),
)
FILES_MAX: Final = 65_536  # more are useless, and slow down programs that close all descriptors
OTHER_FILES_MAX: Final = 128  # for the database, sinks, libraries, name lookups and the web page


@contextmanager
def loading() -> Iterator[None]:
    """Prepare the process for imports: SIGINT exits silently, and the garbage collector, which
    would scan the many new objects again and again although all of them stay, is off."""
    gc.disable()
    try:
        with signals.interrupts_exit():
            yield
    finally:
        gc.freeze()
        gc.enable()


def tune() -> None:
    """Tune the process for a crawl, once all modules are imported. Existing objects are never
    scanned for garbage again."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    keep_freed_memory()
    make_logs_safe()


def make_logs_safe() -> None:
    """Escape what a site wrote in the warnings that Python prints where no handler is set."""
    from crawler.cli.safe_logging import make_last_resort_safe

    make_last_resort_safe()


def keep_freed_memory() -> bool:
    """Make the C library keep a few megabytes of freed memory. Return whether it accepted that.

    Does nothing on C libraries other than glibc, and if the environment configures the allocator
    (`MALLOC_…`, `GLIBC_TUNABLES`).
    """
    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return False
    if "CS_GNU_LIBC_VERSION" not in os.confstr_names:
        return False
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(option, value) for option, value in _MALLOPT)


def run(main: Coroutine[object, object, T]) -> T:
    """Call asyncio.run, imported here because the help of a command does not need it."""
    import asyncio

    make_logs_safe()
    return asyncio.run(main)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's if it is installed (the extra `fast`), else None for asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def fit_open_files(config: Config, *, quiet: bool = False) -> Config:
    """Raise the soft limit of open files to the hard limit. If even that is too low for
    `crawl.concurrency`, return a config with a lower concurrency, and print a warning."""
    files = _raise_file_limit()
    concurrency = max(1, files - min(OTHER_FILES_MAX, files // 2))
    if config.crawl.concurrency <= concurrency:
        return config
    if not quiet:
        from crawler.cli.text import say

        say(
            f"warning: the limit of {files} open files (ulimit -n) allows at most {concurrency} "
            f"simultaneous requests, fewer than crawl.concurrency = {config.crawl.concurrency}",
            err=True,
        )
    return config.override({"crawl": {"concurrency": concurrency}}, where="open files")


def _raise_file_limit() -> int:
    """Raise the soft limit as far as possible, and return it."""
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows has no such limit
        return FILES_MAX
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # some systems limit it below the hard limit they report
            return soft
        return wanted
    return FILES_MAX if soft == resource.RLIM_INFINITY else soft
