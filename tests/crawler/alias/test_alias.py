"""`import courtly`: what the wheel contains, used as by a program in another directory."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CODE = """
from courtly import CrawledPage, Crawler, PageLink, Summary, Verdict
from courtly.testing import JumpClock


async def main(page: CrawledPage) -> Summary:
    links: tuple[PageLink, ...] = page.links
    async with Crawler([links[0].url], clock=JumpClock(), delay="2s") as crawl:
        return await crawl.summary()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that stands for site-packages, with the wheel unpacked in it."""
    pytest.importorskip("hatchling")
    into = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    [wheel] = into.glob("courtly-*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(into / "packages")
    return into / "packages"


def run(where: Path, *args: str, path: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(path)}
    return subprocess.run(
        [sys.executable, *args], cwd=where, env=environment, capture_output=True, text=True,
        timeout=100,
    )  # fmt: skip


def test_the_alias_gives_the_same_names_and_loads_none_of_them(
    installed: Path, tmp_path: Path
) -> None:
    code = (
        "import sys, courtly; assert 'crawler.errors' not in sys.modules; import crawler, pickle;"
        "assert sorted(courtly.__all__) == sorted(crawler.__all__);"
        "assert all(getattr(courtly, n) is getattr(crawler, n) for n in crawler.__all__);"
        "assert set(crawler.__all__) <= set(dir(courtly));"
        "from courtly import *; from courtly.testing import JumpClock;"
        "assert pickle.loads(pickle.dumps(courtly.SessionClosed('a'))).args == ('a',);"
        "print(JumpClock.__module__, hasattr(courtly, 'Scrapy'), courtly.__file__)"
    )
    done = run(tmp_path, "-c", code, path=installed)
    assert done.stdout.split() == [
        "crawler.testing.jump_clock",
        "False",
        str(installed / "courtly" / "__init__.py"),
    ], done.stderr


@pytest.mark.parametrize("module", ["courtly", "crawler", "crawler.cli"])
def test_it_runs_as_the_command(installed: Path, tmp_path: Path, module: str) -> None:
    done = run(tmp_path, "-m", module, "--version", path=installed)
    assert done.stdout.startswith("courtly "), done.stderr


def test_type_checkers_see_the_types_behind_the_alias(installed: Path, tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    assert (installed / "courtly" / "py.typed").exists()
    (tmp_path / "program.py").write_text(CODE)
    (tmp_path / "wrong.py").write_text("from courtly import Crawler\nCrawler(delay=[1])\n")
    options = ["--strict", f"--cache-dir={tmp_path / 'cache'}"]
    done = run(tmp_path, "-m", "mypy", *options, "program.py", "wrong.py", path=installed)
    assert 'wrong.py:2: error: Argument "delay" to "Crawler" has incompatible type' in done.stdout
    assert "Found 1 error in 1 file (checked 2 source files)" in done.stdout


def test_a_program_named_crawler_is_named_and_not_run(installed: Path, tmp_path: Path) -> None:
    file = tmp_path / "crawler.py"
    file.write_text("print('run once')\nfrom courtly import Crawler\n")
    done = run(tmp_path, "crawler.py", path=installed)
    assert done.stdout == "run once\n"
    assert f'ImportError: {file} hides the package "crawler" of courtly' in done.stderr
