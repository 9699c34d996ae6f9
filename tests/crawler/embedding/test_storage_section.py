"""The section `[storage]` of an embedded object: its database, and keys without an effect."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest

from crawler import ConfigError, Crawler, Politeness, PoliteSession, StoreRefused
from crawler.cli.robots.sources import fetch
from crawler.config import load
from crawler.testing import LocalWeb, html


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config file whose database is relative to it."""
    folder = tmp_path / "configs"
    folder.mkdir()
    file = folder / "crawl.toml"
    file.write_text(
        '[storage]\nurl = "sqlite:own.db"\nlinks = true\n'
        "[crawl]\npatience = 1\n[politeness]\ndelay = 0\n[scope]\nsitemap_paths = []\n"
        '[network]\nallow = ["127.0.0.0/8"]\nresolve = { "*.test" = "127.0.0.1" }\n'
    )
    return file


async def test_storage_url_selects_the_database_of_a_crawl(config: Path, tmp_path: Path) -> None:
    async with LocalWeb({"a.test": {"/": html("Home")}}) as web:
        for pages in (1, 0):  # the second time, it resumes
            async with Crawler([web.url("a.test")], config=config) as crawl:
                assert len([page async for page in crawl]) == pages
        assert (config.parent / "own.db").exists()
        async with Crawler([web.url("a.test")], config=config, db=tmp_path / "x.db") as crawl:
            assert len([page async for page in crawl]) == 1, "db= takes precedence"


async def test_storage_url_selects_the_database_of_a_session(config: Path) -> None:
    async with LocalWeb({"a.test": {"/": html("Home")}}) as web:
        async with PoliteSession(config=config) as session:
            assert (await session.get(web.url("a.test"))).ok
        assert (config.parent / "own.db").exists()
        async with (
            Politeness(config=config) as polite,
            aiohttp.ClientSession(middlewares=(polite,), connector=polite.connector()) as client,
            client.get(web.url("a.test")) as response,
        ):
            assert response.status == 200
        assert web.log.paths("a.test").count("/robots.txt") == 1, "its copy was kept"


async def test_commands_beside_a_crawl_do_not_open_its_database(config: Path) -> None:
    async with (
        LocalWeb({"a.test": {"/": html("Home")}}) as web,
        Crawler([web.url("a.test")], config=config),
    ):
        with pytest.raises(StoreRefused):
            await PoliteSession(config=config).open()
        (known,) = await asyncio.to_thread(fetch, load(config), [web.url("a.test")])
        assert known.access.status == 404


@pytest.mark.parametrize(
    ("storage", "key"),
    [
        ({"links": True}, "links"),
        ({"fragments": True}, "fragments"),
        ({"lease": 20}, "lease"),
        ({"max_size": "1GB"}, "max_size"),
        ({"min_free": "1GB"}, "min_free"),
    ],
)
def test_keys_without_an_effect_in_memory_are_refused(
    storage: Mapping[str, object], key: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=rf"config: storage\.{key}: has no effect without a data"):
        Crawler(["http://a.test/"], config={"storage": storage})
    Crawler(["http://a.test/"], config={"storage": storage}, db=tmp_path / "x.db")
    Crawler(["http://a.test/"], config={"storage": {**storage, "url": "sqlite:x.db"}})


def test_limits_on_disk_space_have_an_effect_on_sinks(tmp_path: Path) -> None:
    sink = {"kind": "jsonl", "path": str(tmp_path / "pages.jsonl")}
    Crawler(["http://a.test/"], config={"storage": {"min_free": "1GB"}, "sink": [sink]})


async def test_a_quota_counts_the_database_that_is_used(tmp_path: Path) -> None:
    """It was once measured at the default path."""
    settings = {
        "storage": {"max_size": 1},
        "network": {"allow": ["127.0.0.0/8"], "resolve": {"*.test": "127.0.0.1"}},
    }
    async with (
        LocalWeb({"a.test": {"/": html("Home")}}) as web,
        Crawler([web.url("a.test")], config=settings, db=tmp_path / "x.db") as crawl,
    ):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await anext(crawl)
        held = [str(hold.reason) for hold in (await crawl.summary()).held]
        assert held == ["disk-quota"]
