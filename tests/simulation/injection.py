"""Injects the faults of `mutants` into copies of the program, and simulates until one is noticed.

    python -m tests.simulation.injection [--seeds NUMBER] [WORDS …]

Prints for each fault after how many seeds it was found, and what the simulator said. WORDS choose
the faults whose description contains one of them. Faults of the code for PostgreSQL are simulated
on a server, and left out where none is installed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from tests.postgres_server import find_programs
from tests.simulation.mutants import MUTANTS, Mutant

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("policies", "storage", "crawler", "tests")
SEEDS: Final = 400
SEED_S_MAX: Final = 60  # of real time: one that takes longer hangs, which is noticed as well


class Finding(NamedTuple):
    mutant: Mutant
    seeds: int  # simulated, up to the one that noticed it
    problem: str  # "": none noticed it
    took_s: float


def inject(mutant: Mutant, folder: Path) -> None:
    """Copy the program, with this fault, into a folder; what is compiled needs no compiling."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package)
    file = folder / mutant.file
    text = file.read_text()
    assert text.count(mutant.old) == 1, f"{mutant.file} does not contain the text once"
    file.write_text(text.replace(mutant.old, mutant.new))


def can_be_examined(mutant: Mutant) -> bool:
    """Whether this machine has what is needed to find this fault."""
    return not mutant.on_server or find_programs() is not None


def examine(mutant: Mutant, first: int, seeds: int, *options: str) -> Finding:
    """Simulate seeds with this fault until one notices it."""
    if mutant.on_server and "--postgres" not in options:
        options = (*options, "--postgres")
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        inject(mutant, folder)
        found = subprocess.run(
            [
                sys.executable, "-m", "tests.simulation.injection", "--here", str(first),
                str(seeds), *options,
            ],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
    took_s = time.monotonic() - began_s
    lines = [line for line in found.stdout.splitlines() if line.startswith("found ")]
    if lines:
        _, count, problem = lines[-1].split(" ", 2)
        return Finding(mutant, int(count), problem, took_s)
    if "none of " in found.stdout:
        return Finding(mutant, seeds, "", took_s)
    return Finding(mutant, 1, f"it ended: {found.stderr.strip()[-200:]}", took_s)


def _simulate_here(first: int, seeds: int, *, on_server: bool) -> None:
    """In the folder with the fault."""
    import signal

    from tests.simulation import postgres_scenario, scenario
    from tests.simulation.shrinking import failure_of

    draw = postgres_scenario.draw if on_server else scenario.draw
    count, seed = 0, first

    def hangs(*_: object) -> None:
        print(f"found {count} {seed}: it hangs", flush=True)  # noqa: T201
        os._exit(0)  # an exception might be waited for as long

    signal.signal(signal.SIGALRM, hangs)
    for count, seed in enumerate(range(first, first + seeds), 1):
        signal.alarm(SEED_S_MAX)
        problem = failure_of(draw(seed))
        signal.alarm(0)
        if problem:
            print(f"found {count} {seed}: {problem.splitlines()[0][:200]}", flush=True)  # noqa: T201
            return
    print(f"none of {seeds}", flush=True)  # noqa: T201


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.simulation.injection")
    arguments.add_argument("--seeds", type=int, default=SEEDS, help="of each fault, at most")
    arguments.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    arguments.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments.add_argument("--here", nargs=2, type=int, help=argparse.SUPPRESS)
    arguments.add_argument("--postgres", action="store_true", help="on a PostgreSQL server")
    arguments.add_argument("words", nargs="*")
    given = arguments.parse_args()
    if given.here is not None:
        _simulate_here(*given.here, on_server=given.postgres)
        return 0
    chosen = [
        mutant
        for mutant in MUTANTS
        if can_be_examined(mutant)
        and (not given.words or any(word in mutant.what for word in given.words))
    ]
    options = ["--postgres"] if given.postgres else []
    with ThreadPoolExecutor(given.processes) as pool:
        findings = []
        for one in pool.map(
            lambda mutant: examine(mutant, given.first, given.seeds, *options), chosen
        ):
            findings.append(one)
            told = f"{one.seeds:>5} {one.problem[:110]}" if one.problem else "    –"
            print(f"{told}  | {one.mutant.what} ({one.took_s:.0f} s)", flush=True)  # noqa: T201
    found = [one for one in findings if one.problem]
    print(f"{len(found)} of {len(findings)} faults were found; not these:")  # noqa: T201
    for one in findings:
        if not one.problem:
            print(f"  {one.mutant.what} ({one.mutant.file})")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
