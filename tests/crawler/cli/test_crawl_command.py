"""`courtly crawl` in a new process on a local web: output, exit codes, signals, resuming."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from crawler.testing import LocalWeb, ReceivedRequest, Reply, html, redirect, text
from tests.command_processes import start

FOREIGN = b"not a database at all, and it stays so\n" * 100


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def last(self) -> dict[str, object]:
        """The JSON object in the last line of stdout."""
        found = json.loads(self.out.splitlines()[-1])
        assert isinstance(found, dict)
        return found


@pytest.fixture
async def web() -> AsyncIterator[LocalWeb]:
    pages = {
        "/robots.txt": text("User-agent: *\nDisallow: /private/\n"),
        "/": html("Home", "/a", "/b", "/private/x", "/old", "http://elsewhere.test/"),
        "/a": html("A", "/deep/1"),
        "/b": html("B", "/"),
        "/old": redirect("/private/y"),
        "/deep/1": html("Deep", "/deep/2"),
        "/deep/2": html("Deeper"),
    }
    async with LocalWeb({"a.test": pages}) as web:
        yield web


def write_config(path: Path, web: LocalWeb, *, allow: str = '"127.0.0.0/8"') -> Path:
    path.write_text(
        f'[crawl]\nseeds = ["{web.url("a.test")}"]\npatience = 1\n'
        "[scope]\nsitemap_paths = []\n"
        "[politeness]\ndelay = 0.01\n"
        f'[network]\nallow = [{allow}]\nresolve = {{ "*.test" = "127.0.0.1" }}\n'
    )
    return path


@pytest.fixture
def config(web: LocalWeb, tmp_path: Path) -> Path:
    return write_config(tmp_path / "crawl.toml", web)


class Held:
    """A page whose response waits for `release`. `asked` is set when the request arrives."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.release = asyncio.Event()

    async def __call__(self, _: ReceivedRequest) -> Reply:
        self.asked.set()
        await self.release.wait()
        return html("Late", "/a")


@pytest.fixture
def home(web: LocalWeb) -> Held:
    """The home page, which waits for its release."""
    held = Held()
    site = web.sites["a.test"]
    assert isinstance(site, dict)
    site["/"] = held
    return held


async def end(process: asyncio.subprocess.Process) -> Ended:
    out, err = await process.communicate()
    assert process.returncode is not None
    assert b"Traceback" not in err, err.decode()
    return Ended(process.returncode, out.decode(), err.decode())


async def courtly(*args: str, cwd: Path) -> Ended:
    return await end(await start(*args, cwd=cwd))


@pytest.mark.usefixtures("fresh_interpreter")
async def test_a_crawl_from_a_seed_to_a_finished_database(web: LocalWeb, config: Path) -> None:
    ended = await courtly("crawl", "--config", str(config), "--json", "--quiet", cwd=config.parent)
    assert (ended.code, ended.err) == (0, "")
    assert len(ended.out.splitlines()) == 1
    counts = {key: ended.last[key] for key in ("visited", "blocked", "failed", "queued", "hosts")}
    assert counts == {"visited": 5, "blocked": 3, "failed": 0, "queued": 0, "hosts": 1}
    assert ended.last["waiting"] == []
    assert (config.parent / "crawl.db").is_file()

    again = await courtly("crawl", "--config", str(config), "--json", cwd=config.parent)
    assert again.code == 0
    assert again.last["visited"] == 5
    assert web.log.paths().count("/a") == 1


async def test_the_summary_names_limits_and_their_keys(config: Path) -> None:
    ended = await courtly("crawl", "--config", str(config), "--max-depth", "1", cwd=config.parent)
    assert ended.code == 0
    assert ended.out.startswith("Finished after ")
    assert "(crawl.max_depth)" in ended.out
    assert "(scope.follow)" in ended.out


async def test_commands_that_show_a_finished_crawl(web: LocalWeb, config: Path) -> None:
    here = config.parent
    await courtly("crawl", "--config", str(config), "--db", "x.db", "--quiet", cwd=here)
    blocked = await courtly("show", "blocked", "--db", "x.db", "--format", "jsonl", cwd=here)
    rows = [json.loads(line) for line in blocked.out.splitlines()]
    assert {row["reason"] for row in rows} == {"robots", "redirect"}
    assert {(row["rule"], row["line"]) for row in rows} == {("Disallow: /private/", 2)}
    visited = await courtly("show", "visited", "--db", "x.db", "--format", "csv", cwd=here)
    assert len(list(csv.DictReader(io.StringIO(visited.out)))) == 5
    table = await courtly("show", "hosts", "--db", "sqlite:x.db", "--host", "A.test", cwd=here)
    assert table.out.splitlines()[1].startswith("a.test")
    none = await courtly("show", "visited", "--db", "x.db", "--host", "b.test", cwd=here)
    assert (none.code, none.out) == (0, "")
    one = await courtly("show", "visited", "--db", "x.db", "--limit", "1", cwd=here)
    assert len(one.out.splitlines()) == 2
    why = await courtly("why", web.url("a.test", "/private/x"), "--db", "x.db", cwd=here)
    assert "blocked by line 2, `Disallow: /private/`" in why.out
    host = await courtly("why", "a.test", "--db", "x.db", cwd=here)
    assert "5 visited" in host.out


async def test_a_stopped_crawl_finishes_requests_in_flight_and_resumes(
    home: Held, config: Path
) -> None:
    process = await start("crawl", "--config", str(config), "--json", cwd=config.parent)
    assert process.stderr
    await home.asked.wait()
    process.send_signal(signal.SIGINT)
    assert b"finishing the requests in flight" in await process.stderr.readline()
    home.release.set()
    ended = await end(process)
    assert ended.code == 130
    assert (ended.last["visited"], ended.last["queued"]) == (1, 1)
    assert "Run the same command again to resume." in ended.err

    resumed = await courtly("crawl", "--config", str(config), "--json", cwd=config.parent)
    assert (resumed.code, resumed.last["visited"], resumed.last["queued"]) == (0, 4, 0)


async def test_a_second_interrupt_exits_immediately(home: Held, config: Path) -> None:
    process = await start("crawl", "--config", str(config), "--json", cwd=config.parent)
    assert process.stderr
    await home.asked.wait()
    process.send_signal(signal.SIGINT)
    await process.stderr.readline()
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(20):
        ended = await end(process)
    assert ended.code == 130
    assert ended.last["queued"] == 1


async def test_a_private_address_is_a_failed_row(web: LocalWeb, tmp_path: Path) -> None:
    config = write_config(tmp_path / "crawl.toml", web, allow="")
    ended = await courtly("crawl", "--config", str(config), "--json", "--quiet", cwd=config.parent)
    assert (ended.code, ended.last["failed"]) == (0, 1)
    failed = await courtly("show", "failed", "--format", "jsonl", cwd=config.parent)
    assert json.loads(failed.out)["error"].startswith("address: ")
    retried = await courtly("retry", "failed", cwd=config.parent)
    assert retried.out == "1 failed URL queued again: run courtly crawl to fetch it\n"


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[Path]:
    """A file that is not a courtly database, and must not change."""
    path = tmp_path / "other.db"
    path.write_bytes(FOREIGN)
    yield path
    assert path.read_bytes() == FOREIGN


async def test_a_file_that_is_not_a_database_is_not_changed(config: Path, foreign: Path) -> None:
    commands = (
        ("crawl", "--config", str(config)),
        ("show", "visited"),
        ("retry", "failed"),
        ("db", "info"),
        ("db", "check"),
        ("db", "vacuum"),
    )
    for command in commands:
        ended = await courtly(*command, "--db", str(foreign), cwd=config.parent)
        assert ended.code == 2, ended
        assert len(ended.err.splitlines()) == 1


async def test_a_database_in_use_is_refused(web: LocalWeb, home: Held, config: Path) -> None:
    process = await start("crawl", "--config", str(config), cwd=config.parent)
    await home.asked.wait()
    for command in (("crawl", "--config", str(config)), ("db", "vacuum")):
        second = await courtly(*command, cwd=config.parent)
        assert (second.code, second.out) == (2, "")
        assert len(second.err.splitlines()) == 1
    looked = await courtly("show", "queued", "--format", "jsonl", cwd=config.parent)
    assert json.loads(looked.out)["url"] == web.url("a.test")
    assert (await courtly("db", "check", cwd=config.parent)).code == 0
    asked = await courtly("retry", "failed", cwd=config.parent)  # through its socket
    assert (asked.code, asked.out) == (0, "no URL has failed\n")
    process.kill()
    await process.wait()
