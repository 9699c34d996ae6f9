"""CPU time compared with a baseline. Both are measured alternately, so that a noisy machine
affects both, and the best of several rounds counts."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import pytest

ROUNDS = 5

Work = Callable[[], int]  # does it, and says how many


class Beside:
    """`beside("turn", turns, "heapq push and pop", heap)` prints and returns the ratio."""

    def __call__(self, stage: str, work: Work, baseline: str, base: Work) -> float:
        work_us, base_us = zip(*((_us(work), _us(base)) for _ in range(ROUNDS)), strict=True)
        ratio = min(work_us) / min(base_us)
        sys.stdout.write(
            f"\n{stage}: {min(work_us):.2f} µs of CPU, "
            f"{ratio:.2f} times {baseline} ({min(base_us):.2f} µs)\n"
        )
        return ratio


def _us(work: Work) -> float:
    began_s = time.process_time()
    done = work()
    return 1e6 * (time.process_time() - began_s) / done


@pytest.fixture
def beside() -> Beside:
    return Beside()
