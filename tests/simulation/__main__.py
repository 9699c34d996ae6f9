"""Simulate many seeds, on all cores: `python -m tests.simulation NUMBER [--from SEED]`."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from functools import partial

from tests.simulation import postgres_scenario
from tests.simulation.running import simulate
from tests.simulation.scenario import Scenario, draw
from tests.simulation.shrinking import failure_of, shrunk
from tests.simulation.trace import shown

Draw = Callable[[int], Scenario]


def _one(seed: int, draw: Draw) -> tuple[int, str]:
    return seed, failure_of(draw(seed))


def report(seed: int, draw: Draw = draw, *, shrink: bool = True) -> str:
    """What is wrong with a seed, its trace, and how to run it again."""
    scenario = draw(seed)
    problem = failure_of(scenario)
    if problem and shrink:
        scenario, problem = shrunk(scenario)
    trace = shown(simulate(scenario))
    option = " --postgres" if scenario.engine == "postgres" else ""
    again = f".venv/bin/python -m tests.simulation{option} --seed {seed}"
    return f"{trace}\nseed {seed}: {problem or 'nothing is wrong'}\nagain: {again}\n"


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    arguments.add_argument("number", nargs="?", type=int, default=500, help="how many seeds")
    arguments.add_argument("--from", dest="first", type=int, default=0, help="the first of them")
    arguments.add_argument("--seed", type=int, help="this one alone: print what happened")
    arguments.add_argument("--whole", action="store_true", help="do not shrink what fails")
    arguments.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments.add_argument("--postgres", action="store_true", help="on a PostgreSQL server")
    given = arguments.parse_args()
    chosen = postgres_scenario.draw if given.postgres else draw
    if given.seed is not None:
        print(report(given.seed, chosen, shrink=not given.whole))  # noqa: T201
        return 0
    seeds = range(given.first, given.first + given.number)
    began_s, failed = time.monotonic(), []
    with multiprocessing.get_context("fork").Pool(given.processes, maxtasksperchild=500) as pool:
        found = pool.imap_unordered(partial(_one, draw=chosen), seeds, chunksize=4)
        for count, (seed, problem) in enumerate(found, 1):
            if problem:
                failed.append(seed)
                print(f"seed {seed}: {problem}", flush=True)  # noqa: T201
            if count % 1000 == 0:
                print(f"{count:,} seeds, {len(failed)} failed", flush=True)  # noqa: T201
    took_s = time.monotonic() - began_s
    print(f"{given.number:,} seeds in {took_s:.0f} s: {len(failed)} failed")  # noqa: T201
    for seed in sorted(failed)[:3]:
        print(report(seed, chosen, shrink=not given.whole))  # noqa: T201
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
