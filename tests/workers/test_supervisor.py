"""What becomes of the processes of `--workers N`: sinks, signals, deaths, reloads and refusals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from crawler.cli import main
from crawler.testing import LocalWeb, html
from tests.config_files import to_toml
from tests.postgres_server import PostgresServer
from tests.workers.conftest import NewCrew
from tests.workers.crew import Crew, Worker

HOSTS = 8
PAGES = 20
DELAY_S = 0.8
WORKERS = 2


@pytest.fixture
async def web() -> AsyncIterator[LocalWeb]:
    links = [f"/{n}" for n in range(1, PAGES)]
    pages = {path: html("Page", *links) for path in ("/", *links)}
    async with LocalWeb({f"h{n}.test": pages for n in range(HOSTS)}) as web:
        yield web


class Command:
    """A command with several workers, and what becomes of it."""

    def __init__(self, crew: Crew, web: LocalWeb) -> None:
        self.crew = crew
        self.web = web

    async def start(self, verb: str, *options: str, **sections: Any) -> Worker:
        seeds = [self.web.url(f"h{n}.test") for n in range(HOSTS)]
        politeness = {"delay": DELAY_S, "latency_factor": 0}
        own: dict[str, Any] = {"crawl": {"seeds": seeds}, "politeness": politeness}
        config = self.crew.write_config("worker1", **{**own, **sections})
        given = [str(config)] if verb == "run" else ["--config", str(config)]
        return await self.crew.launch("command", verb, *given, "--workers", str(WORKERS), *options)

    def children(self, worker: Worker) -> list[int]:
        """The processes of its workers, in the order of their starts."""
        pid = worker.process.pid
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True)
        return sorted(int(line) for line in found.stdout.split())

    async def at_work(self, worker: Worker, *, requests: int = 20) -> list[int]:
        """Its processes, once all of them crawl."""
        working = "SELECT 1 FROM sessions HAVING count(*) FILTER (WHERE pages > 0)"
        await self.crew.until(f"{working} = {WORKERS}")
        async with asyncio.timeout(20):
            while len(self.web.log) < requests:  # noqa: ASYNC110 - the log wakes nobody
                await asyncio.sleep(0.05)
        children = self.children(worker)
        assert len(children) == WORKERS
        return children

    async def check_nothing_is_held(self) -> None:
        query = "SELECT count(*) FROM slots WHERE lease IS NOT NULL OR clean = 0"
        assert await self.crew.rows(query) == [(0,)]

    def check_web(self) -> None:
        """Every page was requested, and no host early."""
        for n in range(HOSTS):
            paths = self.web.log.paths(f"h{n}.test")
            assert len({*paths} - {"/robots.txt"}) == PAGES
            assert min(self.web.log.gaps(f"h{n}.test")) >= DELAY_S


@pytest.fixture
def command(new_crew: NewCrew, web: LocalWeb) -> Command:
    return Command(new_crew(web), web)


async def gone(pids: list[int], within_s: float) -> None:
    async with asyncio.timeout(within_s):
        while any(os.path.exists(f"/proc/{pid}") for pid in pids):  # noqa: ASYNC110, ASYNC240, PTH110
            await asyncio.sleep(0.05)


async def test_each_has_a_sink_and_one_sums_up(command: Command, tmp_path: Path) -> None:
    sink = {"kind": "jsonl", "path": str(tmp_path / "pages-{worker}.jsonl")}
    worker = await command.start("crawl", sink=[sink])
    assert await worker.ended() == 0, worker.said()
    command.check_web()
    assert worker.said().count("Finished after") == 1
    assert f"{HOSTS * PAGES} visited" in worker.said()
    assert f"{WORKERS} workers" in worker.said()
    assert all(command.web.log.paths(f"h{n}.test").count("/robots.txt") == 1 for n in range(HOSTS))
    files = sorted(tmp_path.glob("pages-*.jsonl"))  # noqa: ASYNC240
    assert [file.name for file in files] == ["pages-1.jsonl", "pages-2.jsonl"]
    urls = [json.loads(line)["url"] for file in files for line in file.read_text().splitlines()]
    assert len(urls) == len({*urls}) == HOSTS * PAGES
    assert await command.crew.problems() == []


async def test_what_fail_on_finds_ends_the_command(command: Command) -> None:
    """The first worker checks once, at the end, and is not started again."""
    crawl = {"seeds": [command.web.url("h0.test")], "max_pages": 6}
    worker = await command.start("crawl", "--fail-on", "queued", "--fail-on", "broken", crawl=crawl)
    assert await worker.ended() == 3, worker.said()
    assert worker.said().count("--fail-on queued: ") == 1
    assert "started again" not in worker.said()
    assert "--fail-on broken" not in worker.said()


async def test_a_signal_stops_all_cleanly(command: Command) -> None:
    worker = await command.start("crawl")
    children = await command.at_work(worker)
    worker.signal(signal.SIGTERM)
    assert await worker.ended(10) == 130
    await gone(children, 1)
    assert worker.said().count("Interrupted after") == 1
    await command.check_nothing_is_held()


async def test_a_second_signal_ends_all_immediately(command: Command) -> None:
    worker = await command.start("crawl", fetch={"timeout": "60s"})
    children = await command.at_work(worker)
    worker.signal(signal.SIGINT)
    worker.signal(signal.SIGINT)
    assert await worker.ended(5) == 130
    await gone(children, 1)


async def test_workers_end_with_their_supervisor(command: Command) -> None:
    """Nobody could stop them any more."""
    worker = await command.start("crawl")
    children = await command.at_work(worker)
    worker.kill()
    await gone(children, 10)
    await command.check_nothing_is_held()


async def test_one_that_is_interrupted_leaves_alone(command: Command) -> None:
    worker = await command.start("crawl")
    children = await command.at_work(worker)
    os.kill(children[1], signal.SIGINT)
    await gone(children[1:2], 10)
    assert await worker.ended() == 130
    command.check_web()


async def test_what_is_refused_is_said_once(command: Command, postgres: PostgresServer) -> None:
    worker = await command.start("crawl", storage={"url": postgres.url("nowhere")})
    assert await worker.ended() == 2
    assert worker.said().count("courtly:") == 1


async def test_a_service_reloads_in_all(command: Command, tmp_path: Path) -> None:
    log = tmp_path / "courtly.log"
    worker = await command.start("run", daemon={"listen": "127.0.0.1:0", "log": str(log)})
    children = await command.at_work(worker)
    assert worker.said().count("shows the crawl") == 1
    file = tmp_path / "worker1.toml"
    file.write_text(file.read_text().replace(f"delay = {DELAY_S}", "delay = 30"))
    worker.signal(signal.SIGHUP)
    await asyncio.sleep(2.5)
    count = len(command.web.log)
    await asyncio.sleep(2)
    assert len(command.web.log) == count, "a delay of 30 s counts for all"
    os.kill(children[1], signal.SIGKILL)
    async with asyncio.timeout(20):
        while len(command.children(worker)) < WORKERS or children[1] in command.children(worker):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    worker.signal(signal.SIGTERM)
    assert await worker.ended(20) == 0, worker.said()
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert {event["worker"] for event in events if event["event"] == "visited"} == {1, 2}
    assert [event["worker"] for event in events if event["event"] == "reloaded"] == [1]


# ---------------------------------------------------------------- refused


def refusal(tmp_path: Path, *arguments: str, **sections: object) -> str:
    config = tmp_path / "crawl.toml"
    own: dict[str, object] = {"crawl": {"user_agent": "examplebot/1.0 (+https://example.com/bot)"}}
    config.write_text(to_toml({**own, **sections}))
    found = CliRunner().invoke(
        main, ["crawl", "https://example.com/", "--config", str(config), *arguments]
    )
    assert found.exit_code == 2
    return found.output


SERVER = {"url": "postgresql://courtly@db.test/crawl"}


def test_a_file_has_one_writer(tmp_path: Path) -> None:
    said = refusal(tmp_path, "--workers", "2", "--db", "crawl.db")
    assert "only one process can write to the file" in said
    assert "docs/postgresql.md" in said


@pytest.mark.parametrize("seeds", ["-", "@-"])
def test_seeds_on_standard_input_need_one_process(tmp_path: Path, seeds: str) -> None:
    said = refusal(tmp_path, seeds, "--workers", "2", storage=SERVER)
    assert "--workers: seeds on standard input need a single process" in said


@pytest.mark.parametrize("count", ["0", "65", "many"])
def test_a_number_of_workers(tmp_path: Path, count: str) -> None:
    assert "--workers" in refusal(tmp_path, "--workers", count, storage=SERVER)


def test_workers_do_not_share_a_file(tmp_path: Path) -> None:
    sink = {"kind": "jsonl", "path": "pages.jsonl"}
    said = refusal(tmp_path, "--workers", "2", storage=SERVER, sink=[sink])
    assert "each worker needs a file of its own: put {worker} into the path" in said


def test_workers_share_no_mirror(tmp_path: Path) -> None:
    sink = {"kind": "mirror", "path": "mirror-{worker}"}
    said = refusal(tmp_path, "--workers", "2", storage=SERVER, sink=[sink])
    assert "a mirror needs a crawl with one worker" in said


# ---------------------------------------------------------------- a server that is away


async def test_a_worker_that_is_started_again_during_an_outage_waits_like_the_others(
    command: Command, postgres: PostgresServer
) -> None:
    worker = await command.start("crawl")
    children = await command.at_work(worker)
    await asyncio.to_thread(postgres.kill)
    try:
        os.kill(children[1], signal.SIGKILL)
        async with asyncio.timeout(30):
            while "trying again for" not in worker.said():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.05)
        await asyncio.sleep(1.0)
        assert len(command.children(worker)) == WORKERS, "nobody gives up"
    finally:
        await asyncio.to_thread(postgres.start)
    assert await worker.ended() == 0, worker.said()
    assert worker.said().count("started again") == 1
    command.check_web()
    assert await command.crew.problems() == []
