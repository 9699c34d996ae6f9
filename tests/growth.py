"""Work in proportion to its input: judged by the CPU time of a long input in relation to that of a
short one, so that the speed of the machine does not matter."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import AnyStr, TypeVar

T = TypeVar("T")
RATIO = 16  # of the long input's size to the short one's
LIMIT = 2.5 * RATIO  # of the times; work that grows with the square takes 256 times as long
SHORTEST_S = 0.0002  # what takes less is not told from the cost of measuring it
AGAIN_S = 0.25  # what takes longer is not tried with more: it would take minutes


def repeated(before: AnyStr, unit: AnyStr) -> Callable[[int], AnyStr]:
    """Return what makes an input of a size from copies of a unit."""
    return lambda size: before + unit * (size // len(unit))


def reference_s() -> float:
    """The CPU time of a fixed piece of work, half of it in Python and half in regular
    expressions: the least of three. It takes 5 ms on an idle machine of 2026."""

    def work(text: str) -> None:
        re.sub("[a-d]", lambda found: found[0].upper(), text)
        re.findall("(?:[a-z](?!h))+", text * 4)

    return min(cpu_s(work, "abcdefgh" * 4_000) for _ in range(3))


def cpu_s(work: Callable[[T], object], given: T) -> float:
    began_s = time.process_time()
    work(given)
    return time.process_time() - began_s


def assert_linear(
    work: Callable[[T], object], make: Callable[[int], T], size: int, *, name: object = ""
) -> None:
    """Assert that work grows no faster than its input.

    What fails is looked at again with input that is eight times as long: beyond some size there may
    be another way to do the work, which is slower and linear as well.

    work: what is measured; it may be called several times.
    make: builds an input of about a size; what it takes is not measured.
    size: of the long input; for it, the work should take some milliseconds.
    name: identifies the input in the message.
    """
    short_s, long_s = times(work, make, size)
    if LIMIT * short_s < long_s < AGAIN_S:
        short_s, long_s = times(work, make, 8 * size)
    much = f"{long_s / short_s:.0f} times as long for {RATIO} times as much"
    assert long_s <= LIMIT * short_s, f"{name!r:.60}: {much}"


def times(work: Callable[[T], object], make: Callable[[int], T], size: int) -> tuple[float, float]:
    """What work takes on a short input and on one of this size, which is tried again if it takes
    too long."""
    short, long = make(size // RATIO), make(size)
    short_s = max(SHORTEST_S, min(cpu_s(work, short) for _ in range(3)))
    long_s = cpu_s(work, long)
    for _ in range(3):
        if long_s <= LIMIT * short_s or long_s > 10 * AGAIN_S:
            break
        short_s = max(short_s, cpu_s(work, short))  # the machine may have become busy
        long_s = min(long_s, cpu_s(work, long))
    return short_s, long_s
