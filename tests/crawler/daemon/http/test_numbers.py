"""No value from outside is unbounded or breaks a route, and no query writes anything."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import types
import typing
from typing import Any

import asyncpg
import msgspec
import pytest

from crawler.daemon.http import request_types
from crawler.daemon.http.caller_routes import BODIES
from crawler.daemon.http.routes import ROUTES
from crawler.daemon.problem import Problem
from crawler.operator_commands import Json
from tests.crawler.daemon.conftest import Start

NUMBERS = (
    "9" * 19, "9" * 20, "1" + "0" * 40, "9" * 5000, "-1", "-" + "9" * 20, "0", "1e999", "-1e999",
    "1e308", "nan", "NaN", "inf", "-inf", "Infinity", "\u0663\u0660", "１２", "1_000", " 5 ",
    "0x10", "1.5", "true", "null", "", "+5", "5e0",
)  # fmt: skip
TEXTS = ("\ud800", "\0", "x" * 30_000, "[" * 2_000, "\u202e", "%ff", "http://[", "a\r\nb")


def annotations_of(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def numbers_in(hint: Any, bounds: tuple[msgspec.Meta, ...] = ()) -> list[tuple[msgspec.Meta, ...]]:
    """For each number within a type: what bounds it."""
    if typing.get_origin(hint) is typing.Annotated:
        inner, *more = typing.get_args(hint)
        metas = tuple(one for one in more if isinstance(one, msgspec.Meta))
        return numbers_in(inner, (*bounds, *metas))
    if hint in (int, float):
        return [bounds]
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) in (typing.Union, list, dict):
        return [found for one in typing.get_args(hint) for found in numbers_in(one)]
    return []


def test_every_number_of_every_request_has_a_range() -> None:
    kinds = {route.query for route in ROUTES} | {route.body for route in ROUTES} | {*BODIES}
    seen = 0
    for kind in kinds:
        for name, hint in annotations_of(kind).items():
            if hint == Json:
                continue  # it is sent on, and not read as a number
            for bounds in numbers_in(hint):
                seen += 1
                lower = [one.ge if one.gt is None else one.gt for one in bounds]
                upper = [one.le if one.lt is None else one.lt for one in bounds]
                assert any(one is not None for one in lower), (kind, name)
                assert any(one is not None for one in upper), (kind, name)
    assert seen >= 12


async def served(daemon: Any, route: Any, items: list[tuple[str, str]], raw: bytes) -> None:
    """Anything but an answer or a problem of the client would be a 500."""
    try:
        await route.serve(daemon.operations, items, raw)
    except Problem as problem:
        refused = problem.status
        assert refused < 500, (route.path, items, raw[:200], problem)  # noqa: PT017


async def test_any_value_of_any_parameter_gets_an_answer(daemon: Any) -> None:
    given = {"host": "a.test", "url": "http://a.test/", "state": "queued"}
    for route in ROUTES:
        names = [one.encode_name for one in msgspec.structs.fields(route.query)]
        if route.method != "GET":
            continue
        for name in names:
            for value in (*NUMBERS, *TEXTS):
                query = {key: one for key, one in given.items() if key in names} | {name: value}
                await served(daemon, route, [*query.items()], b"")
    for path in ("/history", "/hosts", "/urls?state=failed", "/log", "/blocked", "/seeds"):
        mark = "&" if "?" in path else "?"
        for name in ("from", "to", "step", "limit", "span", "status", "after", "at"):
            answer = await daemon.local.get(f"{path}{mark}{name}={'9' * 20}")
            assert answer.status < 500, (path, name)
    answer = await daemon.local.get(f"/api/history?step={'9' * 20}")
    assert (answer.status, answer.body["field"]) == (422, "step")


async def test_any_value_in_any_body_gets_an_answer(daemon: Any) -> None:
    """Also where JSON is not quite JSON."""
    raw = (
        *(one for one in NUMBERS if one), '"5"', "true", "[[1]]", "{}", '"\\ud800"', '"\\u0000"',
        "[" * 2_000, '{"a":' * 500, '"' + "x" * 30_000 + '"',
    )  # fmt: skip
    for route in ROUTES:
        if route.method != "POST" or route.path == "/api/reload":
            continue
        for one in msgspec.structs.fields(route.body):
            for value in raw:
                body = f'{{"{one.encode_name}": {value}}}'
                await served(daemon, route, [], body.encode())
    for kind in BODIES:
        for one in msgspec.structs.fields(kind):
            for value in raw:
                others = '"url": "x", ' if "url" in kind.__struct_fields__ else ""
                with contextlib.suppress(Problem):
                    request_types.read_body(
                        f'{{{others}"{one.encode_name}": {value}}}'.encode(), kind
                    )
        path = "/api/fetch" if kind is BODIES[0] else "/api/permit"
        for name in ("timeout_s", "max_wait_s", "expires_in_s", "description_bytes"):
            for value in ("1e999", "9" * 400, "-1", "NaN"):
                body = f'{{"url": "http://a.test/", "{name}": {value}}}'
                answer = await daemon.local.post(
                    path, data=body.encode(), headers={"Content-Type": "application/json"}
                )
                assert 400 <= answer.status < 500, (path, body, answer.body)


async def rows_of(made: Any, url: str | None) -> dict[str, object]:
    """All rows of all tables."""
    if url is None:
        with sqlite3.connect(f"file:{made.database}?mode=ro", uri=True) as database:
            tables = [
                name
                for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type='table'")
            ]
            return {
                name: sorted(map(repr, database.execute(f"SELECT * FROM {name}")))
                for name in tables
            }
    connection = await asyncpg.connect(url)
    try:
        found = await connection.fetch(
            "SELECT schemaname, tablename FROM pg_tables"
            " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        )
        return {
            table: sorted(
                repr(tuple(row))
                for row in await connection.fetch(f'SELECT * FROM "{schema}"."{table}"')
            )
            for schema, table in map(tuple, found)
        }
    finally:
        await connection.close()


# What a running crawl writes by itself, asked or not.
BY_ITSELF = ("session", "history", "mark", "pulse", "order", "crawl", "meta", "number", "sequence")


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_queries_write_nothing(
    start: Start, engine: str, request: pytest.FixtureRequest
) -> None:
    """About a thousand hosts that are unknown, and one that is known."""
    url = request.getfixturevalue("postgres_url") if engine == "postgres" else None
    async with start("a.test", url=url) as made:
        await made.idle()
        frontier = made.opened.scheduler.frontier
        async with asyncio.timeout(20):
            # Workers that share a crawl release idle hosts.
            while url is not None and len(frontier.permits):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.3)  # its last commit

        def memory() -> tuple[int, ...]:
            gate: Any = made.opened.scheduler.loop.callers
            lines = 0 if gate is None else len(gate._lines)
            return len(frontier.permits), len(frontier.robots._origins), lines

        before, held = await rows_of(made, url), memory()
        for n in range(1_000):
            name = f"unknown{n}.test"
            turn = await made.operations.callers.next_turn(f"http://{name}/x")
            assert (turn.in_s, turn.ahead) == (0.0, 0)
        answers = 0
        for n in range(20):
            given = {
                "url": f"http://unknown{n}.test/x", "host": f"unknown{n}.test",
                "origin": f"http://unknown{n}.test", "state": "queued", "text": "unknown",
            }  # fmt: skip
            for route in ROUTES:
                if route.method == "GET":
                    names = {one.encode_name for one in msgspec.structs.fields(route.query)}
                    items = [(key, value) for key, value in given.items() if key in names]
                    await served(made, route, items, b"")
                    answers += 1
        body = b'{"robots": "User-agent: *", "urls": ["http://unknown.test/"], "agent": "x"}'
        check = next(route for route in ROUTES if route.path == "/api/robots/check")
        await check.serve(made.operations, [], body)
        assert answers > 200
        after = await rows_of(made, url)
        assert all(now <= then for now, then in zip(memory(), held, strict=True))
    changed = {name for name in after if after[name] != before.get(name)}
    assert not [one for one in changed if not any(part in one for part in BY_ITSELF)], changed
