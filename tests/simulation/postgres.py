"""Workers on a real PostgreSQL server, each with connections of its own, on one virtual clock.

Their statements run on the loop, one transaction after the other, so that a seed replays exactly.
The clock of the server, as the workers see it, is the virtual one and its steps.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import asyncpg
from msgspec import structs

from crawler.testing import JumpClock
from storage.database_info import wrong_hosts, wrong_origins
from storage.location import ServerLocation, parse_location
from storage.postgres import lineage, server_connection, server_reader, server_store
from storage.postgres.connection import PostgresConnection
from storage.postgres.server_time import ServerTime
from storage.postgres.statements import statements
from storage.reader import Reader
from storage.store import Store
from tests.crawler.scheduling.shared_rig import WorkerClock
from tests.postgres_server import PostgresServer, find_programs
from tests.simulation.history import Done
from tests.simulation.loop import outside_of_loop
from tests.simulation.running import Process
from tests.simulation.scenario import Deed, Scenario
from tests.simulation.shared import WorkersSimulation
from tests.simulation.stores import Wire

T = TypeVar("T")
OF_SERVER: Final = (
    "server clock", "cut connections", "cut before commit", "cut after commit", "copy",
    "back to copy",
)  # fmt: skip
_LOST: Final = asyncpg.ConnectionDoesNotExistError("connection was closed during the operation")


class _Servers:
    """The server of this process."""

    used: PostgresServer | None = None


def use(server: PostgresServer | None) -> None:
    """Simulate on this server; None: on one that is started when it is needed."""
    _Servers.used = server


def _server() -> PostgresServer:
    if _Servers.used is None:
        programs = find_programs()
        assert programs is not None, "there is no PostgreSQL server"
        _Servers.used = PostgresServer(programs)
        _Servers.used.start()
    return _Servers.used


class Administrator:
    """A connection that does to the database what no worker does."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._db = self._wait(asyncpg.connect(url))

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        with outside_of_loop():
            return self._loop.run_until_complete(call)

    def execute(self, sql: str, *values: object) -> None:
        self._wait(self._db.execute(sql, *values))

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._wait(self._db.fetch(sql, *values))]

    def end_others(self, *pids: int) -> None:
        """End these connections of workers, or all; return when they have ended."""
        chosen = "pid = ANY($1::int[])" if pids else "$1::int[] IS NOT NULL"
        self.rows(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            f" WHERE datname = current_database() AND pid <> pg_backend_pid() AND {chosen}",
            list(pids),
        )

    def copy(self) -> None:
        """Keep the state of all tables and sequences."""
        self.execute("DROP SCHEMA IF EXISTS past CASCADE; CREATE SCHEMA past")
        for (table,) in self._names("r"):
            self.execute(f"CREATE TABLE past.{table} AS TABLE {table}")
        self._sequences = [
            (name, *self.rows(f"SELECT last_value, is_called FROM {name}")[0])
            for (name,) in self._names("S")
        ]

    def restore(self) -> None:
        """Make the state of the copy that of the database, as a replica that has received no more
        does when it takes over."""
        self.end_others()
        sql = ["BEGIN; SET LOCAL session_replication_role = replica"]
        for (table,) in self._names("r"):
            columns = ", ".join(
                f'"{name}"'
                for (name,) in self.rows(
                    "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass"
                    " AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
                    table,
                )
            )
            sql.append(f"DELETE FROM {table}")
            sql.append(
                f"INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE"
                f" SELECT {columns} FROM past.{table}"
            )
        for name, value, called in self._sequences:
            sql.append(f"SELECT setval('{name}', {value}, {called})")
        self.execute("; ".join([*sql, "COMMIT"]))

    def _names(self, kind: str) -> list[tuple[Any, ...]]:
        return self.rows(
            'SELECT oid::regclass::text FROM pg_class WHERE relkind = $1::text::"char"'
            " AND relnamespace = current_schema()::regnamespace ORDER BY 1",
            kind,
        )

    def inconsistencies(self) -> list[str]:
        queries = dict(statements("checks"))
        recounted, summed = queries.pop("recounted"), queries.pop("summed")
        found = []
        for sql in queries.values():
            count, sentence = self.rows(sql)[0]
            if count:
                found.append(f"{count} {sentence}")
        found += wrong_origins(self.rows(recounted))
        found += wrong_hosts(self.rows(summed))
        return found

    def close(self) -> None:
        self.execute("DROP SCHEMA IF EXISTS past CASCADE")
        self._wait(self._db.close())
        self._loop.close()


class SimulatedServerTime(ServerTime):
    """`ServerTime`, by the simulated clock of the server."""

    def __init__(self, world: PostgresSimulation, clock: Any, machine: int) -> None:
        ahead_s = 1_000.0 * machine  # each machine was started at another time
        super().__init__(clock.wall, lambda: clock.boottime() + ahead_s)
        self._boot = f"machine {machine}"
        self._world = world

    def step_s(self, server_s: float, shift_s: float, sent_s: float) -> float:
        return super().step_s(self._world.server_s(), shift_s, sent_s)

    def observe(self, server_s: float, shift_s: float, sent_s: float) -> None:
        super().observe(self._world.server_s(), shift_s, sent_s)


class PostgresWire(Wire):
    """What a process sees of its store. A process that is frozen waits before and after calls."""

    shared = True

    def __init__(self, inner: Store, clock: Any) -> None:
        super().__init__(inner, clock)
        self._of_process = clock
        self.session = 0

    async def _pass(self) -> None:
        await super()._pass()
        await self._of_process.running.wait()
        self._live()


class PostgresProcess(Process):
    async def _run(self) -> None:
        try:
            await super()._run()
        finally:
            if self.dead:
                abandon(self.store._inner)
            else:
                await self.store.settle()
                await self.store._inner.close(self.store.session)


class _ServerDisk:
    """The database, as `Simulation` uses it."""

    boots = 0

    def __init__(self, location: ServerLocation) -> None:
        self._location = location

    def reader(self) -> Reader:
        return server_reader(self._location)

    async def killed(self, store: Any) -> None:
        abandon(store)


class PostgresSimulation(WorkersSimulation):
    """Workers on a server."""

    cap_s = 1_500.0

    def __init__(self, scenario: Scenario, clock: JumpClock, folder: Path) -> None:
        super().__init__(scenario, clock, folder)
        with outside_of_loop():
            url = _server().emptied_database()
        location = parse_location(url)
        assert isinstance(location, ServerLocation)
        self._location = location
        self.disk: Any = _ServerDisk(location)
        self.administrator = Administrator(url)
        self.server_step_s = 0.0
        self.timeline = 1
        self._server_from_s = clock.wall() - clock.boottime()
        self._away: set[int] = set()  # ids of the locations of workers that are cut off
        self._cutting: dict[int, str] = {}  # by id of a store's database: at which side of a commit

    def server_s(self) -> float:
        return self._server_from_s + self.clock.boottime() + self.server_step_s

    def step_wall(self, by_s: float) -> None:
        """Of the server and of all others."""
        super().step_wall(by_s)
        self.server_step_s += by_s

    async def simulate(self) -> None:
        with self._instead():
            try:
                await super().simulate()
            finally:
                for process in self.processes:
                    abandon(process.store._inner)
                self.administrator.close()

    def inconsistencies(self) -> list[str]:
        return self.administrator.inconsistencies()

    def start(self) -> Process:
        number, self._next_worker = self._next_worker, self._next_worker + 1
        clock: Any = WorkerClock(self.clock)
        machine = number % 2  # two workers on one machine, others elsewhere
        inner = server_store(
            structs.replace(self._location),  # its own, by which it is told from others
            wall=clock.wall,
            monotonic=clock.monotonic,
            sleep_until=clock.sleep_until,
            time=SimulatedServerTime(self, clock, machine),
        )
        store = PostgresWire(inner, clock)
        store.slow_s = self.scenario.slow_store_s
        return PostgresProcess(self, number, store, clock)

    async def open_session(self, process: Process) -> int:
        session = await super().open_session(process)
        process.store.session = session
        return session

    async def _bury(self, process: Process) -> None:
        process.clock.running.set()
        self.connect(process)
        await super()._bury(process)
        self._cut_contacts(process)

    # ------------------------------------------------------------ faults

    def cut_off(self, process: Process) -> None:
        self._away.add(id(process.store._inner._worker._location))
        self.administrator.end_others(*_pids(process.store._inner))

    def connect(self, process: Process) -> None:
        self._away.discard(id(process.store._inner._worker._location))

    async def _carry_out(self, deed: Deed, done: Done) -> None:
        if deed.verb not in OF_SERVER:
            await super()._carry_out(deed, done)
            return
        match deed.verb:
            case "server clock":
                self.server_step_s += deed.value
                self.history.steps.append((self.clock.monotonic(), deed.value))
            case "copy":
                self.administrator.copy()
            case "back to copy":
                self.administrator.restore()
                self.timeline += 1
            case verb:
                inner = self.processes[deed.value % len(self.processes)].store._inner
                if verb != "cut connections":
                    self._cutting[id(inner._calls.database)] = verb
                elif pids := _pids(inner):
                    self.administrator.end_others(*pids)

    @contextlib.contextmanager
    def _instead(self) -> Iterator[None]:
        """What the program asks the server, or does with a connection, at which faults happen."""
        connect, told, commit = (
            server_connection.connect, lineage._told, PostgresConnection.commit,
        )  # fmt: skip

        async def _connect(location: ServerLocation) -> asyncpg.Connection[Any]:
            if id(location) in self._away:
                raise ConnectionRefusedError("the server is away")
            return await connect(location)

        async def _told(db: asyncpg.Connection[Any], sql: str) -> Any:
            if "pg_walfile_name" in sql:
                return f"{self.timeline:08X}"
            return None if "_flush_lsn" in sql else await told(db, sql)

        def _commit(connection: PostgresConnection) -> None:
            self._commit(connection, lambda: commit(connection))

        temporary = tempfile.tempdir
        with tempfile.TemporaryDirectory(prefix="simulation-") as folder:
            tempfile.tempdir = folder
            server_connection.connect, lineage._told = _connect, _told
            PostgresConnection.commit = _commit  # type: ignore[method-assign,assignment]
            try:
                yield
            finally:
                tempfile.tempdir = temporary
                server_connection.connect, lineage._told = connect, told
                PostgresConnection.commit = commit  # type: ignore[method-assign]

    def _commit(self, connection: PostgresConnection, commit: Any) -> None:
        """Commit, unless the connection ends before, or just after."""
        of = [one.store._inner._calls.database for one in self.processes]
        key = next((id(one) for one in of if one._connection is connection), 0)
        side = self._cutting.pop(key, "")
        sql = connection.sql
        if not side:
            commit()
            return
        pid = sql.opened.get_server_pid()
        if side == "cut before commit":
            self.administrator.end_others(pid)
            commit()
            return
        wait = sql.wait

        def _wait(call: Any) -> Any:
            result = wait(call)
            if call.__name__ != "execute":
                return result
            self.administrator.end_others(pid)
            sql.drop()
            raise _LOST

        vars(sql)["wait"] = _wait
        try:
            commit()
        finally:
            del vars(sql)["wait"]


def _pids(store: Any) -> list[int]:
    """The processes of the server that serve this store."""
    return [
        connection.sql.db.get_server_pid()
        for connection in _connections(store)
        if connection.sql.db is not None and not connection.sql.db.is_closed()
    ]


def _connections(store: Any) -> list[Any]:
    thread = store._worker._pulses._thread
    found = [store._calls.database._connection, thread and thread._connection]
    return [connection for connection in found if connection is not None]


def abandon(store: Any) -> None:
    """As the kernel leaves it when the process dies: not a word to the server, no file closed in an
    orderly way."""
    if store._worker._task is not None:
        store._worker._task.cancel()
    with outside_of_loop():
        for connection in _connections(store):
            connection.sql.drop()
            connection.close()
    for thread in (store._calls.database._runner, store._worker._pulses._thread):
        if thread is not None:
            thread._running, thread._connection = False, None
    store._calls.database._file.release()
