"""Four journeys of a value through this program, counted with a profile hook.

    python traced_journeys.py FOLDER

A page of a crawl, from the page before it until its own links are queued (`page`); `courtly why
URL` (`why`); `POST /api/hosts/slow` to a service, up to the answer (`slow`); and a warm
`PoliteSession.get` (`get`). Prints a JSON object: for each, the own files and functions that it
passes, its calls, how often the file changes from one call to the next, and the calls by file. The
shortest of some rounds counts, because timers of a service may come between. The web, and the
client of the service, run in another thread, which is not traced.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import json
import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from queue import SimpleQueue
from types import CodeType, FrameType
from typing import Any, Final

import aiohttp

import crawler.cli
from crawler import Crawler, PoliteSession
from crawler.testing import LocalWeb, html, text

ROOT: Final = Path(crawler.cli.__file__).parents[2]
OURS: Final = tuple(f"{ROOT / name}{os.sep}" for name in ("crawler", "policies", "storage"))
ROUNDS: Final = 10
PATIENCE_S: Final = 30.0

Round = list[CodeType]
passed: Round = []


def note(frame: FrameType, event: str, _: object) -> None:
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(OURS) and code.co_name != "<module>":
        passed.append(code)


def taken() -> Round:
    """What was passed since the last call."""
    global passed
    before, passed = passed, []
    return before


def counted(rounds: list[Round]) -> dict[str, Any]:
    codes = min(rounds, key=len)
    files = [os.path.relpath(code.co_filename, ROOT) for code in codes]
    return {
        "files": len(set(files)),
        "functions": len(set(codes)),
        "calls": len(codes),
        "changes": sum(one != other for one, other in itertools.pairwise(files)),
        "by_file": dict(Counter(files).most_common()),
    }


class Beside:
    """A thread with the web, and with the client of the service."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._opened: SimpleQueue[LocalWeb] = SimpleQueue()
        self._ends = threading.Event()
        self.rounds: list[Round] = []
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        self.web = self._opened.get(timeout=PATIENCE_S)

    async def _run(self) -> None:
        """A host of a chain of pages, each with ten links, of which one leads to a new page."""
        known = [f"/{n}" for n in range(9)]
        pages = {f"/{n}": html(f"Page {n}", *known, f"/{n + 1}") for n in range(3 * ROUNDS)}
        async with LocalWeb({"a.test": {**pages, "/robots.txt": text("")}}) as web:
            self._opened.put(web)
            while not self._ends.is_set():
                await asyncio.sleep(0.01)
                if self._socket.exists() and not self.rounds:
                    try:
                        await self._slow()
                    finally:
                        os.kill(os.getpid(), signal.SIGTERM)

    async def _slow(self) -> None:
        connector = aiohttp.UnixConnector(str(self._socket))
        async with aiohttp.ClientSession("http://localhost", connector=connector) as session:
            async with asyncio.timeout(PATIENCE_S):
                while not await self._idle(session):  # noqa: ASYNC110 - it says nothing
                    await asyncio.sleep(0.1)
            for n in range(ROUNDS):
                order = {"hosts": ["a.test"], "delay_s": n + 1}
                taken()
                async with session.post("/api/hosts/slow", json=order) as answer:
                    assert answer.status == 200, await answer.text()
                self.rounds.append(taken())

    async def _idle(self, session: aiohttp.ClientSession) -> bool:
        try:
            async with session.get("/api/status") as answer:
                return bool((await answer.json())["state"] == "idle")
        except aiohttp.ClientConnectorError:  # it does not listen yet
            return False

    def end(self) -> None:
        self._ends.set()
        self._thread.join(PATIENCE_S)


async def pages(url: str, config: dict[str, Any]) -> list[Round]:
    async with Crawler([url], config=config) as crawl:
        rounds = [taken() async for _ in crawl]
    return rounds[ROUNDS : 2 * ROUNDS]


async def gets(urls: list[str], config: dict[str, Any]) -> list[Round]:
    rounds = []
    async with PoliteSession(config=config) as session:
        for url in urls:
            taken()
            await session.get(url)
            rounds.append(taken())
    return rounds[1:]


def commanded(*arguments: object) -> Round:
    with contextlib.redirect_stdout(io.StringIO()):
        taken()
        with contextlib.suppress(SystemExit):
            crawler.cli.main(list(map(str, arguments)))
        return taken()


def journeys(folder: Path, beside: Beside) -> dict[str, list[Round]]:
    web, file = beside.web, folder / "crawl.toml"
    url = web.url("a.test", "/0")
    config = web.config(politeness={"delay": 0, "latency_factor": 0}, scope={"sitemap_paths": []})
    file.write_text(
        f"""
        [crawl]
        seeds = ["{url}"]
        [politeness]
        delay = 0
        [network]
        allow = ["127.0.0.0/8"]
        resolve = {{ "*.test" = "127.0.0.1" }}
        [storage]
        url = "sqlite:{folder / "crawl.db"}"
        [daemon]
        listen = "unix:{folder / "api.sock"}"
        """
    )
    fetched = asyncio.run(pages(url, config))
    got = asyncio.run(gets([web.url("a.test", f"/{n}") for n in range(8)], config))
    commanded("run", file)
    explained = [commanded("why", url, "--config", file) for _ in range(3)]
    return {"page": fetched, "get": got, "slow": beside.rounds, "why": explained}


def main(folder: Path) -> None:
    beside = Beside(folder / "api.sock")
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        made = journeys(folder, beside)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        beside.end()
    print(json.dumps({name: counted(rounds) for name, rounds in made.items()}))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
