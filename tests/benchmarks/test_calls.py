"""Python calls a page of a whole crawl, by package: what no noise of the machine touches.

    pytest -m bench -s tests/benchmarks/test_calls.py

`COURTLY_BENCH_PYTHON` names the Python of another checkout's environment to count beside this one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.test_crawl_speed import HERE, serving, write_config

HOSTS = 100
PAGES = 20
CALLS_MAX = 630  # a page, of the three packages: 590 to 610 when this was written
OTHER = os.environ.get("COURTLY_BENCH_PYTHON", "")

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]


def counted(python: str, folder: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Return the calls a page, by package and by function."""
    folder.mkdir()
    with serving(folder, HOSTS, PAGES, 0.0) as site:
        config = write_config(folder, site, hosts=HOSTS, delay_s=0)
        done = subprocess.run(
            [python, HERE / "counted_crawl.py", "crawl", "--config", config, "--json", "--quiet"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    summary, calls = map(json.loads, done.stdout.splitlines()[-2:])
    assert summary["visited"] == HOSTS * PAGES
    a_page = 1 / (HOSTS * PAGES)
    packages = {name: n * a_page for name, n in calls["packages"].items()}
    return packages, {name: n * a_page for name, n in calls["functions"].items()}


def test_calls_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here, functions = counted(sys.executable, tmp_path / "here")
    other, others = counted(OTHER, tmp_path / "other") if OTHER else (here, functions)
    total = sum(n for name, n in here.items() if name != "others")
    with capsys.disabled():
        print(f"\nPython calls a page: {total:,.0f}, of another checkout:", end=" ")  # noqa: T201
        print(f"{sum(n for name, n in other.items() if name != 'others'):,.0f}")  # noqa: T201
        for name in sorted(here, key=lambda name: -here[name]):
            print(f"  {name:24} {here[name]:8.1f} {other.get(name, 0.0):8.1f}")  # noqa: T201
        risen = {name: n - others.get(name, 0.0) for name, n in functions.items()}
        if OTHER:
            for name in sorted(risen, key=lambda name: -risen[name])[:15]:
                print(f"    {risen[name]:+7.2f} {name}")  # noqa: T201
    assert total < CALLS_MAX
