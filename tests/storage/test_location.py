"""Where a database is: what URLs and paths mean, and that no password is ever shown."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from storage.location import FileLocation, ServerLocation, parse_location, url_of
from storage.secret_sources import SecretError
from tests.tables import each

MARK = "hunter2"


def server(text: str) -> ServerLocation:
    found = parse_location(text)
    assert isinstance(found, ServerLocation)
    return found


@each(
    ("text", "path"),
    [
        ("sqlite:crawl.db", "crawl.db"), ("SQLite:/a/b.db", "/a/b.db"), ("sqlite:///a", "/a"),
        ("crawl.db", "crawl.db"), ("a b:c.db", "a b:c.db"), ("sqlite:50%20.db", "50%20.db"),
    ],
)  # fmt: skip
def test_files(text: str, path: str) -> None:
    assert parse_location(text) == FileLocation(Path(path))
    assert str(parse_location(text)) == path


def test_a_complete_url() -> None:
    found = server(
        "postgres://j%C3%B8rn:@db.test:5433/my%20crawl?search_path=two&sslmode=require".replace(
            ":@", "@"
        )
    )
    assert found == ServerLocation(
        user="jørn",
        hosts=(("db.test", 5433),),
        database="my crawl",
        parameters=(("search_path", "two"), ("sslmode", "require")),
    )
    assert found.shown == "postgresql://j%C3%B8rn@db.test:5433/my%20crawl?search_path=two"
    assert found.key == "postgresql://db.test:5433/my%20crawl?search_path=two"


@each(
    ("url", "hosts"),
    [
        ("postgresql:///x", ()),
        ("postgresql://db/x", (("db", 5432),)),
        ("postgresql://a.test,b.test:1/x", (("a.test", 5432), ("b.test", 1))),
        ("postgresql://[::1]/x", (("::1", 5432),)),
        ("postgresql://[fe80::1%25eth0]:7/x", (("fe80::1%eth0", 7),)),
        ("postgresql://%2Frun%2Fpostgresql/x", (("/run/postgresql", 5432),)),
        ("postgresql:///x?host=/run/postgresql", (("/run/postgresql", 5432),)),
        ("postgresql:///x?host=/run/a&port=7", (("/run/a", 7),)),
        ("postgresql://?dbname=x&host=a,b&port=1,2", (("a", 1), ("b", 2))),
        ("postgresql://?dbname=x&host=a,b&port=3", (("a", 3), ("b", 3))),
    ],
)
def test_hosts(url: str, hosts: tuple[tuple[str, int], ...]) -> None:
    found = server(url)
    assert (found.hosts, found.database) == (hosts, "x")
    assert server(found.shown) == found


def test_the_arguments_of_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COURTLY_TEST", f"{MARK}\n")
    given = server("postgresql://me@a,b:7/x?connect_timeout=3&options=-c%20work_mem%3D1MB")
    assert replace(given, password="env:COURTLY_TEST").connect_arguments() == {
        "dsn": "postgresql://?options=-c%20work_mem%3D1MB&application_name=courtly",
        "host": ["a", "b"], "port": [5432, 7], "user": "me", "database": "x", "password": MARK,
        "timeout": 3.0,
    }  # fmt: skip
    bare = server("postgresql:///x").connect_arguments()
    assert [bare[name] for name in ("host", "port", "user", "password")] == [None] * 4


def test_a_password_file(tmp_path: Path) -> None:
    place = tmp_path / "password"
    found = replace(server("postgresql:///x"), password=f"file:{place}")
    with pytest.raises(SecretError, match="cannot be read: No such file"):
        found.connect_arguments()
    place.write_text(f"{MARK}\n")
    assert found.connect_arguments()["password"] == MARK
    assert MARK not in f"{found} {found!r} {found.shown} {found.key}"


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    found = replace(server("postgresql:///x"), password=f"file:{tmp_path / 'fifo'}")
    with pytest.raises(SecretError, match="is not a regular file"):
        found.connect_arguments()


@each(
    ("url", "sentence"),
    [
        ("postgresql://me:pw@db/x", "must not contain a password"),
        ("postgresql://me:pw@db/x", "PGPASSWORD"),
        ("postgresql://me%3Apw@db/x", "must not contain a password"),
        ("postgresql://db/x?user=me:pw", "must not contain a password"),
        ("postgresql://db/x?password=pw", "has the parameter password"),
        ("postgresql://me:p/w@db/x", "must not contain a password"),
        (
            "postgresql://db/x?sslmod=require",
            "parameter 1 of the URL is unknown; did you",
        ),
        ("postgresql://db/x?sslmode=require&a=b", "parameter 2 of the URL is unknown; known ones"),
        ("postgresql://db/x?sslmode=maybe", "sslmode must be disable, allow, "),
        ("postgresql://db/x?sslmode", "parameters are written NAME=VALUE"),
        ("postgresql://db/x?options=", "the parameter options is empty"),
        ("postgresql://db/x?options=a&options=b", "has the parameter options twice"),
        ("postgresql://db/x?connect_timeout=0", "whole number of seconds"),
        ("postgresql://db/x?host=b", "names the host twice"),
        ("postgresql://db:1/x?port=2", "names the port twice"),
        ("postgresql://a,b/x?port=1,2,3", "one port, or as many as hosts"),
        ("postgresql:///x?port=2", "names a port, but no host"),
        ("postgresql://db:0/x", "has a port that is not a number from 1 to 65535"),
        ("postgresql://d%20b/x", "names a host that is not a name"),
        ("postgresql://@db/x", "has no user"),
        ("postgresql://db", "must name one database"),
        ("postgresql://db/", "must name one database"),
        ("postgresql://db/a/b", "must name one database"),
        ("postgresql://db/a#b", '"#" are written'),
        ("postgresql://db/50%", 'has a "%" that begins no escape'),
        ("postgresql://db/%ff", "is not UTF-8"),
        ("postgresql:x", 'must begin with "postgresql://"'),
        ("postgresql+asyncpg://db/x", 'must begin with "postgresql://"'),
        ("mysql://me:pw@db/x", 'must be "sqlite:" and a path'),
        ("sqlite:", "must name a file"),
    ],
)
def test_what_is_refused(url: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        parse_location(url)


def test_paths_and_urls() -> None:
    assert url_of("x.db") == "sqlite:x.db"
    for url in ("sqlite:x", "postgresql://db/x", "POSTGRES://db/x", "mysql://x"):
        assert url_of(url) == url


_JUNK = st.text("ab1@:/ %?#&=,[]\"'", max_size=8)


@given(
    head=st.sampled_from(
        ["postgresql://", "postgres://", "postgresql:", "POSTGRESQL://", "postgresql+x://", "my://"]
    ),
    user=_JUNK,
    before=_JUNK,
    after=_JUNK,
    rest=_JUNK,
)
@example(head="postgresql://", user="me", before="", after="", rest="")
@example(head="postgresql://", user="me", before="1?", after="=x", rest="")
@example(head="postgresql://", user="me", before="1/x?a", after="=x", rest="")
def test_no_password_is_shown_whatever_the_url(
    head: str, user: str, before: str, after: str, rest: str
) -> None:
    text = f"{head}{user}:{before}{MARK}{after}@db/x{rest}"
    assert MARK not in everything_shown(text), text


def everything_shown(text: str) -> str:
    try:
        found = parse_location(text)
    except ValueError as error:
        return str(error)
    return f"{found} {found!r} {found.shown} {found.key}"
