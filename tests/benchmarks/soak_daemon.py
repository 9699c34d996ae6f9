"""`courtly run` that says what it holds when it is sent SIGUSR2.

    python soak_daemon.py CONFIG HELD

Writes to the file HELD, one line of JSON for each signal: objects by type, open files by kind, what
the allocator has in use and what it keeps free. With SOAK_TRACE=1 also where memory that is new
since the first signal was allocated (tracemalloc: it makes a crawl several times slower). SIGUSR1
has all threads print where they are.
"""

from __future__ import annotations

import collections
import ctypes
import faulthandler
import gc
import json
import os
import signal
import sys
import tracemalloc
from pathlib import Path

KINDS_SHOWN = 60
TRACE = os.environ.get("SOAK_TRACE") == "1"


class _Mallinfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


def allocator_bytes() -> dict[str, int]:
    """glibc's malloc: bytes in use, mapped separately, and free but kept."""
    mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo2 is None:
        return {}
    mallinfo2.restype = _Mallinfo2
    info = mallinfo2()
    return {"used": info.uordblks, "mapped": info.hblkhd, "free": info.fordblks}


def open_files() -> dict[str, int]:
    kinds: collections.Counter[str] = collections.Counter()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            target = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
        except OSError:
            continue
        kinds[target.partition(":")[0] if ":" in target else Path(target).name] += 1
    return dict(kinds)


class Teller:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._first: tracemalloc.Snapshot | None = None

    def tell(self, *_: object) -> None:
        gc.collect()
        kinds = collections.Counter(
            f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects()
        )
        said: dict[str, object] = {
            "objects": dict(kinds.most_common(KINDS_SHOWN)),
            "files": open_files(),
            "allocator": allocator_bytes(),
            "blocks": sys.getallocatedblocks(),
        }
        if TRACE:
            now = tracemalloc.take_snapshot()
            if self._first is None:
                self._first = now
            else:
                grown = now.compare_to(self._first, "traceback")[:25]
                said["grown"] = [
                    [one.size_diff, one.count_diff, one.traceback.format()[-8:]] for one in grown
                ]
        with self._path.open("a") as out:
            out.write(json.dumps(said) + "\n")


def main() -> None:
    if TRACE:
        tracemalloc.start(8)
    from crawler.cli import main as courtly

    faulthandler.register(signal.SIGUSR1)
    signal.signal(signal.SIGUSR2, Teller(Path(sys.argv[2])).tell)
    courtly(["run", sys.argv[1]], prog_name="courtly")


if __name__ == "__main__":
    main()
