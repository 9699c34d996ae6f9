"""The plans of the statements that run during a crawl: rows are found by an index, in an empty
database, where the plans are made, as in one with many rows. No table is scanned as it grows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from storage.columns import VIEWS
from storage.engine import page_queries
from storage.engine.statements import Parameter, Statements
from storage.location import ServerLocation, parse_location
from storage.paging import mark
from storage.postgres.dialect import with_numbers
from storage.postgres.postgres_reader import ServerReads
from storage.postgres.statements import statements
from tests.postgres_server import PostgresServer, schema

from .conftest import read_script

FILLED = Path(__file__).with_name("filled.sql").read_text(encoding="utf-8")
HOSTS = 5_000  # with 210,000 URLs

# Tables of which few rows exist at a time: one per session, of which a thousand are kept, one per
# reason and session, or the commands of an hour.
SMALL = {"crawl", "secret", "sessions", "totals", "skips", "orders", "ticks"}
# Statements that read an index from its beginning, in order, and stop after some rows.
FIRST_OF_ALL = {"next_revisit", "next_claim", "next_robots", "rejudge_due", "some_chains"}
# Statements that read all hosts, because an operator asked for a change of all.
OF_ALL_HOSTS = {"recheck_delays", "mark_all_to_rejudge", "failed_slots", "failing_robots"}
# Statements of `courtly db info`.
OFFLINE = {"sizes"}
# Statements that read an index of bounded size from its end, to find out what is too much.
BOUNDED = {"marks_excess"}
# Statements of stores with one worker: on a server, addresses are leased instead.
UNSHARED = {"address_delays"}


async def plan_of(db: asyncpg.Connection[Any], sql: str, count: int) -> Mapping[str, Any]:
    """The plan for any values."""
    await db.execute(f"PREPARE planned AS {sql}")
    values = f"({', '.join(['NULL'] * count)})" if count else ""
    (found,) = json.loads(await db.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE planned{values}"))
    await db.execute("DEALLOCATE planned")
    plan: Mapping[str, Any] = found["Plan"]
    return plan


def nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def scans(plan: Mapping[str, Any]) -> list[str]:
    """What in a plan takes longer as a table grows: scans of tables, or of whole indexes, and joins
    that read all rows of one side."""
    found = []
    for node in nodes(plan):
        kind, table = node["Node Type"], node.get("Relation Name", "")
        if {table, node.get("Index Name", "").partition("_")[0]} & SMALL:
            continue
        if kind == "Seq Scan" or "Join" in kind:
            found.append(f"{kind} {table}")
        elif "Index" in kind and "Index Cond" not in node:
            found.append(f"{kind} of the whole {node['Index Name']}")
    return found


@pytest.fixture(scope="module", params=["empty", "filled"])
def planned_url(request: pytest.FixtureRequest, postgres: PostgresServer) -> Iterator[str]:
    """A database that is empty, and one with many rows."""
    url = postgres.create_database()
    script = FILLED.replace("SLOTS", str(HOSTS)) if request.param == "filled" else ""
    postgres.execute(schema() + script, url=url)
    yield url
    postgres.drop_database(url)


@pytest.fixture
async def db(planned_url: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    # Without a cache, which would hold what DEALLOCATE removes.
    connection = await asyncpg.connect(planned_url, statement_cache_size=0)
    await connection.execute(read_script("settings"))
    yield connection
    await connection.close()


async def test_no_statement_scans_a_table_that_grows(db: asyncpg.Connection[Any]) -> None:
    found = {}
    for name, sql in statements().items():
        count = len((await db.prepare(sql)).get_parameters())
        plan = await plan_of(db, sql, count)
        if scanned := scans(plan):
            found[name] = scanned
            if name in FIRST_OF_ALL:
                assert any(node["Node Type"] == "Limit" for node in nodes(plan)), name
                assert len(scanned) == 1, scanned
    assert set(found) == FIRST_OF_ALL | OF_ALL_HOSTS | OFFLINE | BOUNDED | UNSHARED, found


# What readers sort views by, see `storage.engine.view_rows`.
KEYS = {
    "hosts": "host", "robots": "origin", "skipped": "reason", "links": "id, target_id",
    "malformed": "id, place", "fragments": "id, place",
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
async def test_views_continue_where_a_reader_was(db: asyncpg.Connection[Any], view: str) -> None:
    keys = KEYS.get(view, "id")
    sql = f"SELECT * FROM {view} WHERE ({keys}) > ({{}}) ORDER BY {keys} LIMIT 500"
    values = ", ".join(f"${n + 1}" for n in range(keys.count(",") + 1))
    assert scans(await plan_of(db, sql.format(values), keys.count(",") + 1)) == []


@pytest.mark.parametrize("view", [view for view in VIEWS if view not in KEYS])
async def test_views_find_urls(db: asyncpg.Connection[Any], view: str) -> None:
    for condition in ("id = $1", "id = ANY ($1::bigint[])"):
        assert scans(await plan_of(db, f"SELECT * FROM {view} WHERE {condition}", 1)) == []


def pages() -> Iterator[tuple[str, Mapping[str, Parameter]]]:
    """The pages of the API that are read along an index, from the middle."""
    for sort in ("host", "-host"):
        after = mark(sort, ("m.test", "m.test"))
        hosts = page_queries.hosts(
            search="x", state="queued", sort=sort, limit=100, after=after, now_s=0.0
        )
        yield hosts.sql, hosts.values
    for host, rule in ((None, ""), (None, "/x"), ("a.test", "")):
        after = mark("id", (1, 2))
        blocked = page_queries.blocked(host=host, rule=rule, limit=100, after=after)
        yield blocked.sql, blocked.values | {"origins": [1, 2]}


async def test_pages_are_read_along_the_index(db: asyncpg.Connection[Any]) -> None:
    for sql, values in pages():
        text, arguments = with_numbers(sql, values)
        plan = await plan_of(db, text, len(arguments))
        assert scans(plan) == [], text
        assert "Sort" not in {node["Node Type"] for node in nodes(plan)}, text


async def test_rows_of_a_host_are_found_by_its_origins(db: asyncpg.Connection[Any]) -> None:
    text, _ = with_numbers("SELECT * FROM robots WHERE id IN :ids ORDER BY origin", {"ids": [1]})
    assert scans(await plan_of(db, text, 1)) == []


@pytest.mark.parametrize("planned_url", ["empty"], indirect=True)
async def test_readers_plan_as_writers_do_but_for_reports(planned_url: str) -> None:
    def settings(sql: Statements) -> list[object]:
        names = ("enable_seqscan", "enable_hashjoin", "join_collapse_limit", "plan_cache_mode")
        return [sql.select(f"SHOW {name}", {})[0][0] for name in names]

    def read() -> tuple[list[object], list[object]]:
        location = parse_location(planned_url)
        assert isinstance(location, ServerLocation)
        with closing(ServerReads(location)) as connection:
            before = connection.read(settings)
            connection.read_all("SELECT 1", lambda rows: None)
            return before, connection.read(settings)

    before, after = await asyncio.to_thread(read)
    assert before == ["off", "off", "1", "force_generic_plan"]
    assert after == ["on", "on", "8", "auto"]


# ---------------------------------------------------------------- what an update writes


UPDATES: Mapping[str, list[object]] = {
    "count_slots": [[(256 + 1, 1, 1, 0, 0, 10)]],
    "count_origins": [[(256 + 1, 1, 1, 0, 0, 10, 0, 1)]],
    "put_contacts": [[(256 + 1, 3, 1.0, 2.0, "page", 200)]],
    "beat": [9, True, False, 1, 1, 1, 1.0, 1, 15.0, "[]", 1.0],
    "add_to_totals": [9, 1, 1, 1, 1, 1, 1],
    "count_commit": [9],
    "add_to_skips": [["scope 1"], [1], 1],
    "put_query_counts": [[256 + 1], [256 + 1], [4]],
    "wind_slots": [
        [(
            256 + 1, 1.0, 2.0, 1, 1.0, 1.0, 1.0, 1.0, "robots", 0.1, 1, 1.0, 1, 1, 503, 1, 1.0, 1,
            1, 1, "192.0.2.1", 1.0, 1, 1, 1, 1, 1,
        )],
        1, 1.0,
    ],
}  # fmt: skip


@pytest.mark.parametrize("planned_url", ["filled"], indirect=True)
@pytest.mark.parametrize("name", UPDATES)
async def test_counters_and_clocks_write_no_index(db: asyncpg.Connection[Any], name: str) -> None:
    """The new version of a row is on the page of the old one, which has room for it."""
    async with db.transaction():
        await db.execute("SELECT pg_current_xact_id()")  # a commit is counted if it has a number
        for _ in range(3):
            await db.execute(statements()[name], *UPDATES[name])
        rows = await db.fetch(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE n_tup_upd > 0"
        )
    assert [tuple(row) for row in rows] == [(3, 3)]
