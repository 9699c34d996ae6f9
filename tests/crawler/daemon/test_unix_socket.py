"""The socket beside a database: its owner, its permissions and its obstacles."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import stat
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from crawler import Crawler, PoliteSession
from crawler.daemon import control_client
from crawler.daemon.notify import Notify
from crawler.daemon.problem import Problem
from crawler.daemon.unix_socket import bind, serving_on_demand
from crawler.testing import LocalWeb
from storage.socket_path import PATH_BYTES_MAX, socket_path


def test_no_other_user_may_connect_from_the_first_moment(tmp_path: Path) -> None:
    made, place = bind(tmp_path / "crawl.db.sock")
    made.close()
    assert stat.S_IMODE(place.st_mode) == 0o600


def test_a_leftover_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "crawl.db.sock"
    first, place = bind(path)
    first.close()
    second, other = bind(path)
    second.close()
    assert place.st_ino != other.st_ino or place.st_ctime_ns != other.st_ctime_ns


def test_a_regular_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "crawl.db.sock"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(OSError, match="is not a socket"):
        bind(path)
    assert path.read_text(encoding="utf-8") == "mine"


def test_a_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ("x" * PATH_BYTES_MAX)
    with pytest.raises(OSError, match="longer than"):
        bind(path)


async def test_a_path_may_be_longer_than_a_socket_address(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30) / ("longer" * 20)
    folder.mkdir(parents=True)
    load = Asked()
    load.may_go_on.set()
    async with serving_on_demand(load, folder / "crawl.db", pytest.fail):
        assert await ask(folder / "crawl.db") == {"state": "running"}
    assert not list(folder.iterdir())


async def test_the_socket_is_beside_the_target_of_a_symbolic_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real" / "crawl.db", tmp_path / "other.db"
    real.parent.mkdir()
    link.symlink_to(real)
    load = Asked()
    load.may_go_on.set()
    async with serving_on_demand(load, link, pytest.fail):
        assert [one.name for one in real.parent.iterdir()] == ["crawl.db.sock"]
        for name in (link, real):
            assert await ask(name) == {"state": "running"}


async def test_the_socket_is_removed_with_the_crawl(start: Any, tmp_path: Path) -> None:
    path = socket_path(tmp_path / "crawl.db")
    async with start("a.test") as daemon:
        assert path.is_socket()
        assert (await daemon.local.get("/api/status")).body["state"]
        assert (await daemon.local.get("/healthz", headers={"Host": "any"})).status == 200
        page = await daemon.local.get("/", headers={"Accept": "text/html"})
        assert page.status == 200
        assert (await daemon.local.get("/metrics")).status == 200
    assert not path.exists()


class Asked:
    """An application, and how often it was loaded."""

    def __init__(self, *, loads: bool = True) -> None:
        self.times = 0
        self.begun, self.may_go_on = asyncio.Event(), asyncio.Event()
        self._loads = loads

    @contextlib.asynccontextmanager
    async def __call__(self) -> AsyncIterator[web.Application]:
        self.times += 1
        self.begun.set()
        await self.may_go_on.wait()
        if not self._loads:
            raise ImportError("half of it is gone")

        async def status(_request: web.Request) -> web.StreamResponse:
            return web.json_response({"state": "running"})

        app = web.Application()
        app.router.add_get("/api/status", status)
        yield app


def ask(database: Path) -> asyncio.Task[Mapping[str, object]]:
    return asyncio.create_task(
        asyncio.to_thread(control_client.ask, database, "GET", "/api/status")
    )


async def test_the_server_is_loaded_once_for_all_clients(tmp_path: Path) -> None:
    database, load = tmp_path / "crawl.db", Asked()
    async with serving_on_demand(load, database, pytest.fail):
        assert socket_path(database).is_socket()
        assert load.times == 0
        asking = [ask(database) for _ in range(20)]
        await load.begun.wait()
        assert not any(task.done() for task in asking)
        load.may_go_on.set()
        assert await asyncio.gather(*asking) == [{"state": "running"}] * 20
        assert await ask(database) == {"state": "running"}
    assert load.times == 1
    assert not socket_path(database).exists()


async def test_the_server_is_not_loaded_without_clients(tmp_path: Path) -> None:
    load = Asked()
    async with serving_on_demand(load, tmp_path / "crawl.db", pytest.fail):
        pass
    assert load.times == 0


async def test_a_server_that_cannot_be_loaded_does_not_end_the_crawl(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database, load = tmp_path / "crawl.db", Asked(loads=False)
    load.may_go_on.set()
    async with serving_on_demand(load, database, pytest.fail):
        for _ in range(2):
            with pytest.raises(control_client.NobodyAnswersError):
                await ask(database)
    assert load.times == 1
    assert "half of it is gone" in caplog.text


async def test_a_crawl_may_end_while_the_server_is_loaded(tmp_path: Path) -> None:
    database, load = tmp_path / "crawl.db", Asked()

    async def crawl() -> None:
        async with serving_on_demand(load, database, pytest.fail):
            await load.begun.wait()

    crawling = asyncio.create_task(crawl())
    await asyncio.sleep(0)
    asking = ask(database)
    await load.begun.wait()
    load.may_go_on.set()
    await crawling
    with contextlib.suppress(
        control_client.NobodyAnswersError
    ):  # who asks at that moment may be late
        assert await asking == {"state": "running"}
    assert not socket_path(database).exists()


async def test_embedded_objects_open_no_socket(town: LocalWeb, tmp_path: Path) -> None:
    database = tmp_path / "embedded.db"
    config = town.config(politeness={"delay": 0.01})
    async with Crawler([town.url("c.test")], config=config, db=database) as crawl:
        async for _ in crawl:
            assert not socket_path(database).exists()
    async with PoliteSession(config=config, db=database) as session:
        await session.get(town.url("c.test"))
        assert not socket_path(database).exists()


def test_a_client_without_a_crawl(tmp_path: Path) -> None:
    database = tmp_path / "crawl.db"
    with pytest.raises(control_client.NobodyAnswersError):
        control_client.ask(database, "GET", "/api/status")
    left, _ = bind(socket_path(database))
    left.close()
    with pytest.raises(control_client.NobodyAnswersError):
        control_client.ask(database, "GET", "/api/status")


async def test_a_client_of_a_crawl(daemon: Any) -> None:
    def asked(method: str, path: str, **more: Any) -> Any:
        return asyncio.to_thread(control_client.ask, daemon.database, method, path, **more)

    assert (await asked("GET", "/api/host", query={"host": "a.test"}))["host"] == "a.test"
    assert (await asked("POST", "/api/hosts/pause", body={"host": "a.test"}))["paused"]
    with pytest.raises(Problem, match=r"nobody\.test") as refused:
        await asked("POST", "/api/hosts/pause", body={"host": "nobody.test"})
    assert (refused.value.status, refused.value.field) == (404, "host")


@pytest.mark.skipif(sys.platform != "linux", reason="names without a file are Linux's")
def test_a_service_manager_may_have_an_abstract_name() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("")  # the system gives it a name
        name = manager.getsockname().decode()
        manager.settimeout(5)
        notify = Notify({"NOTIFY_SOCKET": f"@{name[1:]}", "WATCHDOG_USEC": "3000000"})
        notify.ready()
        assert manager.recv(100) == b"READY=1"
        notify.reloading()
        assert manager.recv(100).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
        assert notify.watchdog_s == 3.0


def test_without_a_service_manager_nothing_is_sent() -> None:
    for environment in ({}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "/nowhere/at/all"}):
        Notify(environment).ready()
    for wrong in ("x", "0", "-5", ""):
        assert Notify({"WATCHDOG_USEC": wrong}).watchdog_s is None
    assert Notify({"WATCHDOG_USEC": "5", "WATCHDOG_PID": "1"}).watchdog_s is None
