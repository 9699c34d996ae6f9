"""Databases on servers, as every command meets them."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence

import pytest
from click.testing import CliRunner

from crawler.cli import main
from tests.postgres_server import PostgresServer, running_server

MARK = "hunter2"
COMMANDS: Sequence[Sequence[str]] = (
    ("crawl", "http://127.0.0.1:9/"),
    ("show", "visited"),
    ("export", "visited"),
    ("report", "broken"),
    ("why", "http://127.0.0.1:9/"),
    ("retry", "failed"),
    ("status",),
    ("seeds", "add", "http://127.0.0.1:9/"),
    ("host", "pause", "a.test"),
    ("db", "info"),
    ("db", "check"),
    ("db", "vacuum"),
)


def refused(*args: str) -> str:
    """What a command prints that refuses a database, in one line."""
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.stderr
    return " ".join(result.stderr.split())


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_without_asyncpg_the_error_names_the_extra(
    command: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.databases.find_spec", lambda _: None)
    told = refused(*command, "--db", "postgresql://db.invalid/x")
    assert "PostgreSQL databases need the extra `postgres`" in told
    assert "pip install 'courtly[postgres]'" in told


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("url", [f"postgresql://me:{MARK}@db/x", f"postgres:me:{MARK}@db/x"])
def test_a_password_in_a_url_is_refused_and_not_shown(command: Sequence[str], url: str) -> None:
    assert MARK not in refused(*command, "--db", url)


# ---------------------------------------------------------------- databases that cannot be used

READ = ("status", "--db")
WRITE = ("crawl", "http://127.0.0.1:9/", "--quiet", "--db")


def works(*args: str) -> None:
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0, result.output


@pytest.fixture
def crawled(postgres_url: str) -> str:
    """The URL of a database with a crawl."""
    works("seeds", "add", "http://127.0.0.1:9/", "--db", postgres_url)
    works(*READ, postgres_url)
    return postgres_url


def test_a_server_that_does_not_run() -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        url = f"postgresql://me@127.0.0.1:{taken.getsockname()[1]}/x"
        assert refused(*READ, url) == (
            f"courtly: cannot connect to {url}: connection refused; is the server running, and"
            " does it listen there?"
        )


def test_an_empty_database_is_only_read(postgres_url: str) -> None:
    assert refused(*READ, postgres_url) == (
        f"courtly: there is no crawl in {postgres_url}: create it with `courtly crawl`"
    )


@pytest.mark.parametrize("command", [READ, WRITE], ids=["read", "write"])
class TestRefused:
    def test_tables_of_another_program(
        self, command: Sequence[str], postgres: PostgresServer, postgres_url: str
    ) -> None:
        postgres.execute("CREATE TABLE crawl (a int); CREATE VIEW b AS SELECT 1", url=postgres_url)
        assert "holds 2 tables that are not courtly's: use a database of its own, or" in refused(
            *command, postgres_url
        )

    def test_a_newer_schema(
        self, command: Sequence[str], postgres: PostgresServer, crawled: str
    ) -> None:
        postgres.execute("UPDATE crawl SET version = 99", url=crawled)
        assert f"{crawled} was made by a newer courtly (its schema is 99, this one" in refused(
            *command, crawled
        )

    def test_an_incomplete_copy(
        self, command: Sequence[str], postgres: PostgresServer, crawled: str
    ) -> None:
        postgres.execute("UPDATE crawl SET application = 'courtly copy'", url=crawled)
        assert f"{crawled} is an incomplete copy: run the same" in refused(*command, crawled)

    def test_another_encoding(self, command: Sequence[str], postgres: PostgresServer) -> None:
        postgres.execute("DROP DATABASE IF EXISTS latin")
        postgres.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
        assert "has the encoding LATIN1; courtly needs UTF8" in refused(
            *command, postgres.url("latin")
        )

    def test_a_schema_that_does_not_exist(self, command: Sequence[str], postgres_url: str) -> None:
        assert "has no schema nowhere: create it with `CREATE SCHEMA`" in refused(
            *command, f"{postgres_url}?search_path=nowhere"
        )

    def test_an_old_server(
        self, command: Sequence[str], postgres_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("storage.postgres.errors.VERSION_MIN", 99)
        told = refused(*command, postgres_url)
        assert re.search(r"is on PostgreSQL \d+\.\d+.*; courtly needs 99 or newer", told)

    def test_a_database_that_does_not_exist(
        self, command: Sequence[str], postgres: PostgresServer
    ) -> None:
        told = refused(*command, postgres.url("nowhere"))
        assert told.endswith('database "nowhere" does not exist; create it with `createdb`')


def test_a_user_who_may_not_create_tables(postgres: PostgresServer, postgres_url: str) -> None:
    postgres.execute("DROP ROLE IF EXISTS visitor")
    postgres.execute("CREATE ROLE visitor LOGIN")
    told = refused(*WRITE, postgres_url.replace("courtly@", "visitor@"))
    assert "lacks a privilege: permission denied for schema public; make it the owner" in told


def test_a_database_that_accepts_no_changes(postgres: PostgresServer, crawled: str) -> None:
    name = crawled.rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert "accepts no changes: default_transaction_read_only is on" in refused(*WRITE, crawled)
    works(*READ, crawled)


def test_two_crawls_in_two_schemas(postgres: PostgresServer, postgres_url: str) -> None:
    postgres.execute("CREATE SCHEMA one; CREATE SCHEMA two", url=postgres_url)
    for schema, hosts in (("one", ["a", "b"]), ("two", ["c"])):
        url = f"{postgres_url}?search_path={schema}"
        for host in hosts:
            works("seeds", "add", f"http://{host}.test/", "--db", url)
        result = CliRunner().invoke(main, [*READ, url])
        assert f"{len(hosts)} queued" in result.output


def test_a_replica_is_only_read() -> None:
    with running_server() as server:
        with (server.data / "postgresql.conf").open("a") as file:
            file.write("wal_level = 'replica'\n")
        server.restart()
        url = server.create_database()
        works("seeds", "add", "http://127.0.0.1:9/", "--db", url)
        server.stop()
        (server.data / "standby.signal").touch()
        server.start()
        assert f"{url} is a replica, which accepts no changes: name the primary" in refused(
            *WRITE, url
        )
        works(*READ, url)
        works("show", "queued", "--db", f"{url}?target_session_attrs=standby")
