"""Python calls and SQL statements a page of a whole crawl, by layer: what no noise of the machine
touches, except where work is batched by time. It runs with all tests, and prints with -s.

`COURTLY_BENCH_PYTHON` names the Python of another checkout's environment to count beside this one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.benchmarks.test_crawl_speed import HERE, serving, write_config

HOSTS: Final = 100
PAGES: Final = 20
OTHER: Final = os.environ.get("COURTLY_BENCH_PYTHON", "")
RECORD: Final = HERE.parents[1] / "docs" / "speed.md"
# A busy machine makes more commits a page, and passes of the event loop.
ROOM: Final = 1.08
SQL: Final = "SQL statements"

pytestmark = pytest.mark.timeout(300)


def layer_of(name: str) -> str:
    """Return the row of the table for a package; parts that are called little share one."""
    first, _, second = name.partition(".")
    of_crawler = {"frontier", "scheduling", "processing", "downloading", "fetching", "documents"}
    return name if second in of_crawler or not second or first == "others" else first


def counted(python: str, folder: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Return the calls a page, by layer and by function."""
    folder.mkdir()
    with serving(folder, HOSTS, PAGES, 0.0) as site:
        config = write_config(folder, site, hosts=HOSTS, delay_s=0)
        done = subprocess.run(
            [python, HERE / "counted_crawl.py", "crawl", "--config", config, "--json", "--quiet"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
            env={**os.environ, "COURTLY_READER": "pure"},
        )
    summary, calls = map(json.loads, done.stdout.splitlines()[-2:])
    assert summary["visited"] == HOSTS * PAGES
    a_page = 1 / (HOSTS * PAGES)
    layers: dict[str, float] = {}
    for name, n in calls["layers"].items():
        layers[layer_of(name)] = layers.get(layer_of(name), 0.0) + n * a_page
    layers.pop("others")  # the libraries' own, and the start of the interpreter
    layers[SQL] = calls["statements"] * a_page
    return layers, {name: n * a_page for name, n in calls["functions"].items()}


def recorded() -> dict[str, float]:
    """Return the table of docs/speed.md: layer -> calls a page."""
    part = RECORD.read_text().partition("## Calls a page")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `?([\w. ]+?)`? \|[^|\n]*\| ([\d.]+) \|", part, re.MULTILINE)
    return {name: float(n) for name, n in rows}


def test_no_layer_is_called_more_than_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A count that grows for a good reason is recorded in docs/speed.md, with the reason."""
    here, functions = counted(sys.executable, tmp_path / "here")
    other, others = counted(OTHER, tmp_path / "other") if OTHER else (here, functions)
    with capsys.disabled():
        if OTHER or "-s" in sys.argv:
            for name in sorted(here, key=lambda name: -here[name]):
                print(f"  {name:24} {here[name]:8.1f} {other.get(name, 0.0):8.1f}")  # noqa: T201
        if OTHER:
            risen = {name: n - others.get(name, 0.0) for name, n in functions.items()}
            for name in sorted(risen, key=lambda name: -risen[name])[:15]:
                print(f"    {risen[name]:+7.2f} {name}")  # noqa: T201
    most = recorded()
    assert here.keys() == most.keys()
    over = {name: (n, most[name]) for name, n in here.items() if n > most[name] * ROOM + 0.3}
    assert not over, f"calls a page, and what docs/speed.md records: {over}"
