"""Errors of real connections become sentences, and passing ones are told from lasting ones."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
from msgspec.structs import replace

from storage.location import ServerLocation, parse_location
from storage.postgres.errors import _FAULTS, fault_kind_of, refusal_of, words_of
from storage.transient_faults import FaultKind
from tests.postgres_server import WITH_PASSWORD, PostgresServer
from tests.tables import each

MARK = "hunter2"


def server(url: str) -> ServerLocation:
    location = parse_location(url)
    assert isinstance(location, ServerLocation)
    return location


async def refusal(location: ServerLocation) -> str:
    """The sentence for which a connection is refused."""
    try:
        connection = await asyncpg.connect(**location.connect_arguments())
    except BaseException as error:
        refused = refusal_of(error, location)
        if refused is None:
            raise
        return str(refused)
    await connection.close()
    raise AssertionError("the connection was accepted")


async def test_a_connection_by_name_address_and_socket(postgres: PostgresServer) -> None:
    for host in (f"{postgres.host}:{postgres.port}", f"localhost:{postgres.port}"):
        location = server(f"postgresql://courtly@{host}/postgres?application_name=x&search_path=y")
        connection = await asyncpg.connect(**location.connect_arguments())
        assert await connection.fetchval("SHOW application_name") == "x"
        assert await connection.fetchval("SHOW search_path") == "y"
        await connection.close()
    by_socket = f"postgresql://courtly@/postgres?host={postgres.folder}&port={postgres.port}"
    connection = await asyncpg.connect(**server(by_socket).connect_arguments())
    assert await connection.fetchval("SHOW application_name") == "courtly"
    await connection.close()


async def test_the_second_of_two_hosts(postgres: PostgresServer) -> None:
    url = f"postgresql://courtly@127.0.0.1:1,127.0.0.1:{postgres.port}/postgres"
    connection = await asyncpg.connect(**server(url).connect_arguments())
    await connection.close()


async def test_a_server_that_does_not_run(tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        url = f"postgresql://me@127.0.0.1:{taken.getsockname()[1]}/x"
        assert await refusal(server(url)) == (
            f"cannot connect to {url}: connection refused; is the server running, and does it "
            "listen there?"
        )
    url = f"postgresql://me@/x?host={tmp_path}"
    assert "there is no such socket; is the server running?" in await refusal(server(url))


async def test_a_name_that_does_not_exist() -> None:
    assert "cannot connect to postgresql://courtly.invalid/x: " in await refusal(
        server("postgresql://courtly.invalid/x")
    )


@contextlib.asynccontextmanager
async def silent_port() -> AsyncIterator[int]:
    """A port that accepts connections and never answers."""
    done = asyncio.Event()

    async def wait(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await done.wait()
        writer.close()

    listening = await asyncio.start_server(wait, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        done.set()
        listening.close()


async def test_a_server_that_does_not_answer() -> None:
    async with silent_port() as port:
        url = f"postgresql://me@127.0.0.1:{port}/x"
        sentence = await refusal(server(f"{url}?connect_timeout=1"))
    assert sentence == f"cannot connect to {url}: the server did not answer in time"


async def test_a_wrong_password(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    monkeypatch.setenv("COURTLY_TEST", MARK)
    postgres.execute("DROP ROLE IF EXISTS wrong")
    postgres.execute(f"CREATE ROLE wrong LOGIN PASSWORD 'right' IN ROLE {WITH_PASSWORD}")
    location = server(postgres.url(user="wrong"))
    place = "check PGPASSWORD, storage.password or ~/.pgpass"
    assert (await refusal(location)).endswith(f'authentication failed for user "wrong"; {place}')
    monkeypatch.setenv("PGPASSWORD", f"{MARK}3")
    told = await refusal(location)
    assert MARK not in told
    assert told.endswith(f'authentication failed for user "wrong"; {place}')
    told = await refusal(replace(location, password="env:COURTLY_TEST"))
    assert MARK not in told
    assert told.endswith("check the one from env:COURTLY_TEST")
    monkeypatch.setenv("PGPASSWORD", "right")
    connection = await asyncpg.connect(**location.connect_arguments())
    await connection.close()
    monkeypatch.delenv("PGPASSWORD")
    passfile = tmp_path / "pgpass"
    passfile.write_text("*:*:*:wrong:right\n")
    passfile.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    connection = await asyncpg.connect(**location.connect_arguments())
    await connection.close()


async def test_a_password_that_cannot_be_read(postgres: PostgresServer) -> None:
    location = replace(server(postgres.url()), password="env:COURTLY_NOT_SET")
    assert await refusal(location) == (
        f"the password for {location} cannot be read: the environment variable COURTLY_NOT_SET is "
        "not set"
    )


async def test_a_role_and_a_database_that_do_not_exist(postgres: PostgresServer) -> None:
    nobody = await refusal(server(postgres.url(user="nobody_here")))
    assert nobody.endswith('role "nobody_here" does not exist')
    nowhere = await refusal(server(postgres.url("nowhere")))
    assert nowhere.endswith('database "nowhere" does not exist; create it with `createdb`')


async def test_tls_that_the_server_does_not_offer(postgres: PostgresServer) -> None:
    told = await refusal(server(f"{postgres.url()}?sslmode=require"))
    assert told.endswith("the server does not offer TLS, which sslmode=require needs")
    told = await refusal(server(f"{postgres.url()}?sslmode=verify-full&sslrootcert=/none.pem"))
    assert told.endswith("a file does not exist: the one in sslrootcert")


async def test_an_unknown_setting(postgres: PostgresServer) -> None:
    told = await refusal(server(f"{postgres.url()}?options=-c%20no.such%3D1%20-c%20nothing%3D1"))
    assert 'unrecognized configuration parameter "nothing"' in told


async def test_a_primary_is_no_standby(postgres: PostgresServer) -> None:
    told = await refusal(server(f"{postgres.url()}?target_session_attrs=standby"))
    assert told.endswith("no server has the property target_session_attrs=standby")


async def test_a_privilege_that_is_missing(postgres: PostgresServer) -> None:
    url = postgres.create_database()
    postgres.execute("DROP ROLE IF EXISTS guest")
    postgres.execute("CREATE ROLE guest LOGIN")
    location = replace(server(url), user="guest")
    connection = await asyncpg.connect(**location.connect_arguments())
    with pytest.raises(asyncpg.InsufficientPrivilegeError) as caught:
        await connection.execute("CREATE TABLE a (b int)")
    await connection.close()
    assert "permission denied for schema public; make it the owner" in str(
        refusal_of(caught.value, location)
    )
    postgres.drop_database(url)


async def test_faults_that_pass_are_no_refusals(postgres: PostgresServer) -> None:
    location = server(postgres.url())
    connection = await asyncpg.connect(**location.connect_arguments())
    pid = connection.get_server_pid()
    postgres.execute(f"SELECT pg_terminate_backend({pid})")
    for _ in range(2):  # at first it was cut, then it is closed
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)) as cut:
            await connection.execute("SELECT 1")
        assert fault_kind_of(cut.value) is FaultKind.UNREACHABLE
        assert refusal_of(cut.value, location) is None
    connection = await asyncpg.connect(**location.connect_arguments())
    await connection.execute("SET statement_timeout = 10")
    with pytest.raises(asyncpg.QueryCanceledError) as slow:
        await connection.execute("SELECT pg_sleep(9)")
    assert fault_kind_of(slow.value) is FaultKind.LOCKED
    with pytest.raises(asyncpg.UndefinedTableError) as wrong:
        await connection.execute("SELECT * FROM nothing")
    assert fault_kind_of(wrong.value) is None
    await connection.execute("SET default_transaction_read_only = on")
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError) as read_only:
        await connection.execute("CREATE TABLE a (b int)")
    assert fault_kind_of(read_only.value) is FaultKind.UNREACHABLE
    await connection.close()


@each(
    ("error", "kind"),
    [
        (asyncpg.TooManyConnectionsError("x"), FaultKind.UNREACHABLE),
        (asyncpg.CannotConnectNowError("x"), FaultKind.UNREACHABLE),
        (asyncpg.AdminShutdownError("x"), FaultKind.UNREACHABLE),
        (asyncpg.DatabaseDroppedError("x"), None),
        (asyncpg.DiskFullError("x"), FaultKind.NO_SPACE),
        (asyncpg.OutOfMemoryError("x"), FaultKind.MEMORY),
        (asyncpg.ConfigurationLimitExceededError("x"), FaultKind.IO),
        (asyncpg.DeadlockDetectedError("x"), FaultKind.LOCKED),
        (asyncpg.ProtocolViolationError("x"), FaultKind.UNKNOWN),
        (asyncpg.InterfaceError("another operation is in progress"), FaultKind.UNKNOWN),
        (asyncpg.InterfaceError("connection is closed"), FaultKind.UNREACHABLE),
        (asyncpg.InternalClientError("unexpected message"), FaultKind.UNREACHABLE),
        (asyncpg.IdleSessionTimeoutError("x"), FaultKind.UNREACHABLE),
        (asyncpg.InvalidCachedStatementError("x"), FaultKind.UNKNOWN),
        (asyncpg.InvalidSQLStatementNameError("x"), FaultKind.UNKNOWN),
        (asyncpg.DuplicatePreparedStatementError("x"), FaultKind.UNKNOWN),
        (asyncpg.InternalServerError("x"), FaultKind.UNKNOWN),
        (asyncpg.PostgresError("no code"), FaultKind.UNKNOWN),
        (asyncpg.UndefinedTableError("x"), None),
        (asyncpg.InsufficientPrivilegeError("x"), None),
        (asyncpg.InvalidCatalogNameError("x"), None),
        (asyncpg.DataCorruptedError("x"), None),
        (asyncpg.InvalidPasswordError("x"), None),
        (OSError(24, "too many open files"), FaultKind.DESCRIPTORS),
        (ConnectionResetError(), FaultKind.UNREACHABLE),
        (TimeoutError(), FaultKind.UNREACHABLE),
        (MemoryError(), FaultKind.MEMORY),
        (ssl.SSLCertVerificationError("x"), None),
        (ValueError(), None),
    ],
)
def test_which_faults_pass(error: BaseException, kind: FaultKind | None) -> None:
    assert fault_kind_of(error) is kind


# The classes of errors of which a repetition can never succeed; all others are tried again.
LASTING = {"0L", "0P", "21", "22", "23", "28", "2B", "3D", "3F", "42", "54"}


def subclasses(root: type[BaseException]) -> Iterator[type[BaseException]]:
    for found in root.__subclasses__():
        yield found
        yield from subclasses(found)


def test_every_error_of_the_driver_passes_unless_it_is_known_that_it_does_not() -> None:
    for error in subclasses(asyncpg.PostgresError):
        code = getattr(error, "sqlstate", None)
        if code is None:
            assert fault_kind_of(error("x")) is FaultKind.UNKNOWN, error
            continue
        assert code[:2] in _FAULTS, f"{error.__name__} is of a class that nobody has judged"
        lasting = code[:2] in LASTING or code in ("57P04", "XX001", "XX002")
        reconnects = code in ("42P03", "42P05")
        assert (fault_kind_of(error("x")) is None) == (lasting and not reconnects), error
    unforeseen = type("Unforeseen", (asyncpg.PostgresError,), {"sqlstate": "ZZ999"})
    assert fault_kind_of(unforeseen("x")) is FaultKind.UNKNOWN


def test_every_error_of_the_client_passes_unless_it_is_about_an_argument() -> None:
    roots = (asyncpg.InterfaceError, asyncpg.InternalClientError)
    for error in (*roots, *(one for root in roots for one in subclasses(root))):
        lasting = issubclass(error, ValueError) or error.__name__.startswith("Unsupported")
        assert (fault_kind_of(error("x")) is None) == lasting, error


def test_words_are_one_line() -> None:
    error = asyncpg.PostgresError("one.\nDETAIL: two")
    assert words_of(error) == "one"
    assert words_of(OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1)")) == (
        "connection refused"
    )
