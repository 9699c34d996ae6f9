"""Whole crawls of simulated sites, drawn from numbers; see docs/simulation.md."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path

import pytest

from tests.simulation.__main__ import report
from tests.simulation.running import simulate
from tests.simulation.scenario import draw
from tests.simulation.shrinking import failure_of
from tests.simulation.trace import trace_of

SEEDS = 60
CHUNK = 12
CORPUS = Path(__file__).with_name("corpus.txt")
REPLAYED = range(0, 12, 4)


def check(seeds: list[int]) -> None:
    for seed in seeds:
        if failure_of(draw(seed)):
            pytest.fail(report(seed), pytrace=False)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_promises_are_kept(first: int) -> None:
    check(list(range(first, first + CHUNK)))


def test_seeds_that_once_found_something() -> None:
    lines = CORPUS.read_text().splitlines()
    check([int(line.split()[0]) for line in lines if line and not line.startswith("#")])


def digests() -> list[str]:
    return [
        blake2b(trace_of(simulate(draw(seed))).encode(), digest_size=8).hexdigest()
        for seed in REPLAYED
    ]


def test_one_seed_replays_exactly() -> None:
    """Also in another process, with another order of sets."""
    here = digests()
    assert digests() == here
    code = "from tests.simulation.test_simulation import digests; print(*digests())"
    found = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": "."},
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.split() == here
