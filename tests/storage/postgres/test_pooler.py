"""pgbouncer in front of a server: one that gives each transaction another connection is refused."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from storage.store import StoreRefused, WorkerStatus
from tests.postgres_server import PostgresServer
from tests.storage.postgres.stores import link, store_at

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="pgbouncer is not installed")
IGNORED = (
    "idle_in_transaction_session_timeout", "idle_session_timeout", "lock_timeout",
    "statement_timeout", "synchronous_commit", "tcp_keepalives_idle", "tcp_keepalives_interval",
    "tcp_keepalives_count", "tcp_user_timeout", "search_path",
)  # fmt: skip


@contextlib.asynccontextmanager
async def pooler(
    postgres: PostgresServer, folder: Path, mode: str, *, ignored: tuple[str, ...], extra: str = ""
) -> AsyncIterator[int]:
    """Run pgbouncer; yield its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    config = folder / "pgbouncer.ini"
    users = folder / "users.txt"
    users.write_text('"courtly" ""\n')
    config.write_text(
        f"[databases]\n* = host={postgres.host} port={postgres.port}\n[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\n"
        f"auth_file = {users}\npool_mode = {mode}\nmax_client_conn = 100\n{extra}"
        f"ignore_startup_parameters = {','.join(ignored)}\n"
    )
    for path in (folder, *folder.parents):  # it does not run as the superuser
        with contextlib.suppress(PermissionError):
            path.chmod(path.stat().st_mode | 0o005)
    as_user = ("-u", "nobody") if os.geteuid() == 0 else ()
    process = await asyncio.create_subprocess_exec(
        str(PROGRAM), "-q", *as_user, str(config), stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(20):
            while True:
                assert process.returncode is None, await process.communicate()
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                await asyncio.sleep(0.02)
        yield port
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("extra", ["", "default_pool_size = 1\n", "server_round_robin = 1\n"])
async def test_transaction_pooling_is_refused(
    postgres: PostgresServer, postgres_url: str, tmp_path: Path, extra: str
) -> None:
    async with pooler(postgres, tmp_path, "transaction", ignored=IGNORED, extra=extra) as port:
        store = store_at(postgres_url.replace(f":{postgres.port}/", f":{port}/"))
        with pytest.raises(StoreRefused, match="gives each transaction another connection"):
            await store.open_session("a")


async def test_settings_that_a_pooler_does_not_know_are_explained(
    postgres: PostgresServer, postgres_url: str, tmp_path: Path
) -> None:
    async with pooler(postgres, tmp_path, "transaction", ignored=("extra_float_digits",)) as port:
        store = store_at(postgres_url.replace(f":{postgres.port}/", f":{port}/"))
        with pytest.raises(StoreRefused, match="directly, not by a connection pooler"):
            await store.open_session("a")


async def test_session_pooling_can_be_used(
    postgres: PostgresServer, postgres_url: str, tmp_path: Path
) -> None:
    async with pooler(postgres, tmp_path, "session", ignored=IGNORED) as port:
        store = store_at(postgres_url.replace(f":{postgres.port}/", f":{port}/"))
        session = await store.open_session("a")
        await store.add([link("http://a.test/")])
        assert await store.pulse(session, WorkerStatus()) is not None
        assert len(await store.claim(session, hosts=1, urls_per_host=1)) == 1
        await store.close(session)
