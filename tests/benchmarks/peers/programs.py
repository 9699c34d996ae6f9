"""The programs that `compare.py` compares, and how each is built."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[2]


class Build(NamedTuple):
    """Something to build: commands that run in a folder of its own, with copies of its sources."""

    sources: tuple[Path, ...]
    commands: tuple[tuple[str, ...], ...]


class Program(NamedTuple):
    """A row of the table. `{seeds}` and `{config}` in a command are files of the web."""

    name: str
    build: str
    command: tuple[str, ...]
    durable: str  # its frontier: what a crawl finds when it is started again
    pace: str  # what it can be told of the pace of one host
    rounds: int = 99  # at most: slow ones are not timed as often
    cpus: int = 1
    env: Mapping[str, str] = {}


def _python(*packages: str) -> tuple[tuple[str, ...], ...]:
    return ((sys.executable, "-m", "venv", "."), ("bin/pip", "install", "-q", *packages))


BUILDS: Final = {
    "courtly": Build(
        tuple(ROOT / name for name in ("crawler", "policies", "storage", "pyproject.toml")),
        _python(f"{ROOT}[fast]", f"{ROOT}/crawler/documents/native"),
    ),
    "floor": Build((HERE / "floor",), (("cargo", "build", "-q", "--release"),)),
    "scrapy": Build(
        (), _python("scrapy==2.19.0", "aiohttp==3.14.5", "selectolax==1.0.2", "uvloop==0.23.0")
    ),
    "crawlee": Build((), _python("crawlee==1.11.0", "selectolax==1.0.2", "uvloop==0.23.0")),
    "crawlee_js": Build((HERE / "crawlee_js",), (("npm", "install", "--silent"),)),
    "colly": Build((HERE / "colly",), (("go", "build", "-o", "colly", "."),)),
    "spider": Build((HERE / "spider",), (("cargo", "build", "-q", "--release"),)),
}

COURTLY: Final = ("bin/courtly", "crawl", "--config", "{config}", "--json", "--quiet")

PROGRAMS: Final = (
    *(
        Program(
            f"courtly, {name}",
            "courtly",
            COURTLY,
            "yes",
            "delay, Crawl-delay, Retry-After",
            cpus=cpus,
            env={"COURTLY_READER": reader},
        )
        for name, reader, cpus in (
            ("pure", "pure", 1),
            ("native", "native", 1),
            ("native, two cores", "native", 2),
        )
    ),
    Program(
        "bare pipeline",
        "courtly",
        ("bin/python", f"{HERE}/bare_pipeline.py", "{seeds}", "state.db"),
        "written, never read",
        "one request at a time",
    ),
    Program(
        "Rust floor",
        "floor",
        ("target/release/floor", "{seeds}", "state.db"),
        "written, never read",
        "one request at a time",
    ),
    Program(
        "Scrapy",
        "scrapy",
        ("bin/python", f"{HERE}/scrapy_crawl.py", "{seeds}"),
        "no",
        "delay",
        rounds=1,
    ),
    Program(
        "Scrapy, JOBDIR",
        "scrapy",
        ("bin/python", f"{HERE}/scrapy_crawl.py", "{seeds}", "job"),
        "after a clean stop",
        "delay",
        rounds=1,
    ),
    Program(
        "Crawlee for Python",
        "crawlee",
        ("bin/python", f"{HERE}/crawlee_crawl.py", "{seeds}"),
        "no",
        "delay, Crawl-delay, for hosts that are listed",
    ),
    Program(
        "Crawlee for JavaScript",
        "crawlee_js",
        ("node", "crawl.js", "{seeds}"),
        "no",
        "delay",
        rounds=1,
    ),
    *(
        Program(
            f"Colly, {where}",
            "colly",
            ("./colly", "{seeds}", kind, "state.db"),
            durable,
            "only with a rule for each host",
        )
        for kind, where, durable in (
            ("memory", "in memory", "no"),
            ("bolt", "bbolt", "visited URLs, not the queue"),
            ("sqlite", "SQLite", "visited URLs, not the queue"),
        )
    ),
    Program(
        "spider", "spider", ("target/release/spider-peer", "{seeds}"), "no", "delay, Crawl-delay"
    ),
)
