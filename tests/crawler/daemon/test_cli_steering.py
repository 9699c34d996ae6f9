"""The commands that steer a crawl, against `courtly run` and against a database at rest."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import json
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from crawler.app import open_crawl
from crawler.cli import host
from crawler.config import load
from crawler.testing import LocalWeb, html, text
from storage.paging import HOST_SORTS, HostFilter
from tests.command_processes import start

LIMIT_S = 30.0
CONFIG = """
[crawl]
seeds = SEEDS
[politeness]
delay = 5.0
[network]
allow = ["127.0.0.0/8"]
resolve = { "*" = "127.0.0.1" }
[storage]
url = "sqlite:crawl.db"
[daemon]
listen = "127.0.0.1:0"
log = "courtly.log"
"""
HOSTS = ("a.test", "b.test", "www.b.test")


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Path]:
    """A folder with the config of a crawl of three hosts."""
    pages = {"/robots.txt": text(""), "/": html("Home", "/1", "/2"), "/1": html("1")}
    async with LocalWeb(dict.fromkeys(HOSTS, pages)) as web:
        seeds = json.dumps([web.url(name) for name in HOSTS])
        (tmp_path / "crawl.toml").write_text(CONFIG.replace("SEEDS", seeds), encoding="utf-8")
        yield tmp_path


@contextlib.asynccontextmanager
async def running(folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """`courtly run`."""
    process = await start("run", "crawl.toml", cwd=folder)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(LIMIT_S):
            assert await process.stdout.readline()
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        async with asyncio.timeout(LIMIT_S):
            await process.communicate()


async def courtly(folder: Path, *args: str, code: int = 0) -> str:
    """The output of a command on the crawl of the folder."""
    process = await start(
        *args, "--config", "crawl.toml", cwd=folder, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(LIMIT_S):
        out, _ = await process.communicate()
    assert process.returncode == code, out.decode()
    return out.decode()


async def stored(folder: Path) -> None:
    """A database with the three hosts, and no crawl."""
    with contextlib.chdir(folder):
        config = load(Path("crawl.toml"))
        async with open_crawl(config, seeds=config.crawl.seeds):
            pass


async def test_the_whole_crawl_is_paused_and_resumed(folder: Path) -> None:
    async with running(folder):
        assert "the crawl is paused; requests in flight finish" in await courtly(folder, "pause")
        assert "was already paused" in await courtly(folder, "pause")
        assert "is resumed; it is running" in await courtly(folder, "resume")
        assert "was not paused; it is running" in await courtly(folder, "resume")
    assert "no crawl is running" in await courtly(folder, "pause")
    assert "was already paused" in await courtly(folder, "pause")
    at_rest = await courtly(folder, "status")
    assert "the crawl is paused: `courtly run` starts paused" in at_rest
    assert "6 queued on 3 hosts: the whole crawl is paused by an operator" in at_rest
    assert "ready to be requested" not in at_rest
    (hold,) = json.loads(await courtly(folder, "status", "--json"))["queue"]
    assert hold["reason"] == "crawl-paused"
    async with running(folder):
        assert "paused, up for" in await courtly(folder, "status")
    assert "is no longer paused" in await courtly(folder, "resume")
    assert "paused" not in await courtly(folder, "status")


async def test_the_config_is_reloaded(folder: Path) -> None:
    file = folder / "crawl.toml"
    good = file.read_text(encoding="utf-8")
    async with running(folder):
        assert "nothing would change" in await courtly(folder, "reload", "--dry-run")
        file.write_text(good.replace("delay = 5.0", "delay = 6.0"), encoding="utf-8")
        would = await courtly(folder, "reload", "--dry-run")
        assert "a reload would change:\n  3 hosts: delay 5 s to 6 s" in would
        assert "reloaded; changed:\n  3 hosts" in await courtly(folder, "reload")
        assert json.loads(await courtly(folder, "reload", "--json"))["changes"] == []
        restart = good.replace("delay = 5.0", 'delay = 6.0\nper = "domain"')
        file.write_text(restart, encoding="utf-8")
        assert "takes effect after a restart" in await courtly(folder, "reload", "--dry-run")
        file.write_text(good.replace("delay = 5.0", "delya = 6.0\nx = 1"), encoding="utf-8")
        process = await start("reload", "--db", "crawl.db", cwd=folder)
        _, errors = await process.communicate()
        assert process.returncode == 2
        assert b"politeness.delya: there is no such key" in errors
        assert b"politeness.x: there is no such key" in errors
        assert b"nothing was changed" in errors
        file.write_text(good, encoding="utf-8")
    events = [json.loads(line) for line in (folder / "courtly.log").read_text().splitlines()]
    (refused,) = [one for one in events if one["event"] == "refused"]
    assert (refused["what"], refused["via"]) == ("reload", "socket")
    assert "no crawl is running on crawl.db" in await courtly(folder, "reload", code=2)


async def test_hosts_by_pattern_and_state(folder: Path) -> None:
    """The same with and without a crawl."""
    await stored(folder)
    for context in (contextlib.nullcontext(), running(folder)):
        async with context:
            would = await courtly(folder, "host", "pause", "*.b.test", "--dry-run")
            assert would == "2 hosts would be paused: b.test, www.b.test\n"
            done = await courtly(folder, "host", "pause", "*.b.test", "a.test")
            assert done == "3 hosts are paused: a.test, b.test, www.b.test\n"
            listed = await courtly(folder, "host", "list", "--state", "paused", "--format", "csv")
            assert {row["host"] for row in csv.DictReader(listed.splitlines())} == {*HOSTS}
            some = await courtly(folder, "host", "resume", "w*", "--state", "paused")
            assert some == "1 host is resumed: www.b.test\n"
            slow = await courtly(folder, "host", "slow", "--all", "--delay", "9")
            assert "3 hosts have a minimum delay of 9 s: " in slow
            assert "a longer delay, such as a Crawl-delay, still applies" in slow
            all_ = await courtly(folder, "host", "resume", "--state", "slowed")
            assert all_.startswith("3 hosts are resumed: ")
            none = await courtly(folder, "host", "resume", "--state", "paused")
            assert none == "no known host matches: nothing changes\n"
            assert "unknown" in await courtly(folder, "host", "pause", "a.test", "x.test", code=2)
            assert await courtly(folder, "host", "list", "--state", "paused") == (
                "no host matches\n"
            )


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["pause"], "missing argument 'HOST'"),
        (["pause", "--all", "a.test"], "--all: omit the names of hosts"),
        (["pause", "a.test", "--state", "failing"], "--state: can be combined with patterns"),
        (["pause", "http://*/"], "without scheme and path"),
        (["list", "--state", "asleep"], '"asleep" is not one of'),
        (["list", "--sort", "size"], '"size" is not one of'),
    ],
)
async def test_bad_usage(folder: Path, args: Sequence[str], why: str) -> None:
    assert why in await courtly(folder, "host", *args, code=2)


async def test_the_status_is_watched_across_a_restart(folder: Path) -> None:
    await stored(folder)
    watch = ("status", "--config", "crawl.toml", "--watch", "--interval", "0.1")
    process = await start(*watch, cwd=folder, stderr=asyncio.subprocess.STDOUT)
    assert process.stdout is not None
    out = process.stdout

    async def until(words: str) -> None:
        async with asyncio.timeout(LIMIT_S):
            while words not in (line := (await out.readline()).decode()):
                assert line

    await until("no crawl is running")
    async with running(folder):
        await until("running, up for")
    await until("lost contact for ")
    await until("no crawl is running")
    async with running(folder):
        await until("running, up for")
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(LIMIT_S):
            rest, _ = await process.communicate()
    assert process.returncode == 130
    assert b"Traceback" not in rest


def test_the_words_of_the_command_line_are_those_of_the_store() -> None:
    assert tuple(HostFilter) == host.STATES
    assert HOST_SORTS == host.SORTS
