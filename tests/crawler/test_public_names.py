"""`import crawler` loads little, and its names are available."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import crawler

ROOT = Path(__file__).parents[2]
HEAVY = (
    "aiohttp aiosqlite sqlite3 asyncio selectolax crawler.daemon crawler.sinks crawler.app "
    "crawler.databases"
)


def loaded(*lines: str) -> set[str]:
    code = "\n".join([*lines, "import sys", "print(*sys.modules)"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_it_loads_nothing_heavy() -> None:
    assert not loaded("import crawler") & set(HEAVY.split())


def test_neither_database_nor_daemon_are_loaded_before_they_are_needed() -> None:
    for name in ["Crawler", "PoliteSession", "Politeness"]:
        modules = loaded(f"from crawler import {name}")
        assert not modules & {
            "sqlite3",
            "aiosqlite",
            "crawler.daemon",
            "crawler.sinks",
            "crawler.cli",
        }, name


def test_a_crawl_loads_no_reader_of_sitemaps_before_there_is_one() -> None:
    assert "crawler.documents.sitemap_xml" not in loaded("import crawler.scheduling.scheduler")


def test_every_public_name_is_there() -> None:
    for name in crawler.__all__:
        assert getattr(crawler, name).__name__ == name
        assert name in dir(crawler)
    with pytest.raises(AttributeError, match="no attribute 'Scrapy'"):
        _ = crawler.Scrapy


# ---------------------------------------------------------------- names that hide ours


def imported(where: Path, code: str) -> str:
    """Import in a process whose script stands in this directory; what it printed."""
    (where / "program.py").write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=where,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", ["storage", "policies"])
@pytest.mark.parametrize("file", ["{}.py", "{}/__init__.py"])
@pytest.mark.parametrize(
    "code", ["from crawler import Crawler", "import {0}, crawler", "import crawler.testing"]
)
def test_a_module_that_hides_one_of_ours_is_named(
    tmp_path: Path, name: str, file: str, code: str
) -> None:
    path = tmp_path / file.format(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("class Store: ...\n")
    assert f'ImportError: {path} hides the package "{name}" of courtly, because Python' in imported(
        tmp_path, code.format(name)
    )


def test_a_directory_of_data_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "data.json").touch()
    assert imported(tmp_path, "from crawler import StoreError; print('ok')") == "ok\n"


def test_the_same_packages_by_another_path_hide_nothing(tmp_path: Path) -> None:
    for name in ("storage", "policies"):
        (tmp_path / name).symlink_to(ROOT / name)
    assert imported(tmp_path, "from crawler import StoreError; print('ok')") == "ok\n"
