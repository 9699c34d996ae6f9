"""Files, functions and calls that four journeys pass: how much a stranger has to read.

    pytest -m bench -s tests/benchmarks/test_journeys.py

`COURTLY_BENCH_PYTHON` names the Python of another checkout's environment to trace beside this one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.test_calls import OTHER
from tests.benchmarks.test_crawl_speed import HERE

# Files, functions, calls and changes of file when this was written, and a little more.
MOST = {
    "page": (95, 510, 1_150, 720),
    "get": (45, 190, 270, 180),
    "slow": (72, 230, 430, 260),
    "why": (60, 310, 850, 360),
}
COUNTS = ("files", "functions", "calls", "changes")

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]


def traced(python: str, folder: Path) -> dict[str, dict[str, Any]]:
    folder.mkdir()
    done = subprocess.run(
        [python, HERE / "traced_journeys.py", folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    made: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return made


def test_journeys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = traced(sys.executable, tmp_path / "here")
    other = traced(OTHER, tmp_path / "other") if OTHER else here
    with capsys.disabled():
        print(f"\n{'':5}" + "".join(f"{name:>20}" for name in COUNTS))  # noqa: T201
        for journey, counts in here.items():
            pairs = [f"{counts[name]:,} of {other[journey][name]:,}" for name in COUNTS]
            print(f"{journey:5}" + "".join(f"{pair:>20}" for pair in pairs))  # noqa: T201
    assert set(here) == set(MOST)
    for journey, most in MOST.items():
        for name, number in zip(COUNTS, most, strict=True):
            assert 0 < here[journey][name] <= number, (journey, name)
