"""Other programs that send requests through the process of a crawl, as the documents describe."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crawler.embedding.session import PoliteSession
from crawler.errors import RobotsDisallowed, SessionClosed
from crawler.testing import LocalWeb, html, text
from tests.command_processes import running

DOCS = Path(__file__).parents[3] / "docs" / "daemon.md"
LIMIT_S = 20.0
COMPILE_S = 100.0  # Go compiles its library the first time
CONFIG = """
[crawl]
user_agent = "testbot/1.0"

[politeness]
delay = 0.3
latency_factor = 0

[network]
allow = ["127.0.0.0/8"]
resolve = { "*" = "127.0.0.1" }

[storage]
url = "sqlite:crawl.db"

[daemon]
listen = "127.0.0.1:0"
log = "courtly.log"
"""


@pytest.fixture
async def web() -> AsyncIterator[LocalWeb]:
    robots = text("User-agent: *\nDisallow: /private/")
    pages = {"/robots.txt": robots, "/": html("Home"), "/data": html("Data")}
    async with LocalWeb({"a.test": pages}) as web:
        yield web


@contextlib.asynccontextmanager
async def daemon(folder: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """`courtly run`, and its address."""
    config = folder / "courtly.toml"
    config.write_text(CONFIG, encoding="utf-8")
    async with running("run", str(config), cwd=folder) as process:
        assert process.stdout is not None
        async with asyncio.timeout(LIMIT_S):
            line = (await process.stdout.readline()).decode()
        assert line, (await process.communicate())[1].decode()
        yield process, line.split()[0].rstrip("/")


def example(language: str, base: str, page: str) -> str:
    """The example of `docs/daemon.md`, with a daemon and a page of this test."""
    section = DOCS.read_text(encoding="utf-8").split("## Requests of other programs")[1]
    found = re.search(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert found is not None
    code = found[1].replace("http://127.0.0.1:8710", base).replace("https://example.com/", page)
    assert len(code.splitlines()) <= 13
    return code


async def output_of(folder: Path, *command: str, limit_s: float = LIMIT_S) -> str:
    if shutil.which(command[0]) is None and "CI" not in os.environ:
        pytest.skip(f"there is no {command[0]}")
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(limit_s):
            out, _ = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    assert process.returncode == 0, out.decode()
    return out.decode()


async def test_the_example_for_curl(web: LocalWeb, tmp_path: Path) -> None:
    async with daemon(tmp_path) as (_, base):
        code = example("sh", base, web.url("a.test"))
        # The client of the permit connects by itself, so it has to be told the address.
        code = code.replace("-o data.html", f"--resolve a.test:{web.port}:127.0.0.1 -o data.html")
        out = await output_of(tmp_path, "bash", "-euc", f"{code}\ntest -n $permit")
    assert '"status":200' in out
    assert "<h1>Home</h1>" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h1>Data</h1>" in (tmp_path / "data.html").read_text(encoding="utf-8")
    assert web.log.paths() == ["/robots.txt", "/", "/data"]
    assert min(web.log.gaps()) >= 0.29


async def test_the_example_for_node(web: LocalWeb, tmp_path: Path) -> None:
    (tmp_path / "page.mjs").write_text("", encoding="utf-8")
    async with daemon(tmp_path) as (_, base):
        code = example("js", base, web.url("a.test"))
        (tmp_path / "page.mjs").write_text(code, encoding="utf-8")
        out = await output_of(tmp_path, "node", "page.mjs")
        status, url, _, size = out.split()
        assert (status, url, int(size) > 50) == ("200", web.url("a.test"), True)
        code = example("js", base, web.url("a.test", "/private/"))
        (tmp_path / "page.mjs").write_text(f"try {{{code}}} catch (e) {{console.log(e.message)}}")
        assert "Disallowed by line 2" in await output_of(tmp_path, "node", "page.mjs")


@pytest.mark.soak
async def test_the_example_for_go(web: LocalWeb, tmp_path: Path) -> None:
    async with daemon(tmp_path) as (_, base):
        code = example("go", base, web.url("a.test"))
        (tmp_path / "page.go").write_text(code, encoding="utf-8")
        out = await output_of(tmp_path, "go", "run", "page.go", limit_s=COMPILE_S)
    status, _, rest = out.strip().partition(" ")
    described, _, size = rest.rpartition(" ")
    assert status == "200"
    assert json.loads(described)["status"] == 200
    assert int(size) > 50


async def test_a_session_survives_the_kill_of_the_process(web: LocalWeb, tmp_path: Path) -> None:
    database = tmp_path / "crawl.db"
    async with daemon(tmp_path) as (process, _):
        session = await PoliteSession(via=database).open()
        assert (await session.get(web.url("a.test"))).status == 200
        with pytest.raises(RobotsDisallowed):
            await session.get(web.url("a.test", "/private/x"))
        process.kill()
        await process.wait()
        with pytest.raises(SessionClosed, match="cannot be reached"):
            await session.get(web.url("a.test", "/data"))
        await session.aclose()
    config = web.config(politeness={"delay": 0.3, "latency_factor": 0})
    async with PoliteSession(via=database, config=config) as again:
        assert (await again.get(web.url("a.test", "/data"))).status == 200
    assert web.log.paths() == ["/robots.txt", "/", "/data"]
    assert min(web.log.gaps()) >= 0.29


async def test_a_daemon_that_is_stopped_refuses_who_waits(web: LocalWeb, tmp_path: Path) -> None:
    async with daemon(tmp_path) as (process, base), PoliteSession(via=base) as session:
        async with session.permit(web.url("a.test")) as permit:
            waiting = asyncio.create_task(session.get(web.url("a.test")))
            await asyncio.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            with pytest.raises(SessionClosed):
                await waiting
            permit.record(200)
        async with asyncio.timeout(LIMIT_S):
            assert await process.wait() == 0
    assert web.log.paths() == ["/robots.txt"]
