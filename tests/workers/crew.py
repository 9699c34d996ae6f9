"""Workers that share a crawl, each a process as the command line starts it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import asyncpg

from crawler.cli.exit_codes import INTERRUPTED
from crawler.databases import check_database
from storage.location import parse_location
from tests.config_files import to_toml

LEASE_S = 5.0  # the shortest that a config may have
GRACE_S = 5.0
ENDS_WITHIN_S = 60.0
POLL_S = 0.2


class Web(Protocol):
    port: int

    def url(self, host: str, path: str = "/") -> str: ...


class Worker:
    """One process. Its user agent names it, so that the log of a web tells who sent a request."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, output: Path) -> None:
        self.name = name
        self.process = process
        self.output = output
        self.exit_code: int | None = 0  # the expected one; None: any

    def kill(self) -> float:
        """`kill -9`; return when (monotonic)."""
        self.exit_code = None
        self.process.kill()
        return time.monotonic()

    def interrupt(self) -> float:
        """SIGINT; return when (monotonic)."""
        self.exit_code = INTERRUPTED
        return self.signal(signal.SIGINT)

    def signal(self, number: signal.Signals) -> float:
        """Send a signal to a process that must still be running; return when (monotonic)."""
        assert self.process.returncode is None, f"{self.name} has ended: {self.said()}"
        self.process.send_signal(number)
        return time.monotonic()

    async def ended(self, within_s: float = ENDS_WITHIN_S) -> int:
        """Its exit code, once it has ended."""
        async with asyncio.timeout(within_s):
            return await self.process.wait()

    def said(self) -> str:
        return self.output.read_text(errors="replace")


class Crew:
    """Workers of one database, each with a config of its own in one folder."""

    def __init__(self, folder: Path, web: Web, url: str, **sections: object) -> None:
        self.folder = folder
        self.web = web
        self.url = url
        self.sections = sections
        self.workers: list[Worker] = []

    # ------------------------------------------------------------ processes

    async def start(self, *seeds: str, url: str | None = None, **sections: object) -> Worker:
        """Start `courtly crawl`. url: of the database, if it reaches it another way."""
        name = f"worker{len(self.workers) + 1}"
        config = self.write_config(name, url=url, **sections)
        return await self.launch(name, "crawl", "--config", str(config), *seeds)

    async def start_all(self, count: int, *seeds: str) -> Sequence[Worker]:
        """Start the same command several times."""
        return [await self.start(*seeds) for _ in range(count)]

    async def joined(self, worker: Worker) -> Worker:
        """Wait until a worker has begun its session."""
        await self.until(f"SELECT 1 FROM sessions WHERE pid = {worker.process.pid}")
        return worker

    async def launch(self, name: str, *arguments: str) -> Worker:
        output = self.folder / f"{name}.out"
        with output.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "crawler.cli", *arguments), cwd=self.folder,
                stdin=asyncio.subprocess.DEVNULL, stdout=file, stderr=file,
                env={**os.environ, "TMPDIR": str(self.folder)},
            )  # fmt: skip
        worker = Worker(name, process, output)
        self.workers.append(worker)
        return worker

    async def run(self, *arguments: str, code: int = 0) -> str:
        """Run a command to its end, with the config of the first worker; return what it prints."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "crawler.cli", *arguments),
            *("--config", str(self.folder / "worker1.toml")), cwd=self.folder,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, env={**os.environ, "TMPDIR": str(self.folder)},
        )  # fmt: skip
        async with asyncio.timeout(ENDS_WITHIN_S):
            out, _ = await process.communicate()
        assert process.returncode == code, out.decode()
        return out.decode()

    async def finish(self, within_s: float = ENDS_WITHIN_S) -> None:
        """Wait until all have ended. Those that were neither killed nor interrupted must exit 0."""
        async with asyncio.timeout(within_s):
            for worker in self.workers:
                code = await worker.process.wait()
                expected = code if worker.exit_code is None else worker.exit_code
                assert code == expected, f"{worker.name} exits {code}: {worker.said()}"

    async def close(self) -> None:
        for worker in self.workers:
            with contextlib.suppress(ProcessLookupError):
                worker.process.kill()
        for worker in self.workers:
            await worker.process.wait()
            code = worker.process.returncode
            print(f"{worker.name} exited {code}:\n{worker.said()}")  # noqa: T201

    def write_config(self, name: str, *, url: str | None = None, **sections: object) -> Path:
        """Write the config of a worker; the keys of `sections` replace those of the crew."""
        config: dict[str, Any] = {
            "crawl": {"user_agent": f"{name}/1.0 (+http://h0.test/bot)", "patience": 20},
            "robots": {"token": "testcrew"},
            "politeness": {"delay": 0.05, "latency_factor": 0},
            "scope": {"follow": "any", "sitemap_paths": []},
            "network": {"resolve": {"*.test": "127.0.0.1"}, "allow": ["127.0.0.0/8"]},
            "storage": {"url": url or self.url, "lease": f"{LEASE_S:g}s"},
        }
        for section, keys in (*self.sections.items(), *sections.items()):
            if isinstance(keys, Mapping):
                keys = {**config.get(section, {}), **keys}
            config[section] = keys
        file = self.folder / f"{name}.toml"
        file.write_text(to_toml(config))
        return file

    # ------------------------------------------------------------ the database

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query; none before the first worker has created the tables."""
        db = await asyncpg.connect(self.url)
        try:
            return [tuple(row) for row in await db.fetch(sql)]
        except asyncpg.UndefinedTableError:
            return []
        finally:
            await db.close()

    async def until(self, sql: str, within_s: float = ENDS_WITHIN_S) -> None:
        """Wait until a query has rows."""
        async with asyncio.timeout(within_s):
            while not await self.rows(sql):  # noqa: ASYNC110 - nobody else tells
                await asyncio.sleep(POLL_S)

    async def urls(self, view: str) -> set[str]:
        return {url for (url,) in await self.rows(f"SELECT url FROM {view}")}

    async def problems(self) -> list[str]:
        """What `courtly db check` finds."""
        return await asyncio.to_thread(check_database, parse_location(self.url))
