"""`import crawler` loads little, and its names are available."""

from __future__ import annotations

import subprocess
import sys

import pytest

import crawler

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


@pytest.mark.parametrize("name", ["Crawler", "PoliteSession", "Politeness"])
def test_neither_database_nor_daemon_are_loaded_before_they_are_needed(name: str) -> None:
    modules = loaded(f"from crawler import {name}")
    assert not modules & {"sqlite3", "aiosqlite", "crawler.daemon", "crawler.sinks", "crawler.cli"}


def test_a_crawl_loads_no_reader_of_sitemaps_before_there_is_one() -> None:
    assert "crawler.documents.sitemap_xml" not in loaded("import crawler.scheduling.scheduler")


def test_every_public_name_is_there() -> None:
    for name in crawler.__all__:
        assert getattr(crawler, name).__name__ == name
        assert name in dir(crawler)
    with pytest.raises(AttributeError, match="no attribute 'Scrapy'"):
        _ = crawler.Scrapy
