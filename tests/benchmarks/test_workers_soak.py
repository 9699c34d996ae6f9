"""`courtly run --workers 3` for twenty minutes: 6,400 pages on 160 hosts that are visited again and
again, while hosts are paused, slowed and resumed, seeds are added, and the whole crawl is paused.
Memory, connections, the size of the database and its dead rows stay flat, and no host is contacted
before its delay has passed.

    pytest -m soak tests/benchmarks/test_workers_soak.py -s

SOAK_S=1200: for how long. The server writes to the disk, as in production. SOAK_OUT names a file
that gets each sample as it is taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import signal
import statistics
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest

from tests.postgres_server import running_server
from tests.workers.crew import Crew, Worker

HERE = Path(__file__).parent
SOAK_S = float(os.environ.get("SOAK_S", "1200"))
SAMPLE_S = min(60.0, SOAK_S / 20)
WORKERS = 3
HOSTS, PAGES = 160, 40
DELAY_S, SLOW_S = 1.0, 3.0
REACHES_S = 3.0  # in which a command reaches all workers, and what was in flight has ended
STOP_S_MAX = 60.0  # TimeoutStopSec of the unit in docs/
# By how much the median of the last quarter may be above that of the second. All pages are known
# after the first quarter; the server reuses the space of dead rows after that.
GROWTH_MAX = {
    "memory of a worker, MB": 8.0,
    "connections": 0.0,
    "database, MB": 5.0,
    "dead rows": 30_000.0,
}

pytestmark = [pytest.mark.soak, pytest.mark.timeout(SOAK_S + 300)]


class Web:
    """`soak_site.py`, which judges how its hosts are treated."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self._lock = asyncio.Lock()
        self.port = port

    def url(self, host: str, path: str = "/") -> str:
        return f"http://{host}:{self.port}{path}"

    async def ask(self, question: str) -> dict[str, float]:
        assert self._process.stdin
        assert self._process.stdout
        async with self._lock:
            self._process.stdin.write(f"{question}\n".encode())
            answer: dict[str, float] = json.loads(await self._process.stdout.readline())
        return answer


@contextlib.asynccontextmanager
async def soak_site() -> AsyncIterator[Web]:
    cpu = max(os.sched_getaffinity(0))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(HERE / "soak_site.py"), str(cpu), str(HOSTS), str(PAGES)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    try:
        yield Web(process, int(await process.stdout.readline()))
        process.stdin.close()
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()


@dataclass
class Sample:
    at_s: float
    requests: int  # since the sample before
    least_rest_s: float  # of all hosts
    together: int  # begun before the one before was answered
    values: dict[str, float] = field(default_factory=dict)  # by the names in GROWTH_MAX

    def __str__(self) -> str:
        values = "".join(f"{value:14,.1f}" for value in self.values.values())
        return f"{self.at_s:8,.0f} {self.requests:9,} {self.least_rest_s:11.3f}{values}"


class Soak:
    def __init__(self, web: Web, crew: Crew, http: aiohttp.ClientSession, base: str) -> None:
        self.web = web
        self.crew = crew
        self.http = http
        self.base = base
        self.pids: list[int] = []
        self.samples: list[Sample] = []
        self.checks = dict.fromkeys(("paused hosts", "slowed hosts", "pauses", "seeds"), 0)
        self.began_s = time.monotonic()

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self.began_s + SOAK_S

    async def post(self, path: str, body: object = None) -> Any:
        async with self.http.post(self.base + path, json=body) as answer:
            said = await answer.json()
        assert answer.status == 200, (path, said)
        return said

    # ------------------------------------------------------------ what goes on side by side

    async def sample(self) -> None:
        out = os.environ.get("SOAK_OUT")
        db = await asyncpg.connect(self.crew.url)
        await self.web.ask("look")
        try:
            for n in itertools.count(1):
                await asyncio.sleep(self.began_s + n * SAMPLE_S - time.monotonic())
                if not self.goes_on:
                    return
                look = await self.web.ask("look")
                sample = Sample(
                    time.monotonic() - self.began_s,
                    int(look["requests"]),
                    look["least_rest_s"],
                    int(look["together"]),
                    {
                        "memory of a worker, MB": max(map(resident_mb, self.pids)),
                        "connections": await db.fetchval(
                            "SELECT count(*) FROM pg_stat_activity"
                            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                        ),
                        "database, MB": await db.fetchval(
                            "SELECT pg_database_size(current_database()) / 1e6::float8"
                        ),
                        "dead rows": float(
                            await db.fetchval("SELECT sum(n_dead_tup) FROM pg_stat_user_tables")
                        ),
                    },
                )
                self.samples.append(sample)
                assert sample.together == 0, sample
                assert sample.least_rest_s >= DELAY_S, sample
                if out:
                    with Path(out).open("a") as lines:  # noqa: ASYNC230 - a line
                        lines.write(f"{sample}  {self.checks}\n")
        finally:
            await db.close()

    async def load(self) -> None:
        """An operator looks at the page, and a monitor at the metrics."""
        while self.goes_on:
            for path in ("/", "/hosts", "/api/status", "/metrics"):
                async with self.http.get(self.base + path) as answer:
                    await answer.read()
                assert answer.status == 200, path
            await asyncio.sleep(5)

    async def steer(self) -> None:
        """Pause, slow and resume hosts, whichever worker holds them; the web checks it."""
        n = 0
        while self.goes_on:
            n = (n + 17) % HOSTS
            if n % 4 == 3:
                continue  # answers erratically
            host = f"h{n}.test"
            await self.post("/api/hosts/pause", {"host": host})
            await asyncio.sleep(REACHES_S)
            await self.web.ask(f"host {host}")
            await asyncio.sleep(3 * DELAY_S)
            assert (await self.web.ask(f"host {host}"))["requests"] == 0, host
            self.checks["paused hosts"] += 1
            await self.post("/api/hosts/resume", {"host": host})
            await self.post("/api/hosts/slow", {"host": host, "delay_s": SLOW_S})
            await asyncio.sleep(REACHES_S)
            await self.web.ask(f"host {host}")
            await asyncio.sleep(4 * SLOW_S)
            assert (await self.web.ask(f"host {host}"))["least_rest_s"] >= SLOW_S, host
            self.checks["slowed hosts"] += 1
            await self.post("/api/hosts/resume", {"host": host})

    async def pause(self) -> None:
        while self.goes_on:
            await asyncio.sleep(60)
            await self.post("/api/pause")
            await asyncio.sleep(2)
            await self.post("/api/resume")
            self.checks["pauses"] += 1

    async def seed(self) -> None:
        while self.goes_on:
            await asyncio.sleep(10)
            n = self.checks["seeds"] = self.checks["seeds"] + 1
            host = f"h{n * 7 % HOSTS}.test"
            await self.post("/api/seeds", {"urls": [self.web.url(host, f"/seed/{n}")]})
            await self.post("/api/retry", {})


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextlib.asynccontextmanager
async def service(crew: Crew, web: Web) -> AsyncIterator[str]:
    """The service at work; yields the URL of its page. It stops cleanly, and with all workers."""
    config = crew.write_config(
        "worker1",
        crawl={"seeds": [web.url(f"h{n}.test") for n in range(HOSTS)]},
        politeness={"delay": DELAY_S},
        revisit={"mode": "adaptive", "interval": "1m", "min_interval": "30s", "max_interval": "5m"},
        storage={"lease": "15s"},
        daemon={"listen": "127.0.0.1:0", "log": "courtly.log", "log_level": "warning"},
    )
    process: Worker = await crew.launch("worker1", "run", str(config), "--workers", str(WORKERS))
    await crew.until(f"SELECT 1 FROM sessions WHERE id = {WORKERS} AND hosts > 0")
    found = re.search(r"(http://\S+?)/? shows the crawl", process.said())
    assert found, process.said()
    yield found[1]
    process.signal(signal.SIGTERM)
    await crew.finish(STOP_S_MAX)


async def test_workers_for_twenty_minutes(tmp_path: Path) -> None:
    with running_server(fsync=True) as server:
        async with soak_site() as web, aiohttp.ClientSession() as http:
            crew = Crew(tmp_path, web, server.create_database())
            try:
                async with service(crew, web) as base:
                    soak = Soak(web, crew, http, base)
                    rows = await crew.rows("SELECT pid FROM sessions WHERE ended_at IS NULL")
                    soak.pids = [pid for (pid,) in rows]
                    async with asyncio.TaskGroup() as group:
                        for job in (soak.sample, soak.load, soak.steer, soak.pause, soak.seed):
                            group.create_task(job())
                    pages = await crew.rows("SELECT pid, pages FROM sessions ORDER BY id")
                assert await crew.problems() == []
            finally:
                await crew.close()
    assert len(soak.pids) == WORKERS
    assert [pid for pid, _ in pages] == soak.pids, "none of them has died"
    assert all(count > 0 for _, count in pages)
    report(soak)
    quarter = len(soak.samples) // 4
    for name, growth_max in GROWTH_MAX.items():
        values = [sample.values[name] for sample in soak.samples]
        early, late = values[quarter : 2 * quarter], values[-quarter:]
        growth = statistics.median(late) - statistics.median(early)
        assert growth <= growth_max, f"{name}: {growth:+,.1f}"


def report(soak: Soak) -> None:
    names = "".join(f"{name.partition(',')[0][:13]:>14}" for name in GROWTH_MAX)
    lines = [
        f"{'seconds':>8} {'requests':>9} {'least rest':>11}{names}",
        *map(str, soak.samples),
        f"checked: {soak.checks}",
    ]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
