"""`courtly crawl` as a process that loses its network, and one that may open few files: no URL
fails, none is left out, and no contact is early."""

from __future__ import annotations

import asyncio
import itertools
import json
import resource
import time
from collections import defaultdict
from pathlib import Path

import pytest

from tests.command_processes import start

DELAY_S = 0.1


class Web:
    """Hosts on one port of loopback whose server can disappear and return."""

    def __init__(self, *, pages: int, latency_s: float = 0.0) -> None:
        self.pages, self.latency_s = pages, latency_s
        self.port = 0
        self.contacts: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, reuse_address=True
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def go_away(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                began_s = time.monotonic()
                path = head.split(" ", 2)[1]
                host = head.lower().partition("host: ")[2].partition(":")[0]
                await asyncio.sleep(self.latency_s)
                status, body = "404 Not Found", ""
                if path != "/robots.txt":
                    status = "200 OK"
                    body = "".join(f'<a href="/{n}">{n}</a>' for n in range(self.pages))
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
                )
                await writer.drain()
                self.contacts[host].append((began_s, time.monotonic()))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def crawl(self, folder: Path, hosts: int, files: int | None = None) -> tuple[str, str]:
        """Run `courtly crawl --json` to its end and return its stdout and stderr."""
        config = folder / "crawl.toml"
        config.write_text(
            "[crawl]\npatience = 20\n"
            'user_agent = "testbot/1.0 (+https://a.test/bot)"\n'
            f"[politeness]\ndelay = {DELAY_S}\nlatency_factor = 0\n"
            f'[storage]\nurl = "sqlite:{folder / "crawl.db"}"\n'
            '[network]\nallow = ["127.0.0.0/8"]\nresolve = { "*.test" = "127.0.0.1" }\n'
        )

        def few_files() -> None:
            assert files is not None
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        seeds = [f"http://h{n}.test:{self.port}/0" for n in range(hosts)]
        limited = None if files is None else few_files
        process = await start(
            "crawl", "--json", "--config", str(config), *seeds, preexec_fn=limited
        )
        out, err = await asyncio.wait_for(process.communicate(), 50)
        assert process.returncode == 0, err.decode()
        return out.decode(), err.decode()

    def check_rests(self) -> None:
        for contacts in self.contacts.values():
            for (_, ended_s), (began_s, _) in itertools.pairwise(sorted(contacts)):
                assert began_s - ended_s >= DELAY_S - 0.005


@pytest.mark.parametrize("hosts", [2, 12])
async def test_servers_that_all_go_away_for_seconds_fail_nothing(
    tmp_path: Path, hosts: int
) -> None:
    web = Web(pages=30)
    await web.start()
    crawl = asyncio.create_task(web.crawl(tmp_path, hosts))
    async with asyncio.timeout(20):
        while sum(map(len, web.contacts.values())) < 8 * hosts:  # noqa: ASYNC110 - a server of its own
            await asyncio.sleep(0.02)
    await web.go_away()
    before = sum(map(len, web.contacts.values()))
    await asyncio.sleep(4)
    assert not crawl.done()
    await web.start()
    out, err = await crawl
    summary = json.loads(out)
    assert (summary["failed"], summary["queued"]) == (0, 0)
    assert summary["visited"] == 30 * hosts
    assert sum(map(len, web.contacts.values())) > before
    assert "HELD: network outage" in err
    web.check_rests()
    await web.go_away()


async def test_few_open_files_fail_nothing(tmp_path: Path) -> None:
    web = Web(pages=15, latency_s=0.1)
    await web.start()
    out, err = await web.crawl(tmp_path, 40, files=70)
    summary = json.loads(out)
    assert (summary["failed"], summary["queued"]) == (0, 0)
    assert summary["visited"] == 600
    assert "the limit of 70 open files" in err
    web.check_rests()
    await web.go_away()


def spin(for_s: float) -> float:
    """Return the processor time that a loop without a pause gets at the moment."""
    until_s, began_s = time.monotonic() + for_s, time.thread_time()
    while time.monotonic() < until_s:
        pass
    return time.thread_time() - began_s


async def test_a_daemon_out_of_files_serves_again_when_callers_are_gone(tmp_path: Path) -> None:
    """accept() without a free descriptor neither spins nor ends the daemon."""
    config = tmp_path / "run.toml"
    config.write_text(
        '[crawl]\nuser_agent = "testbot/1.0 (+https://a.test/bot)"\n'
        f'[storage]\nurl = "sqlite:{tmp_path / "crawl.db"}"\n'
        '[daemon]\nlisten = "127.0.0.1:0"\n'
    )
    process = await start(
        *("run", str(config)), stderr=asyncio.subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)),
    )  # fmt: skip
    assert process.stdout is not None
    try:
        first = (await asyncio.wait_for(process.stdout.readline(), 20)).decode()
        port = int(first.split("/")[2].partition(":")[2])

        def cpu_s() -> float:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / 100

        callers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(60)]
        before_s = cpu_s()
        spinning_s = await asyncio.to_thread(spin, 0.6)
        assert cpu_s() - before_s < spinning_s / 2
        for _, writer in callers:
            writer.close()
        await asyncio.sleep(1.2)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        assert b'"held":[]' in answer
    finally:
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 15) == 0
