"""Limits on CPU time, relative to the speed of the machine. A processor that runs other things as
well needs several times as long for the same work."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

# What the reference takes on a machine of 2026 that is idle. The limits of tests hold for it.
REFERENCE_S = 0.005
_TEXT = "abcdefgh" * 4_000


def reference_s() -> float:
    """The CPU time of a fixed piece of work, half of it in Python and half in regular
    expressions: the least of three."""
    times = []
    for _ in range(3):
        began_s = time.process_time()
        re.sub("[a-d]", lambda found: found[0].upper(), _TEXT)
        re.findall("(?:[a-z](?!h))+", _TEXT * 4)
        times.append(time.process_time() - began_s)
    return min(times)


@contextmanager
def cpu_at_most(limit_s: float) -> Iterator[None]:
    """Assert that the block takes at most this CPU time, on the machine of the reference. Where it
    took longer, the reference shows how slow this one is at the moment."""
    began_s = time.process_time()
    yield
    took_s = time.process_time() - began_s
    if took_s >= limit_s:
        slowness = reference_s() / REFERENCE_S
        assert took_s < limit_s * slowness, f"{took_s:.2f} s, {slowness:.1f} times as slow"
