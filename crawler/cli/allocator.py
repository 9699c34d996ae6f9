"""What the C library's allocator does with the memory of a page that has been read."""

from __future__ import annotations

import ctypes
import os
from typing import Final

# mallopt(3).
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
# Freed memory at the end of the heap beyond this goes back to the system. By default 128 KB do, so
# the tree of every page is given back and asked for again, page fault by page fault: building one
# of 23 KB takes 60 µs with this, 150 without.
KEPT_BYTES: Final = 8_388_608
# Single blocks from this size on are mapped, and unmapped when they are freed: larger than most
# bodies, and small enough that the largest do not tear the heap.
MAPPED_BYTES: Final = 1_048_576
# Heaps that threads allocate from. By default there are eight for each CPU, and every one keeps
# what its busiest moment took; the threads of a crawl seldom allocate at the same time.
ARENAS_MAX: Final = 2


def keep_freed_memory() -> bool:
    """Have the process keep a few megabytes that it freed; whether it could be asked for.

    For programs, not for libraries: it holds for the whole process. Only glibc is asked, and it is
    left alone where the environment says how it is to behave (`MALLOC_…`, `GLIBC_TUNABLES`).
    """
    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return False
    if "CS_GNU_LIBC_VERSION" not in os.confstr_names:
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    wanted = (
        (_M_TRIM_THRESHOLD, KEPT_BYTES),
        (_M_MMAP_THRESHOLD, MAPPED_BYTES),
        (_M_ARENA_MAX, ARENAS_MAX),
    )
    return all(mallopt(option, value) for option, value in wanted)
