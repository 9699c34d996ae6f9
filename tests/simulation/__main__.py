"""Simulate many seeds, on all cores: `python -m tests.simulation NUMBER [--from SEED]`."""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import time

from tests.simulation.running import simulate
from tests.simulation.scenario import draw
from tests.simulation.shrinking import failure_of, shrunk
from tests.simulation.trace import shown


def _one(seed: int) -> tuple[int, str]:
    return seed, failure_of(draw(seed))


def report(seed: int, *, shrink: bool = True) -> str:
    """What is wrong with a seed, its trace, and how to run it again."""
    scenario = draw(seed)
    problem = failure_of(scenario)
    if problem and shrink:
        scenario, problem = shrunk(scenario)
    trace = shown(simulate(scenario))
    again = f".venv/bin/python -m tests.simulation --seed {seed}"
    return f"{trace}\nseed {seed}: {problem or 'nothing is wrong'}\nagain: {again}\n"


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    arguments.add_argument("number", nargs="?", type=int, default=500, help="how many seeds")
    arguments.add_argument("--from", dest="first", type=int, default=0, help="the first of them")
    arguments.add_argument("--seed", type=int, help="this one alone: print what happened")
    arguments.add_argument("--whole", action="store_true", help="do not shrink what fails")
    arguments.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = arguments.parse_args()
    if given.seed is not None:
        print(report(given.seed, shrink=not given.whole))  # noqa: T201
        return 0
    seeds = range(given.first, given.first + given.number)
    began_s, failed = time.monotonic(), []
    with multiprocessing.get_context("fork").Pool(given.processes, maxtasksperchild=500) as pool:
        for count, (seed, problem) in zip(
            itertools.count(1), pool.imap_unordered(_one, seeds, chunksize=4), strict=False
        ):
            if problem:
                failed.append(seed)
                print(f"seed {seed}: {problem}", flush=True)  # noqa: T201
            if count % 1000 == 0:
                print(f"{count:,} seeds, {len(failed)} failed", flush=True)  # noqa: T201
    took_s = time.monotonic() - began_s
    print(f"{given.number:,} seeds in {took_s:.0f} s: {len(failed)} failed")  # noqa: T201
    for seed in sorted(failed)[:3]:
        print(report(seed, shrink=not given.whole))  # noqa: T201
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
