"""Commands on a database on a PostgreSQL server, each a process, judged by what it prints."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from crawler import Crawler, PoliteSession, app
from crawler.config import ConfigError, load
from crawler.events import Summary
from crawler.steering.summary import summarise
from crawler.testing import LocalWeb, ReceivedRequest, Reply, html, redirect, text
from storage.store import StoreRefused
from tests.command_processes import running
from tests.postgres_server import WITH_PASSWORD, PostgresServer

MARK = "hunter2"
PAGES = {
    "/robots.txt": text("User-agent: *\nDisallow: /private/\n"),
    "/": html("Home", "/a", "/private/x", "/old", "/missing"),
    "/a": html("A", "/b"),
    "/old": redirect("/private/y"),
    "/missing": text("no", status=500),
}


class Held:
    """A page whose response waits for `release`."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.release = asyncio.Event()

    async def __call__(self, _: ReceivedRequest) -> Reply:
        self.asked.set()
        await self.release.wait()
        return html("B", "/")


class Terminal:
    """Runs commands in a folder with a config of a database."""

    def __init__(self, folder: Path, web: LocalWeb, url: str) -> None:
        self.folder = folder
        self.url = url
        self.config = folder / "crawl.toml"
        self.config.write_text(
            f'[crawl]\nseeds = ["{web.url("a.test")}"]\npatience = 1\n'
            "[scope]\nsitemap_paths = []\n"
            "[politeness]\ndelay = 0.01\n"
            "[fetch]\nmax_attempts = 1\n"
            f'[storage]\nurl = "{url}"\n'
            '[network]\nallow = ["127.0.0.0/8"]\nresolve = { "*.test" = "127.0.0.1" }\n'
        )

    def process(self, *args: str) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
        return running(*args, cwd=self.folder)

    async def run(self, *args: str, code: int = 0) -> str:
        """What a command prints. The config names the database, unless an option does."""
        if args[:2] != ("db", "copy"):
            args = (*args, "--config", str(self.config))
        async with asyncio.timeout(60), self.process(*args) as process:
            out, err = await process.communicate()
        said = (out + err).decode()
        assert process.returncode == code, said
        assert "Traceback" not in said
        return " ".join(said.split())

    async def status(self) -> dict[str, Any]:
        found = json.loads(await self.run("status", "--json"))
        assert isinstance(found, dict)
        return found

    async def until_in_flight(self, page: Held) -> dict[str, Any]:
        """Wait until a worker has reported a request for a page; return the status."""
        await asyncio.wait_for(page.asked.wait(), 30)
        return await self.until_status(lambda status: bool(status["in_flight"]))

    async def until_status(self, true: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        async with asyncio.timeout(30):
            while True:
                status = await self.status()
                if true(status):
                    return status
                await asyncio.sleep(0.1)


@pytest.fixture
def page() -> Iterator[Held]:
    held = Held()
    held.release.set()
    yield held
    held.release.set()


@pytest.fixture
async def web(page: Held) -> AsyncIterator[LocalWeb]:
    async with LocalWeb({"a.test": {**PAGES, "/b": page}}) as web:
        yield web


@pytest.fixture
def terminal(tmp_path: Path, web: LocalWeb, postgres_url: str) -> Terminal:
    return Terminal(tmp_path, web, postgres_url)


async def test_every_command_works_on_a_server(terminal: Terminal, web: LocalWeb) -> None:
    run = terminal.run
    assert "3 visited" in await run("crawl")
    assert await run("status") == (
        "no crawl is running on this database 3 visited (600 B), 3 blocked, 1 failed, 0 queued, "
        "on 1 host"
    )
    assert web.url("a.test", "/b") in await run("show", "visited")
    assert "Disallow: /private/" in await run("export", "blocked")
    assert "robots" in await run("report", "robots")
    assert "Disallow: /private/" in await run("why", web.url("a.test", "/private/x"))
    assert "3 visited" in await run("why", "a.test")
    assert "1 failed URL queued again: run courtly crawl" in await run("retry", "failed")
    assert await run("host", "pause", "a.test") == (
        "a.test is paused; run `courtly host resume a.test` to continue"
    )
    assert "paused" in await run("why", "a.test")
    await run("host", "resume", "a.test")
    assert "a.test has a minimum delay of 50 ms; a longer delay" in await run(
        "host", "slow", "a.test", "--delay", "50ms"
    )
    info = await run("db", "info")
    assert "7 discovered: 3 visited, 3 blocked, 0 failed, 1 queued" in info
    assert re.search(r"server PostgreSQL [0-9.]+; 0 live workers largest tables \w+: \d+ KB", info)
    assert await run("db", "check") == f"{terminal.url}: ok"
    assert "before, " in await run("db", "vacuum")
    assert 'unknown host "b.test"' in await run("host", "pause", "b.test", code=2)
    assert "1 new seed queued" in await run("seeds", "add", web.url("a.test", "/new"))
    assert "already known" in await run("seeds", "add", web.url("a.test", "/new"))
    status = await terminal.status()
    assert (status["state"], status["queued"], status["workers"]) == ("stopped", 2, [])
    assert "4 visited" in await run("crawl")


async def test_a_server_that_is_away_at_the_end_delays_the_summary(
    terminal: Terminal,
    web: LocalWeb,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A crawl that ended well does not fail because its summary cannot be read at first."""
    away = iter(["connection refused", "the server is starting up"])

    async def once_it_is_back(*args: Any, **kwargs: Any) -> Summary:
        if (problem := next(away, None)) is not None:
            raise StoreRefused(problem)
        return await summarise(*args, **kwargs)

    monkeypatch.setattr(app, "summarise", once_it_is_back)
    monkeypatch.setattr(app, "SUMMARY_AGAIN_S", 0.01)
    summary = await app.crawl(load(terminal.config), seeds=[web.url("a.test")])
    assert (summary.visited, summary.blocked) == (3, 3)
    assert caplog.text.count("its summary cannot be read yet") == 2
    exit_now = asyncio.Event()
    exit_now.set()
    away = iter(["connection refused"])
    with pytest.raises(StoreRefused, match="connection refused"):
        await app.crawl(load(terminal.config), seeds=(), exit_now=exit_now)


async def test_commands_beside_a_running_crawl(terminal: Terminal, page: Held) -> None:
    page.release.clear()
    async with terminal.process("crawl", "--config", str(terminal.config)) as process:
        status = await terminal.until_in_flight(page)
        (worker,) = status["workers"]
        assert (status["state"], worker["pid"], worker["hosts"]) == ("running", process.pid, 1)
        assert f"process {process.pid} on " in await terminal.run("status")
        assert "the running crawl will fetch it" in await terminal.run("retry", "failed")
        page.release.set()
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    assert b"3 visited" in out


async def test_commands_reach_running_workers(
    terminal: Terminal, web: LocalWeb, page: Held
) -> None:
    """Both apply what a command has changed in the database, with their next renewal."""
    page.release.clear()
    file, log = terminal.config, web.log
    file.write_text(file.read_text().replace("patience = 1", "patience = 8"))
    async with (
        terminal.process("crawl", "--config", str(file)) as one,
        terminal.process("crawl", "--config", str(file)) as two,
    ):
        await terminal.until_in_flight(page)
        await asyncio.sleep(1)  # for the commits of other pages
        await terminal.run("host", "pause", "a.test")
        seed = web.url("a.test", "/new")
        assert "1 new seed queued" in await terminal.run("seeds", "add", seed)
        assert "the running crawl will fetch it" in await terminal.run("retry", "failed")
        before = log.paths()
        page.release.set()
        await asyncio.sleep(2.5)
        assert log.paths() == before  # it is still paused
        await terminal.run("host", "resume", "a.test")
        assert [await process.wait() for process in (one, two)] == [0, 0]
    assert sorted(log.paths()[len(before) :]) == ["/missing", "/new"]
    assert "4 visited" in await terminal.run("status")


async def test_a_crawl_moves_to_a_file_and_back(
    terminal: Terminal, postgres: PostgresServer, web: LocalWeb
) -> None:
    await terminal.run("crawl")
    other = postgres.create_database()
    assert "back.db: ok" in await terminal.run("db", "copy", terminal.url, "back.db")
    assert f"{other}: ok" in await terminal.run("db", "copy", "back.db", other)
    asked = len(web.log.requests())
    assert "3 visited" in await terminal.run("crawl", "--db", other)
    assert len(web.log.requests()) == asked  # everything is known
    postgres.drop_database(other)


async def test_a_copy_is_refused_while_a_worker_runs(terminal: Terminal, page: Held) -> None:
    page.release.clear()
    async with terminal.process("crawl", "--config", str(terminal.config)) as process:
        await terminal.until_in_flight(page)
        said = await terminal.run("db", "copy", terminal.url, "back.db", code=2)
        assert f"of process {process.pid} on " in said
        assert "stop it first" in said


@pytest.mark.parametrize("command", [("crawl",), ("status",), ("retry", "failed")], ids=str)
async def test_a_password_is_never_printed(
    command: Sequence[str],
    terminal: Terminal,
    postgres: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    postgres.execute("DROP ROLE IF EXISTS secretive")
    postgres.execute(f"CREATE ROLE secretive LOGIN PASSWORD '{MARK}' IN ROLE {WITH_PASSWORD}")
    url = terminal.url.replace("courtly@", "secretive@")
    monkeypatch.setenv("PGPASSWORD", f"{MARK} wrong")
    said = await terminal.run(*command, "--db", url, code=2)
    assert 'password authentication failed for user "secretive"' in said
    assert MARK not in said


async def test_a_password_from_the_config(
    terminal: Terminal, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.execute("DROP ROLE IF EXISTS secretive")
    postgres.execute(f"CREATE ROLE secretive LOGIN PASSWORD '{MARK}' IN ROLE {WITH_PASSWORD}")
    name = terminal.url.rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} OWNER TO secretive")
    monkeypatch.delenv("PGPASSWORD", raising=False)
    given = terminal.config.read_text()
    (terminal.folder / "password").write_text(f"{MARK}\n")
    terminal.config.write_text(
        given.replace("courtly@", "secretive@").replace(
            "[network]", 'password = "file:password"\n[network]'
        )
    )
    said = await terminal.run("crawl")
    assert "3 visited" in said
    assert MARK not in said + await terminal.run("status") + await terminal.run("show", "hosts")


async def test_the_python_classes(terminal: Terminal, web: LocalWeb) -> None:
    config = web.config(
        politeness={"delay": 0.01}, crawl={"patience": 1}, scope={"sitemap_paths": []}
    )
    async with Crawler(web.url("a.test"), config=config, db=terminal.url) as crawler:
        pages = [page.url async for page in crawler]
    assert web.url("a.test", "/b") in pages
    async with PoliteSession(config=config, db=terminal.url) as session:
        assert (await session.get(web.url("a.test", "/a"))).status == 200
    assert "3 visited" in await terminal.run("status")
    with pytest.raises(ConfigError, match=r"db: storage\.url: must not contain a password"):
        async with PoliteSession(config=config, db=f"postgresql://me:{MARK}@db/x"):
            pass
    nowhere = f"{terminal.url.rpartition('/')[0]}/nowhere"
    with pytest.raises(StoreRefused, match='database "nowhere" does not exist'):
        async with Crawler(web.url("a.test"), config=config, db=nowhere):
            pass


async def test_a_service_has_no_socket(terminal: Terminal) -> None:
    """Its commands go to the server of the database."""
    with terminal.config.open("a") as file:
        file.write('[daemon]\nlisten = "127.0.0.1:0"\n')
    async with terminal.process("run", str(terminal.config)) as process:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), 30)
        assert line.decode().endswith(f"shows the crawl; its database is {terminal.url}\n")
        status = await terminal.until_status(lambda status: status["state"] == "idle")
        (worker,) = status["workers"]
        assert worker["pid"] == process.pid
        assert [one.name for one in terminal.folder.iterdir()] == ["crawl.toml"]
        process.terminate()
        assert await process.wait() == 0
    assert (await terminal.status())["workers"] == []


async def test_a_copy_waits_until_a_killed_worker_is_given_up(
    terminal: Terminal, page: Held
) -> None:
    page.release.clear()
    config = terminal.config
    config.write_text(config.read_text().replace("[network]", "lease = 5\n[network]"))
    async with terminal.process("crawl", "--config", str(config)):
        await terminal.until_in_flight(page)  # and is killed
    said = await terminal.run("db", "copy", terminal.url, "back.db", "--config", str(config))
    assert "waiting until it is certain that these have ended: session 1 (crawl as" in said
    assert "back.db: ok" in said
    assert "1 queued" in await terminal.run("status", "--db", "back.db")
