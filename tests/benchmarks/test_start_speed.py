"""What a command costs beside all that it is asked for: a crawl of one page in all, the help and
the version, each beside a Python that loads aiohttp and uvloop and does nothing.

    pytest -m bench -s tests/benchmarks/test_start_speed.py

Bytecode is kept, as it is of what is installed; without it a start costs half as much again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROUNDS = 6  # the first makes the bytecode
BARE = ("-c", "import aiohttp, uvloop")

pytestmark = [pytest.mark.bench, pytest.mark.timeout(120)]


def cpu_s(folder: Path, *arguments: str) -> float:
    """CPU seconds of a Python process in an empty directory."""
    shutil.rmtree(folder / "crawl", ignore_errors=True)
    (folder / "crawl").mkdir()
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder / "crawl",
        env=environment,
        stdout=subprocess.DEVNULL,
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


def test_start(tmp_path: Path) -> None:
    pytest.importorskip("uvloop")
    site = [str(HERE / "site_process.py"), "1", "1", "0", str(tmp_path / "log.json")]
    with subprocess.Popen(
        [sys.executable, *site], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as web:
        assert web.stdout
        url = f"http://127.0.0.1:{int(web.stdout.readline())}/page/0"
        courtly = ("-c", "from crawler.cli import main; main()")  # as the installed command does
        limits = ("--max-pages", "1", "--delay", "0", "--allow", "127.0.0.0/8")
        commands = {
            "a crawl of one page": (*courtly, "crawl", url, "--json", "--quiet", *limits),
            "--help": (*courtly, "--help"),
            "--version": (*courtly, "--version"),
            "aiohttp and uvloop alone": BARE,
        }
        took = {name: list[float]() for name in commands}
        for _ in range(ROUNDS):
            for name, arguments in commands.items():
                took[name].append(cpu_s(tmp_path, *arguments))
        web.communicate()
    bare_s = min(took["aiohttp and uvloop alone"])
    for name, ceiling in (("a crawl of one page", 1.9), ("--help", 0.4), ("--version", 0.3)):
        least_s = min(took[name])
        sys.stdout.write(
            f"\n{name}: {least_s:.3f} CPU s, {least_s / bare_s:.2f} times aiohttp and uvloop alone"
            f" ({bare_s:.3f} s)\n"
        )
        assert least_s < ceiling * bare_s, name
