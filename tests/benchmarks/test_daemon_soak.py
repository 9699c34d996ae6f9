"""The daemon for half an hour at full speed over a web without an end, reloaded, paused, slowed and
asked all the while: memory stays flat, and no host is ever hurried.

    pytest -m soak tests/benchmarks/test_daemon_soak.py -s       SOAK_S=1800 says how long

The web is on the second CPU and watches over its manners; the daemon is on the first.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

HERE = Path(__file__).parent
CPUS = sorted(os.sched_getaffinity(0))[:2]
SOAK_S = float(os.environ.get("SOAK_S", "1800"))
HOSTS = 400
FAST_S, SLOW_S, SLOWEST_S = 0.1, 0.2, 2.0  # delays: of the config, in turn; of a host, by hand
UNDER_WAY_S = 0.5  # in which what was in flight when a command was obeyed has ended
ASKED = (
    "/",
    "/hosts",
    "/api/status",
    "/api/hosts?sort=-visited&limit=100",
    "/api/blocked?limit=100",
    "/metrics",
)
# Of the memory after the first third. Caches have filled by then; what grows on is a leak.
GROWTH_MAX = 0.10

pytestmark = [pytest.mark.soak, pytest.mark.timeout(SOAK_S + 300)]


class Web:
    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self._lock = asyncio.Lock()
        self.port = port

    async def ask(self, question: str) -> dict[str, float]:
        assert self._process.stdin
        assert self._process.stdout
        async with self._lock:
            self._process.stdin.write(f"{question}\n".encode())
            answer: dict[str, float] = json.loads(await self._process.stdout.readline())
        return answer


@contextlib.asynccontextmanager
async def web_of() -> AsyncIterator[Web]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(HERE / "endless_site.py"),
        str(CPUS[-1]),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout
    assert process.stdin
    yield Web(process, int(await process.stdout.readline()))
    process.stdin.close()
    await process.wait()


class Soak:
    def __init__(self, web: Web, http: aiohttp.ClientSession, config: Path) -> None:
        self.web = web
        self.http = http
        self.config = config
        self.base, self.pid = "", 0  # of the daemon
        self.answers_s: dict[str, list[float]] = {}
        self.memory: list[tuple[float, int]] = []
        self.pages = 0
        self.checks = dict.fromkeys(("delays", "paused hosts", "slowed hosts", "pauses"), 0)
        self.ends_s = time.monotonic() + SOAK_S

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self.ends_s

    def write(self, delay_s: float) -> None:
        self.config.write_text(
            f"""
            [politeness]
            delay = {delay_s}
            latency_factor = 0
            [scope]
            follow = "any"
            max_path_segments = 4
            [network]
            allow = ["127.0.0.0/8"]
            resolve = {{ "*.test" = "127.0.0.1" }}
            [storage]
            url = "sqlite:crawl.db"
            [daemon]
            listen = "127.0.0.1:0"
            log = "courtly.log"
            log_level = "warning"
            """
        )

    async def get(self, path: str) -> Any:
        began_s = time.perf_counter()
        async with self.http.get(self.base + path) as answer:
            body = await answer.read()
        self.answers_s.setdefault(path.partition("?")[0], []).append(time.perf_counter() - began_s)
        assert answer.status == 200, (path, answer.status, body[:200])
        return json.loads(body) if answer.content_type == "application/json" else None

    async def post(self, path: str, body: object) -> Any:
        async with self.http.post(self.base + path, json=body) as answer:
            said = await answer.json()
        assert answer.status == 200, (path, said)
        return said

    # ------------------------------------------------------------ what goes on side by side

    async def load(self) -> None:
        began_s = time.monotonic()
        while self.goes_on:
            next_s = time.monotonic() + 1
            for path in (*ASKED, f"/api/host?host=h{len(self.memory) % HOSTS}.test"):
                await self.get(path)
            status = await self.get("/api/status")
            self.memory.append((time.monotonic() - began_s, resident_bytes(self.pid)))
            self.pages = status["visited"]
            await asyncio.sleep(max(0.0, next_s - time.monotonic()))

    async def reload(self) -> None:
        """The delay of all hosts goes up and down; the web sees it obeyed from the answer on."""
        while self.goes_on:
            for delay_s in (SLOW_S, FAST_S):
                self.write(delay_s)
                said = await self.post("/api/reload", None)
                assert said["changes"], said
                await asyncio.sleep(UNDER_WAY_S)
                await self.web.ask("look")
                await asyncio.sleep(8)
                seen = await self.web.ask("look")
                assert seen["least_rest_s"] >= delay_s, (delay_s, seen)
                assert seen["together"] == 0, seen
                self.checks["delays"] += 1

    async def steer(self) -> None:
        n = 0
        while self.goes_on:
            n = (n + 17) % HOSTS
            host = f"h{n}.test"
            await self.post("/api/hosts/pause", {"host": host})
            await asyncio.sleep(UNDER_WAY_S)
            await self.web.ask(f"host {host}")
            await asyncio.sleep(2)
            assert (await self.web.ask(f"host {host}"))["requests"] == 0
            self.checks["paused hosts"] += 1
            await self.post("/api/hosts/slow", {"host": host, "delay_s": SLOWEST_S})
            await asyncio.sleep(UNDER_WAY_S)
            await self.post("/api/hosts/resume", {"host": host})
            await self.post("/api/hosts/slow", {"host": host, "delay_s": SLOWEST_S})
            await asyncio.sleep(UNDER_WAY_S)
            await self.web.ask(f"host {host}")
            await asyncio.sleep(3 * SLOWEST_S)
            seen = await self.web.ask(f"host {host}")
            assert seen["requests"] > 0, "a host resumed and slowed goes on"
            assert seen["least_rest_s"] >= SLOWEST_S, seen
            self.checks["slowed hosts"] += 1
            await self.post("/api/hosts/resume", {"host": host})

    async def pause(self) -> None:
        while self.goes_on:
            await asyncio.sleep(45)
            await self.post("/api/pause", None)
            assert (await self.get("/api/status"))["state"] == "paused"
            await asyncio.sleep(1)
            await self.post("/api/resume", None)
            self.checks["pauses"] += 1


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.asynccontextmanager
async def daemon_of(soak: Soak) -> AsyncIterator[None]:
    daemon = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "crawler.cli", "run", str(soak.config), stdout=asyncio.subprocess.PIPE
    )
    try:
        os.sched_setaffinity(daemon.pid, {CPUS[0]})
        assert daemon.stdout
        soak.base = (await daemon.stdout.readline()).decode().split()[0].rstrip("/")
        soak.pid = daemon.pid
        yield
        daemon.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(daemon.wait(), 60) == 0
    finally:
        if daemon.returncode is None:
            daemon.kill()


async def test_half_an_hour_at_full_speed(tmp_path: Path) -> None:
    config = tmp_path / "soak.toml"
    async with web_of() as web, aiohttp.ClientSession() as http:
        soak = Soak(web, http, config)
        soak.write(FAST_S)
        async with daemon_of(soak):
            urls = [f"http://h{n}.test:{web.port}/" for n in range(HOSTS)]
            assert (await soak.post("/api/seeds", {"urls": urls}))["added"] == HOSTS
            await asyncio.sleep(3)  # in which every host has its first contacts
            async with asyncio.TaskGroup() as group:
                for what in (soak.load, soak.reload, soak.steer, soak.pause):
                    group.create_task(what())
            hosts = await hosts_of(soak)
    assert not [host for host in hosts if host["breaches"]]
    assert all(host["peak_concurrency"] <= 1 for host in hosts)
    report(soak)
    third = len(soak.memory) // 3
    first = statistics.median(bytes_ for _, bytes_ in soak.memory[third : 2 * third])
    last = statistics.median(bytes_ for _, bytes_ in soak.memory[2 * third :])
    assert last <= first * (1 + GROWTH_MAX), (first, last)


async def hosts_of(soak: Soak) -> list[dict[str, Any]]:
    """All hosts, asked for page by page."""
    hosts: list[dict[str, Any]] = []
    after: str | None = ""
    while after is not None:
        said = await soak.get(f"/api/hosts?limit=200&after={after}")
        hosts += said["hosts"]
        after = said["after"]
    return hosts


def report(soak: Soak) -> None:
    third = soak.memory[len(soak.memory) // 3 :]
    slope, _ = statistics.linear_regression(*zip(*third, strict=True))
    memory = (
        f"memory: {third[0][1] / 1e6:.0f} MB after a third, {third[-1][1] / 1e6:.0f} MB at the end"
        f", {slope * 3600 / 1e6:+.1f} MB/h over the last two thirds"
    )
    lines = [f"{soak.pages:,} pages in {SOAK_S:,.0f} s; checked: {soak.checks}", memory]
    for path, took_s in sorted(soak.answers_s.items()):
        cuts = statistics.quantiles(took_s, n=100)
        lines.append(
            f"{path:16} {len(took_s):6,} answers, {1e3 * cuts[49]:6.1f} ms median, "
            f"{1e3 * cuts[98]:6.1f} ms p99"
        )
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
