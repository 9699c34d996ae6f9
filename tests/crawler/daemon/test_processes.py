"""`courtly run` and the commands that steer it, as processes: signals, reloads, kills, logs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import stat
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from crawler.front_door.connections import CONNECTIONS_MAX
from crawler.testing import LocalWeb, Reply, html, text
from storage.socket_path import socket_path
from tests.command_processes import start

LIMIT_S = 20.0


def toml(sections: Mapping[str, Mapping[str, object]]) -> str:
    lines = []
    for section, keys in sections.items():
        lines.append(f"[{section}]")
        for key, value in keys.items():
            if isinstance(value, Mapping):
                inner = ", ".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in value.items())
                lines.append(f"{key} = {{ {inner} }}")
            else:
                lines.append(f"{key} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"


class Place:
    """A folder with a config and a database, and commands run in it."""

    def __init__(self, folder: Path, web: LocalWeb) -> None:
        self.folder = folder
        self.web = web
        self.config = folder / "courtly.toml"
        self.database = folder / "crawl.db"
        self.log = folder / "courtly.log"

    def write(self, **sections: Mapping[str, object]) -> None:
        given = self.web.config(
            politeness={"delay": 0.02, "latency_factor": 0},
            storage={"url": "sqlite:crawl.db"},
            daemon={"listen": "127.0.0.1:0", "log": "courtly.log"},
        )
        for name, keys in sections.items():
            given[name] = {**given.get(name, {}), **keys}
        self.config.write_text(toml(given), encoding="utf-8")

    async def spawn(self, *arguments: str, **environment: str) -> asyncio.subprocess.Process:
        return await start(*arguments, cwd=self.folder, env={**os.environ, **environment})

    async def courtly(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, standard output and error of a command."""
        process = await self.spawn(*arguments)
        async with asyncio.timeout(LIMIT_S):
            out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    def events(self) -> list[dict[str, Any]]:
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]

    def named(self, name: str) -> list[dict[str, Any]]:
        return [one for one in self.events() if one["event"] == name]

    async def event(self, name: str, count: int = 1) -> dict[str, Any]:
        """The count-th event of that name, once it is there."""
        async with asyncio.timeout(LIMIT_S):
            while len(found := self.named(name)) < count:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)
            return found[count - 1]

    @contextlib.asynccontextmanager
    async def running(self, **environment: str) -> AsyncIterator[Running]:
        process = await self.spawn("run", str(self.config), **environment)
        try:
            assert process.stdout is not None
            async with asyncio.timeout(LIMIT_S):
                line = (await process.stdout.readline()).decode()
            if not line:
                _, err = await process.communicate()
                raise AssertionError(err.decode())
            async with aiohttp.ClientSession() as session:
                yield Running(process, line.split()[0].rstrip("/"), session)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()


class Running:
    def __init__(
        self, process: asyncio.subprocess.Process, base: str, session: aiohttp.ClientSession
    ) -> None:
        self.process = process
        self.base = base
        self.session = session

    async def get(self, path: str) -> Any:
        async with self.session.get(self.base + path) as response:
            return await response.json()

    async def post(self, path: str, body: object = None) -> tuple[int, Any]:
        async with self.session.post(self.base + path, json=body or {}) as response:
            return response.status, await response.json(content_type=None)

    async def until(self, true: Callable[[Any], bool], path: str = "/api/status") -> Any:
        async with asyncio.timeout(LIMIT_S):
            while not true(found := await self.get(path)):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
            return found

    async def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        async with asyncio.timeout(LIMIT_S):
            return await self.process.wait()


@pytest.fixture
async def web() -> AsyncIterator[LocalWeb]:
    pages = {f"/{number}": html(str(number)) for number in range(30)}
    slow = {"/robots.txt": text(""), "/": Reply(delay_s=1.0), "/hang": Reply(delay_s=60.0)}
    home = html("Home", *pages, "/private")
    robots = text("User-agent: *\nDisallow: /private\n")
    async with LocalWeb(
        {"a.test": {"/robots.txt": robots, "/": home, **pages}, "slow.test": slow}
    ) as made:
        yield made


@pytest.fixture
def place(tmp_path: Path, web: LocalWeb) -> Place:
    made = Place(tmp_path, web)
    made.write()
    return made


async def test_it_starts_without_a_seed_takes_seeds_and_stops_cleanly(
    place: Place, web: LocalWeb
) -> None:
    async with place.running() as daemon:
        assert (await daemon.until(lambda s: s["state"] == "idle"))["visited"] == 0
        assert await daemon.post("/api/seeds", {"urls": [web.url("a.test")]}) == (
            200, {"added": 1, "known": 0, "refused": [], "dry_run": False},
        )  # fmt: skip
        await daemon.until(lambda s: s["visited"] == 31 and s["state"] == "idle")
        assert await daemon.end() == 0
    started, *outcomes, _stopping, stopped = place.events()
    assert (started["event"], stopped["event"], stopped["clean"]) == ("started", "stopped", True)
    (steered,) = place.named("steered")
    assert (steered["what"], steered["added"]) == ("seeds", 1)
    names = [one["event"] for one in outcomes]
    assert names.count("visited") == 31
    (blocked,) = [one for one in outcomes if one["event"] == "blocked"]
    assert (blocked["rule"], blocked["line"], blocked["level"]) == ("Disallow: /private", 2, "info")
    assert not socket_path(place.database).exists()
    assert not list(place.folder.glob("*.lock"))


async def test_it_never_connects_to_its_own_page(place: Place, web: LocalWeb) -> None:
    """Not under any spelling, although all loopback addresses are permitted; other
    ports are crawled."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    hosts = ("127.0.0.1", "localhost", "own.test", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]")
    own = [f"http://{host}:{port}/" for host in hosts]
    place.write(
        daemon={"listen": f"127.0.0.1:{port}"},
        network={"allow": ["127.0.0.0/8", "::ffff:127.0.0.0/104"]},
        crawl={"seeds": [*own, web.url("a.test", "/1")]},
    )
    async with place.running() as daemon:
        await daemon.until(lambda s: s["visited"] == 1 and s["state"] == "idle")
        assert await daemon.end() == 0
    gave_up = place.named("gave_up")
    assert len(gave_up) == 4  # three of the names are one
    for one in gave_up:
        assert one["error"].startswith("address: "), one
        assert one["error"].endswith("is an address on which this crawler itself listens"), one
    code, out, _ = await place.courtly("why", own[1], "--config", str(place.config))
    assert (code, "itself listens" in out) == (0, True), out


async def test_without_a_file_standard_error_is_the_log(place: Place, web: LocalWeb) -> None:
    """Standard error consists of JSON lines only."""
    place.write(daemon={"log": ""}, crawl={"user_agent": "bot (+https://example.com/bot)"})
    async with place.running() as daemon:
        await daemon.post("/api/seeds", {"urls": [web.url("a.test", "/1")]})
        await daemon.until(lambda s: s["visited"] == 1)
        assert daemon.process.stderr is not None
        daemon.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(LIMIT_S):
            lines = (await daemon.process.stderr.read()).decode().splitlines()
    events = [json.loads(line) for line in lines]
    assert [one["event"] for one in events][:2] == ["started", "warning"]
    assert "product token" in events[1]["message"] or "bot" in events[1]["message"]
    assert [one["event"] for one in events][-1] == "stopped"


async def test_sigterm_waits_for_requests_in_flight(place: Place, web: LocalWeb) -> None:
    place.write(crawl={"seeds": [web.url("slow.test")]})
    async with place.running() as daemon:
        await daemon.until(
            lambda s: any(
                "slow" in one["url"] and one["url"].endswith("/") for one in s["fetching"]
            )
        )
        assert await daemon.end() == 0
    assert [one["url"] for one in place.events() if one["event"] == "visited"] == [
        web.url("slow.test")
    ]


async def test_a_second_signal_exits_immediately(place: Place, web: LocalWeb) -> None:
    place.write(crawl={"seeds": [web.url("slow.test", "/hang")]})
    async with place.running() as daemon:
        await daemon.until(lambda s: any(one["url"].endswith("hang") for one in s["fetching"]))
        daemon.process.send_signal(signal.SIGTERM)
        assert (await daemon.until(lambda s: s["state"] == "stopping"))["in_flight"] == 1
        assert await daemon.end() == 130


async def test_a_closed_standard_output_does_not_end_it(place: Place) -> None:
    """A closed standard output does not end the daemon."""
    async with place.running() as daemon:
        transport = daemon.process._transport  # type: ignore[attr-defined]
        for number in (1, 2):
            transport.get_pipe_transport(number).close()
        assert await daemon.end() == 0


async def test_sighup_reloads_and_a_bad_file_changes_nothing(place: Place, web: LocalWeb) -> None:
    async with place.running() as daemon:
        place.write(politeness={"delay": 3})
        daemon.process.send_signal(signal.SIGHUP)
        reloaded = await place.event("reloaded")
        assert any("delay" in change for change in reloaded["changes"])
        place.config.write_text("[politeness]\ndelay = -1\n")
        daemon.process.send_signal(signal.SIGHUP)
        refused = await place.event("reload_refused")
        assert "courtly.toml:2: politeness.delay" in refused["problems"][0]
        settings = {one["key"]: one for one in (await daemon.get("/api/config"))["settings"]}
        assert settings["politeness.delay"]["value"] == 3
        status, problem = await daemon.post("/api/reload")
        assert status == 422
        assert str(place.folder) not in json.dumps(problem)
        place.write(politeness={"delay": 4})
        assert (await daemon.post("/api/reload?dry_run="))[0] == 422  # yes, or no?
        status, dry = await daemon.post("/api/reload?dry_run=1")
        assert (status, dry["dry_run"]) == (200, True)
        assert dry["changes"]
        settings = {one["key"]: one for one in (await daemon.get("/api/config"))["settings"]}
        assert settings["politeness.delay"]["value"] == 3
        assert await daemon.end() == 0


@pytest.mark.parametrize("where", ["config", "seeds", "ca_file", "credentials", "number"])
async def test_a_reload_never_blocks_or_ends_the_crawl(
    place: Place, web: LocalWeb, where: str
) -> None:
    """For example a FIFO without a writer, or a number that Python cannot parse."""
    async with place.running() as daemon:
        origin, fifo = web.url("a.test").rstrip("/"), place.folder / "fifo"
        os.mkfifo(fifo)
        match where:
            case "config":
                place.config.unlink()
                fifo.rename(place.config)
            case "seeds":
                place.write(crawl={"seeds": [f"@{fifo}"]})
            case "ca_file":
                place.write(fetch={"ca_file": str(fifo)})
            case "credentials":
                place.write(fetch={"credentials": {origin: f"file:{fifo}"}})
            case "number":
                place.config.write_text(f"[fetch]\ntimeout = {'9' * 5_000}\n")
        daemon.process.send_signal(signal.SIGHUP)
        (problem,) = (await place.event("reload_refused"))["problems"]
        assert ("cannot be read again" if where != "number" else "is not TOML") in problem
        assert (await daemon.get("/api/status"))["state"]
        place.config.unlink()
        place.write(politeness={"delay": 3})
        daemon.process.send_signal(signal.SIGHUP)
        await place.event("reloaded")
        assert await daemon.end() == 0


async def test_kill_9_keeps_hosts_pauses_and_contacts(place: Place, web: LocalWeb) -> None:
    place.write(crawl={"seeds": [web.url("a.test")]})
    async with place.running() as daemon:
        await daemon.until(lambda s: s["visited"] >= 5)
        await daemon.post("/api/hosts/slow", {"host": "a.test", "delay_s": 9})
        await daemon.post("/api/hosts/pause", {"host": "a.test"})
        before = await daemon.until(lambda h: h["now"]["in_flight"] == 0, "/api/host?host=a.test")
        await asyncio.sleep(0.3)  # for the commit of the last contact
        before = await daemon.get("/api/host?host=a.test")
        daemon.process.kill()
        await daemon.process.wait()
    assert socket_path(place.database).exists()  # it was left behind
    async with place.running() as daemon:
        after = await daemon.get("/api/host?host=a.test")
        for key in ("paused", "slow_s", "visited", "queued", "recent_contacts"):
            assert after[key] == before[key], key
        assert "paused by an operator" in after["wait_reason"]
        assert await daemon.end() == 0


@pytest.mark.usefixtures("fresh_interpreter")
async def test_the_commands_steer_a_daemon(place: Place, web: LocalWeb) -> None:
    async with place.running() as daemon:
        code, out, _ = await place.courtly("seeds", "add", web.url("a.test"), "--priority", "2")
        assert (code, out) == (0, "1 new seed queued\n")
        await daemon.until(lambda s: s["visited"] == 31)
        assert (await place.courtly("host", "pause", "A.test:80"))[0] == 0
        assert (await daemon.get("/api/host?host=a.test"))["paused"]
        assert (await place.courtly("host", "slow", "a.test", "--delay", "1m"))[0] == 0
        assert (await daemon.get("/api/host?host=a.test"))["slow_s"] == 60
        code, out, _ = await place.courtly("why", "a.test")
        assert code == 0
        assert "in the crawl that runs now" in out or "paused by an operator" in out
        assert (await place.courtly("host", "resume", "a.test"))[0] == 0
        host = await daemon.get("/api/host?host=a.test")
        assert (host["paused"], host["slow_s"]) == (False, None)
        code, out, _ = await place.courtly("status", "--json")
        assert (code, json.loads(out)["visited"]) == (0, 31)
        code, out, _ = await place.courtly("status", "--config", "courtly.toml")
        assert "31 visited" in out
        code, _, err = await place.courtly("host", "pause", "nobody.test")
        assert code == 2
        assert "nobody.test" in err


async def test_the_commands_work_without_a_running_crawl(place: Place, web: LocalWeb) -> None:
    code, out, _ = await place.courtly("seeds", "add", web.url("a.test"))
    assert (code, out) == (0, "1 new seed queued\n")
    assert (await place.courtly("host", "pause", "a.test"))[0] == 0
    code, out, _ = await place.courtly("show", "hosts", "--format", "jsonl")
    assert json.loads(out)["paused"] == 1
    assert (await place.courtly("host", "slow", "a.test", "--delay", "2.5"))[0] == 0
    assert (await place.courtly("host", "resume", "a.test"))[0] == 0
    code, out, _ = await place.courtly("show", "hosts", "--format", "jsonl")
    row = json.loads(out)
    assert (row["paused"], row["slow_s"]) == (0, None)
    code, out, _ = await place.courtly("status", "--json")
    assert (json.loads(out)["state"], json.loads(out)["queued"]) == ("stopped", 1)
    code, out, _ = await place.courtly("status")
    assert "no crawl is running" in out


async def test_wrong_commands_are_refused_without_a_running_crawl(
    place: Place, web: LocalWeb
) -> None:
    assert (await place.courtly("seeds", "add", web.url("a.test")))[0] == 0
    for wrong in (
        ("host", "pause", "nobody.test"),
        ("host", "slow", "a.test", "--delay", "-1"),
        ("host", "slow", "a.test", "--delay", "nan"),
        ("host", "slow", "a.test"),
        ("host", "pause", "a/b"),
        ("seeds", "add", "a.test"),
        ("seeds", "add"),
        ("status", "--db", "nowhere.db"),
    ):
        code, out, err = await place.courtly(*wrong)
        assert (code, out) == (2, ""), wrong
        assert err, wrong


async def test_a_plain_crawl_listens_on_its_socket(place: Place, web: LocalWeb) -> None:
    process = await place.spawn(
        "crawl", web.url("slow.test"), web.url("slow.test", "/hang"), "--config", "courtly.toml"
    )  # fmt: skip
    assert process.stderr is not None
    try:
        async with asyncio.timeout(LIMIT_S):
            while not socket_path(place.database).exists():  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
            while "running, up for" not in (await place.courtly("status"))[1]:
                pass
        assert stat.S_IMODE(socket_path(place.database).stat().st_mode) == 0o600
        assert (await place.courtly("host", "pause", "slow.test"))[0] == 0
    finally:
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(LIMIT_S):  # two at the same time would be one
            while b"finishing" not in (line := await process.stderr.readline()) and line:
                pass
        process.send_signal(signal.SIGINT)
        await process.communicate()
    assert not socket_path(place.database).exists()


async def test_a_name_too_long_for_a_socket_is_a_warning(place: Place, web: LocalWeb) -> None:
    place.write(storage={"url": f"sqlite:{'x' * 100}.db"})
    async with place.running() as daemon:
        warning = await place.event("warning")
        assert "longer than" in warning["message"]
        assert await daemon.end(signal.SIGINT) == 0


async def test_connections_exhaust_neither_files_nor_the_room_for_the_operator(
    place: Place,
) -> None:
    async with place.running() as daemon:
        port = int(daemon.base.rpartition(":")[2])
        opened = [
            await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS_MAX + 50)
        ]
        await daemon.until(lambda s: s["state"] == "idle")
        held = len(os.listdir(f"/proc/{daemon.process.pid}/fd"))  # noqa: PTH208
        assert held < CONNECTIONS_MAX + 60
        assert await opened[0][0].read() == b""  # the oldest was hung up on
        for _, one in opened:
            one.close()
        assert await daemon.end() == 0


async def test_an_address_in_use_is_reported(place: Place) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place.write(daemon={"listen": f"127.0.0.1:{taken.getsockname()[1]}"})
        code, _, err = await place.courtly("run", "courtly.toml")
    assert code == 1
    assert "cannot listen on 127.0.0.1:" in err
    assert "address already in use" in err
    assert "internal error" not in err
    assert "Traceback" not in err


async def test_a_signal_during_the_start_ends_it_cleanly(place: Place) -> None:
    slow = place.folder / "slow.toml"  # reading it takes until somebody writes
    os.mkfifo(slow)
    process = await place.spawn("run", str(slow))
    async with asyncio.timeout(LIMIT_S):
        writer = await asyncio.to_thread(os.open, slow, os.O_WRONLY)  # waits for the reader
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        _, err = await process.communicate()
    os.close(writer)
    assert process.returncode == 0, err.decode()


async def test_a_database_in_use_is_reported(place: Place) -> None:
    async with place.running():
        code, _, err = await place.courtly("run", "courtly.toml")
        assert code == 2
        assert "in use by process" in err


async def test_beyond_loopback_a_token_is_required(place: Place) -> None:
    for listen in ("0.0.0.0:0", "[::]:0", "192.0.2.1:0"):
        place.write(daemon={"listen": listen, "token": "changeme"})
        code, _, err = await place.courtly("run", "courtly.toml")
        assert code == 2
        assert "daemon.token: the token “default” is shorter than 16 characters" in err


async def test_errors_at_start_are_reported(place: Place, web: LocalWeb) -> None:
    for sections, said in (
        ({"daemon": {"log": "nowhere/x.log"}}, "daemon.log"),
        ({"daemon": {"log_level": "loud"}}, "daemon.log_level"),
        ({"crawl": {"seeds": ["http://example.com/"]}}, "--user-agent"),
    ):
        place.write(**sections)
        code, _, err = await place.courtly("run", "courtly.toml")
        assert (code, said in err) == (2, True), err
        assert "Traceback" not in err
    code, _, err = await place.courtly("run", "nowhere.toml")
    assert (code, "there is no such file" in err) == (2, True)


async def test_logs_can_be_rotated(place: Place, web: LocalWeb) -> None:
    async with place.running() as daemon:
        await place.event("started")
        moved = place.folder / "courtly.log.1"
        place.log.rename(moved)
        await daemon.post("/api/seeds", {"urls": [web.url("a.test", "/1")]})
        await place.event("visited")
        assert "visited" not in moved.read_text()
        place.log.unlink()
        daemon.process.send_signal(signal.SIGHUP)
        await place.event("reloaded")
        assert await daemon.end() == 0


async def test_the_service_manager_is_notified(place: Place, web: LocalWeb) -> None:
    name = str(place.folder / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name)
        manager.setblocking(False)
        loop = asyncio.get_running_loop()

        async def told(wanted: str) -> None:
            async with asyncio.timeout(LIMIT_S):
                while wanted not in (await loop.sock_recv(manager, 4096)).decode().split("\n"):
                    pass

        async with place.running(NOTIFY_SOCKET=name, WATCHDOG_USEC="400000") as daemon:
            await told("READY=1")
            await told("WATCHDOG=1")
            await told("WATCHDOG=1")
            daemon.process.send_signal(signal.SIGHUP)
            await told("RELOADING=1")
            await told("READY=1")
            daemon.process.send_signal(signal.SIGTERM)
            await told("STOPPING=1")
            async with asyncio.timeout(LIMIT_S):
                assert await daemon.process.wait() == 0


LOOK = """
    import sqlite3, sys
    db = sqlite3.connect(sys.argv[1])
    print(db.execute("SELECT count(*) FROM visited").fetchone()[0])
    db.close()
"""


async def test_a_kill_loses_no_page_that_another_program_had_seen(
    place: Place, web: LocalWeb
) -> None:
    """Programs that open the database and close it again leave the write-ahead log in its place."""
    pages = {f"/{n}": html(str(n)) for n in range(400)}
    web.sites["b.test"] = {"/": html("B", *pages), **pages}
    place.write(crawl={"seeds": [web.url("b.test")]})

    async def visited() -> int:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", textwrap.dedent(LOOK), str(place.database)),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        return int(out)

    async with place.running() as daemon:
        seen = now = 0
        async with asyncio.timeout(LIMIT_S):
            while seen < 40:
                await asyncio.sleep(0.1)
                before, seen = seen, await visited()
                assert seen >= before
            assert (await place.courtly("show", "visited", "--db", str(place.database)))[0] == 0
            while now < seen + 20:
                await asyncio.sleep(0.1)
                now = await visited()
        daemon.process.kill()
        await daemon.process.wait()
    assert await visited() >= now


async def test_no_request_leaves_a_token_in_the_log(place: Place) -> None:
    token = "hunter2-correct-horse"
    place.write(daemon={"token": token, "log_level": "debug"})
    async with place.running() as daemon:
        port = int(daemon.base.rpartition(":")[2])
        bearer = f"Authorization: Bearer {token}"
        here = f"Host: 127.0.0.1:{port}"
        for asked in (
            f"GET / HTTP/1.1\r\n{here}\r\n{bearer}\0\r\n\r\n",
            f"GET / HTTP/1.1\r\n{here}\r\n{bearer} \x01\r\n\r\n",
            f"GET / HTTP/1.1\r\n{here}\r\n {bearer}\r\n\r\n",
            f"GET / HTTP/1.1\r\n{here}\r\n{bearer}\r\nContent-Length: x\r\n\r\n",
            f"GET / HTTP/1.1\r\n{here}\r\n{bearer}\r\nTransfer-Encoding: {token}\r\n\r\n",
            f"GET /?token={token} HTTP/9.9\r\n{here}\r\n\r\n",
            f"GET /?token={token} x HTTP/1.1\r\n{here}\r\n\r\n",
            f"{token} / HTTP/1.1\r\n{here}\r\n\r\n",
            f"GET /api/status?token={token} HTTP/1.1\r\n{here}\r\n\r\n",
            f"GET /api/status HTTP/1.1\r\n{here}\r\nCookie: {token}\r\n{token}\r\n\r\n",
            f"GET /api/status HTTP/1.1\r\n{here}\r\n{bearer}{'x' * 9_000}\r\n\r\n",
            f"GET /{token}{'x' * 9_000} HTTP/1.1\r\n{here}\r\n\r\n",
            (
                f"POST /api/seeds HTTP/1.1\r\n{here}\r\n{bearer}\r\nContent-Encoding: gzip\r\n"
                f"Content-Length: 4\r\n\r\n{token[:4]}"
            ),
            (
                f"POST /login HTTP/1.1\r\n{here}\r\n"
                "Content-Type: application/x-www-form-urlencoded\r\n"
                f"Content-Length: {len(token) + 9}\r\n\r\ntoken=%zz{token}"
            ),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(asked.encode("latin-1"))
            with contextlib.suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(0.3):
                    await reader.read()
            writer.close()
        assert await daemon.end() == 0
    assert "hunter2" not in place.log.read_text()
    assert {one["path"] for one in place.named("unauthorized")} >= {"/login"}


@pytest.mark.parametrize("ending", ["", "-wal", ".lock"])
async def test_a_file_of_the_database_that_vanishes_stops_the_crawl(
    place: Place, web: LocalWeb, ending: str
) -> None:
    pages = {f"/{n}": html(str(n)) for n in range(400)}
    web.sites["b.test"] = {"/": html("B", *pages), **pages}
    place.write(crawl={"seeds": [web.url("b.test")]})
    victim = place.database.with_name(place.database.name + ending)
    async with place.running() as daemon:
        await daemon.until(lambda s: s["visited"] >= 5)
        victim.unlink()
        async with asyncio.timeout(LIMIT_S):
            _, err = await daemon.process.communicate()
        assert daemon.process.returncode == 1
        assert f"{victim} was" in err.decode() + place.log.read_text(encoding="utf-8")
