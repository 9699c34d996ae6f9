"""A database with flipped bits: commands that read it or resume its crawl succeed or print an error
message. Damaged strings are shown, and `db check` names their rows."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from crawler.cli import main
from policies.robots_state import RobotsState
from storage.sqlite import file_reader, file_store
from storage.sqlite.maintenance import check
from storage.store import (
    Batch,
    Blocked,
    BlockReason,
    Contact,
    Failed,
    HostClock,
    HostUpdate,
    Lease,
    Link,
    Outcome,
    Outlink,
    Plan,
    Prefetch,
    Queued,
    Retry,
    SitemapRead,
    StoreError,
    Visited,
)

START_S = 1_800_000_000.0
ROUNDS = 12
DAMAGED = b"/caf\xe9"  # Latin-1 where UTF-8 should be
COMMANDS = [
    ("show", "visited"), ("show", "blocked"), ("show", "failed"), ("show", "queued"),
    ("show", "links"), ("show", "hosts"), ("show", "robots"), ("show", "skipped"),
    ("show", "sitemaps"), ("show", "visited", "--format", "jsonl"),
    ("show", "hosts", "--format", "csv"), ("why", "http://a.test/1"),
    ("why", "http://a.test/blocked"), ("why", "a.test"), ("export", "visited"),
    ("export", "blocked", "--format", "jsonl"), ("export", "links"), ("report", "broken"),
    ("report", "robots", "--format", "json"), ("report", "duplicates", "--format", "html"),
    ("report", "politeness"), ("db", "check"), ("db", "info"), ("db", "info", "--json"),
    ("status",),
]  # fmt: skip


def link(url: str, **values: Any) -> Link:
    host = url.split("/")[2]
    return Link(url=url, slot=host, host=host, depth=0, **values)


def outcome(lease: Lease, queued: Queued, n: int) -> Outcome | None:
    """A site with some of everything."""
    key, slot = queued.id, lease.slot
    if queued.url.endswith("/blocked"):
        return Blocked(
            id=key, slot=slot, reason=BlockReason.ROBOTS, dialect="rfc9309", rule="Disallow: /b",
            line=2, robots_url="http://a.test/robots.txt", blocked_at=START_S,
        )  # fmt: skip
    if queued.sitemap:
        return SitemapRead(
            id=key, slot=slot, status=200, fetched_at=START_S, kind="rss", urls=2, error="cut"
        )
    if n % 5 == 4:
        return Failed(id=key, slot=slot, error="CONNECT: no", attempts=3, last_at=START_S)
    if n % 5 == 3:
        return Retry(id=key, slot=slot, due_in_s=5, attempts=1, refusals=1, error="TIMEOUT: late")
    return Visited(
        id=key, slot=slot, status=(200, 301, 404)[n % 3], fetched_at=START_S,
        content_type="text/html", body_bytes=1000, elapsed_s=0.1, title=f"Title ü {n}",
        redirect_url="http://a.test/blocked" if n % 3 == 1 else None,
        canonical_url="http://a.test/c", body_hash="f00d" * 4, usage="tdm: 1",
        outlinks=[Outlink(f"http://a.test/{m}", "text", None) for m in range(4)],
        plan=Plan(
            due_in_s=5, interval_s=9, checked_at=START_S, changed_at=START_S, visits=2, etag='"1"'
        ),
    )  # fmt: skip


async def fill(path: Path) -> None:
    store = file_store(path, wall=lambda: START_S)
    session = await store.open_session("crawl")
    await store.add(
        [link(f"http://a.test/{n}", seed=n < 2) for n in range(12)]
        + [link("http://a.test/blocked"), link("http://b.test/"), link("http://c.test/x")]
        + [link("http://a.test/s.xml", sitemap=True)]
    )
    for lease in await store.claim(session, hosts=9, urls_per_host=40):
        outcomes = [outcome(lease, one, n) for n, one in enumerate(lease.prefetched.urls)]
        update = HostUpdate(
            slot=lease.slot,
            epoch=lease.epoch,
            clock=HostClock(next_in_s=1, delay_s=1, delay_source="config"),
            contacts=[Contact(start_at=START_S, end_at=START_S + 1, kind="page", status=200)] * 3,
            release=True,
        )
        done = [one for one in outcomes if one is not None]
        await store.complete(session, Batch(outcomes=done, hosts=[update], skipped={"depth": 3}))
    rules = RobotsState(status=200, body=b"User-agent: *\nDisallow: /b\n", expires_at=START_S + 10)
    await store.robots_put(session, "a.test", "http://a.test", rules)
    await store.close()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a small database with little free space."""
    path = tmp_path_factory.mktemp("image") / "crawl.db"
    asyncio.run(fill(path))
    with closing(sqlite3.connect(path, isolation_level=None)) as db, db:
        for pragma in ("journal_mode = DELETE", "page_size = 512"):
            db.execute(f"PRAGMA {pragma}").fetchall()
        db.execute("VACUUM")
    db.close()
    return path.read_bytes()


async def resume(path: Path) -> None:
    """The operations of a crawl on its database."""
    store = file_store(path, wall=lambda: START_S + 3600)
    try:
        session = await store.open_session("again")
        async for _ in store.seeds():
            pass
        await store.stats()
        await store.outlook(session)
        for lease in await store.claim(session, hosts=9, urls_per_host=9):
            pages = [
                Visited(
                    id=one.id, slot=lease.slot, status=200, fetched_at=START_S,
                    content_type="text/html", body_bytes=1, elapsed_s=0.1,
                    links=[link(f"http://a.test/new{n}")],
                )
                for n, one in enumerate(lease.prefetched.urls)
            ]  # fmt: skip
            update = HostUpdate(slot=lease.slot, epoch=lease.epoch, clock=lease.clock)
            want = Prefetch(slot=lease.slot, count=5, in_memory=[])
            await store.complete(session, Batch(outcomes=pages, hosts=[update], prefetch=[want]))
        for due in await store.robots_due(session, limit=9):
            await store.robots_get(due.origin)
        await store.ungoverned("http://a.test", limit=9)
        blocked = await store.blocked_by_robots("http://a.test", after=0, limit=9)
        freed = [one.id for one in blocked]
        await store.rejudge(session, kept=[], withdrawn=[], freed=freed)
        await store.revisits_due(session, limit=9)
        await store.unplanned(session, after=0, limit=100)
        await store.retry_failed()
        await store.acquire(session, ["a.test", "b.test", "c.test"])
    finally:
        await store.close()


async def look(path: Path) -> None:
    async with file_reader(path) as reader:
        await reader.hosts_page()
        await reader.blocked_page(rule="b")
        await reader.robots_copy("http://a.test")
        await reader.robots_body("http://a.test/blocked")
        await reader.sessions()
        await reader.robots_states(["a.test"])
        await reader.blocked_lines("http://a.test")


def courtly(path: Path, *arguments: str) -> Result:
    """Fail on any result other than success or an error message."""
    # an exception other than StoreError is a bug, and fails the test
    result = CliRunner(env={"COURTLY_DEBUG": "1"}).invoke(main, [*arguments, "--db", str(path)])
    if result.exception is not None and not isinstance(result.exception, SystemExit | StoreError):
        raise AssertionError(arguments) from result.exception
    return result


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_any_flipped_bit_yields_rows_or_an_error_message(
    image: bytes, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    path = tmp_path / "crawl.db"
    letters = [at for at, byte in enumerate(image) if 32 < byte < 127]
    damaged = bytearray(image)
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.choice(letters) if chance.random() < 0.5 else chance.randrange(len(image))
        damaged[at] ^= 1 << (7 if chance.random() < 0.3 else chance.randrange(8))
    path.write_bytes(damaged)
    for command in COMMANDS:
        courtly(path, *command)
    for work in (look, resume):
        with contextlib.suppress(StoreError):
            asyncio.run(work(path))


@pytest.mark.parametrize(
    ("table", "column", "where", "named"),
    [
        ("urls", "path", "id = 1", "(http://a.test/caf\ufffd)"),
        ("pages", "title", "id = 1", "(http://a.test/0)"),
        ("urls", "anchor", "id = 13", "(http://a.test/blocked)"),
        ("verdicts", "rule", "id = 1", "table verdicts, row 1"),
        ("slots", "delay_source", "name = 'a.test'", "table slots"),
        ("sessions", "name", "1", "table sessions, row 1"),
    ],
)
def test_damaged_strings_are_shown_and_reported(
    image: bytes, tmp_path: Path, table: str, column: str, where: str, named: str
) -> None:
    path = tmp_path / "crawl.db"
    path.write_bytes(image)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE {where}", (DAMAGED,))
    db.close()
    result = courtly(path, "db", "check")
    assert result.exit_code == 1
    (line,) = [one for one in result.output.splitlines() if "UTF-8" in one]
    assert f"table {table}" in line
    assert column in line
    assert named in line
    assert "caf\ufffd" in line
    for command in COMMANDS:
        if command[:2] != ("db", "check"):
            assert courtly(path, *command).exit_code == 0, command
    shown = (
        "".join(courtly(path, *command).output for command in COMMANDS if command[0] != "db")
        + courtly(path, "db", "info").output
    )
    assert "caf\ufffd" in shown
    assert len(check(path)) == 1


def test_rows_with_damaged_keys_are_listed_once(image: bytes, tmp_path: Path) -> None:
    """A page of rows starts after the bytes of a name, not after the decoded string."""
    path = tmp_path / "crawl.db"
    path.write_bytes(image)
    names = [b"caf\xe9", b"caf\xff", b"caf\xc3\xa9", b"zo\xeb"]
    with closing(sqlite3.connect(path)) as db, db:
        for name in names:
            db.execute("INSERT INTO skips VALUES (CAST(? AS TEXT), 1)", (name,))
    db.close()

    async def reasons() -> list[object]:
        from storage.engine.view_rows import ViewRows

        found: list[object] = []
        async with file_reader(path) as reader:
            rows = ViewRows("skipped", None)
            while some := await reader._database.read(lambda sql: rows.read(sql, 1)):
                found += [row["reason"] for row in some]
                assert len(found) < 20
        return found

    assert asyncio.run(reasons()) == ["caf\u00e9", "caf\ufffd", "caf\ufffd", "depth", "zo\ufffd"]


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("crawl", "last_at", 1e308),
        ("crawl", "last_at", -1e308),
        ("crawl", "shift_s", float("inf")),
        ("crawl", "session", -(2**63)),
        ("crawl", "session", 2**63 - 1),
        ("bodies", "packed", b""),
        ("bodies", "packed", b"\x00" * 9),
        ("slots", "next_at", 1e308),
        ("slots", "delay_s", float("inf")),
        ("copies", "expires_at", -1e308),
        ("copies", "fetched_at", 1e308),
        ("contacts", "start_at", 1e308),
        ("plans", "due_at", float("inf")),
        ("hints", "lastmod", 2**63 - 1),
        ("pages", "fetched_ms", 2**63 - 1),
        ("failures", "last_at", float("-inf")),
        ("sessions", "began_at", 1e308),
    ],
)
def test_impossible_values_yield_rows_or_an_error_message(
    image: bytes, tmp_path: Path, table: str, column: str, value: object
) -> None:
    path = tmp_path / "crawl.db"
    path.write_bytes(image)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE {table} SET {column} = ?", (value,))
    db.close()
    for command in COMMANDS:
        courtly(path, *command)
    for work in (look, resume):
        with contextlib.suppress(StoreError):
            asyncio.run(work(path))


@pytest.mark.parametrize(
    "damage",
    [
        *(f"DELETE FROM {table}" for table in ("pages", "blocks", "failures", "origins", "slots")),
        *(f"UPDATE urls SET state = {state}" for state in range(8)),
    ],
)
def test_inconsistent_rows_yield_rows_or_an_error_message(
    image: bytes, tmp_path: Path, damage: str
) -> None:
    path = tmp_path / "crawl.db"
    path.write_bytes(image)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        db.execute(damage)
    db.close()
    for command in COMMANDS:
        courtly(path, *command)
    for work in (look, resume):
        with contextlib.suppress(StoreError):
            asyncio.run(work(path))
