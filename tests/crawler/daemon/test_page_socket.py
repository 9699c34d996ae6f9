"""The page on a Unix socket: its permissions, its obstacles, and who is behind it."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict

from crawler.config import ConfigError, from_dict
from crawler.daemon.http.guards import Guards, HttpSettings
from crawler.daemon.unix_socket import bind_page, remove
from crawler.testing import JumpClock, LocalWeb
from tests.crawler.daemon.test_processes import Place

TOKEN = "kQ7vX2mZp9Rt4LsW8eYb"


@pytest.fixture
def place(tmp_path: Path, town: LocalWeb) -> Place:
    return Place(tmp_path, town)


def test_its_mode_admits_a_group(tmp_path: Path) -> None:
    path = tmp_path / "page.sock"
    made, file = bind_page(path, 0o660, str(os.getgid()))
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert path.stat().st_gid == os.getgid()
    made.close()
    remove(path, file)
    assert not path.exists()


def test_a_group_by_name(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="there is no group nobody-has-this-name"):
        bind_page(tmp_path / "page.sock", 0o660, "nobody-has-this-name")
    assert list(tmp_path.iterdir()) == []


def test_a_group_that_the_user_is_not_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refused)
    with pytest.raises(OSError, match=r"group 64999 .* a member: operation not permitted"):
        bind_page(tmp_path / "page.sock", 0o660, "64999")
    assert list(tmp_path.iterdir()) == []
    made, _ = bind_page(tmp_path / "page.sock", 0o660, str(tmp_path.stat().st_gid))
    made.close()  # it has that group already


def test_a_socket_in_use_is_not_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "page.sock"
    made, _ = bind_page(path, 0o600, "")
    made.listen(1)
    with pytest.raises(OSError, match="another process listens there"):
        bind_page(path, 0o600, "")
    made.close()
    again, _ = bind_page(path, 0o600, "")  # a leftover
    again.close()


def test_anything_but_a_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "page.sock"
    path.write_text("mine", "utf-8")
    with pytest.raises(OSError, match="not a socket"):
        bind_page(path, 0o600, "")
    assert path.read_text("utf-8") == "mine"
    with pytest.raises(FileNotFoundError):
        bind_page(tmp_path / "none" / "page.sock", 0o600, "")


def test_a_folder_of_everybody_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match="every user may write"):
        bind_page(tmp_path / "page.sock", 0o600, "")


@pytest.mark.parametrize(
    ("daemon", "words"),
    [
        ({"listen": "unix:"}, "must have a path"),
        ({"listen": "unix:page.sock", "listen_mode": "0770"}, "daemon.listen_mode"),
        ({"listen": "unix:page.sock", "listen_mode": "rw"}, "daemon.listen_mode"),
    ],
)
def test_settings_that_make_no_sense(daemon: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        from_dict({"daemon": daemon})


def test_a_path_begins_at_the_config(tmp_path: Path) -> None:
    config = from_dict({"daemon": {"listen": "unix:page.sock"}}, base=tmp_path)
    assert config.daemon.unix_path == tmp_path / "page.sock"
    assert not config.daemon.is_beyond_loopback


def test_a_proxy_on_the_socket_is_believed_only_if_it_is_trusted() -> None:
    headers = CIMultiDict({"X-Forwarded-For": "203.0.113.9, 192.0.2.7"})
    request: Any = SimpleNamespace(remote="", headers=headers)
    trusting = HttpSettings(unix=True, trusted_proxies=("unix",))
    assert Guards(trusting, JumpClock()).client_of(request) == "192.0.2.7"
    assert Guards(HttpSettings(unix=True), JumpClock()).client_of(request) == "the Unix socket"


def addresses_of(process: int) -> list[str]:
    """The addresses that a process listens on, as the system writes them."""
    folder = Path(f"/proc/{process}")
    sockets = {str(one.readlink()) for one in folder.joinpath("fd").iterdir()}
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in folder.joinpath("net", name).read_text("ascii").splitlines()[1:]
    ]
    listens = "0A"
    return [row[1] for row in rows if row[3] == listens and f"socket:[{row[9]}]" in sockets]


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="no /proc of Linux")
async def test_the_daemon_listens_on_nothing_else(place: Place) -> None:
    place.write(daemon={"listen": "unix:page.sock", "listen_mode": "0660", "base_path": "/c"})
    path = place.folder / "page.sock"
    async with place.running() as daemon:
        assert daemon.base == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert addresses_of(daemon.process.pid) == []
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as client:
            async with client.get("http://localhost/c/") as answer:
                assert answer.status == 200
                assert 'href="/c/hosts"' in await answer.text()
            async with client.post("http://localhost/c/api/pause") as answer:
                assert await answer.json() == {
                    "state": "paused", "changed": True, "dry_run": False,
                }  # fmt: skip
            async with client.get("http://evil.test/") as answer:
                assert answer.status == 403
            origin = {"Origin": "http://evil.test"}
            async with client.post("http://localhost/api/resume", headers=origin) as answer:
                assert answer.status == 403
        code, out, _ = await place.courtly("status", "--config", str(place.config))
        assert code == 0
        assert "paused" in out
        steered = await place.event("steered")
        assert steered["via"] == "api"
        assert steered["from"] == f"process {os.getpid()}"
        second, _, _ = await place.courtly("run", str(place.config))
        assert second == 2
        assert await daemon.end() == 0
    assert not path.exists()


async def test_a_token_is_asked_for_if_there_is_one(place: Place) -> None:
    place.write(daemon={"listen": "unix:page.sock", "token": TOKEN})
    async with place.running() as daemon:
        connector = aiohttp.UnixConnector(str(place.folder / "page.sock"))
        async with aiohttp.ClientSession(connector=connector) as client:
            url = "http://localhost/api/pause"
            async with client.post(url) as answer:
                assert answer.status == 401
            bearer = {"Authorization": f"Bearer {TOKEN}"}
            async with client.post(url, headers=bearer) as answer:
                assert answer.status == 200
        steered = await place.event("steered")
        assert (steered["by"], steered["from"]) == ("default", f"process {os.getpid()}")
        assert await daemon.end() == 0


async def test_an_address_in_use_is_a_sentence(place: Place) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(place.folder / "page.sock"))
        other.listen(1)
        place.write(daemon={"listen": "unix:page.sock"})
        code, _, err = await place.courtly("run", str(place.config))
    assert code == 1
    words = " ".join(err.split())
    assert "(daemon.listen): another process listens there" in words
