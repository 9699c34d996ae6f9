"""`courtly demo`, as a new user runs it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
import time
from pathlib import Path
from typing import Any

from tests.command_processes import start


async def demo(folder: Path) -> tuple[str, float]:
    """Its standard output and its duration in seconds."""
    began_s = time.monotonic()
    process = await start("demo", env={"TMPDIR": str(folder), "COLUMNS": "80"})
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert b"Traceback" not in errors
    return out.decode(), time.monotonic() - began_s


def rows(out: str, query: str) -> list[tuple[Any, ...]]:
    """The rows that the demo's database contains; URLs without scheme and port."""
    found = re.search(r"^The database is kept: (.*)$", out, re.MULTILINE)
    assert found
    with contextlib.closing(sqlite3.connect(f"file:{found[1]}?mode=ro", uri=True)) as db:
        db.create_function("short", 1, lambda url: re.sub(r"^http://([^:/]*)(:\d+)?", r"\1", url))
        return db.execute(query).fetchall()


async def twice(folder: Path) -> tuple[str, float]:
    first, _ = await asyncio.gather(demo(folder), demo(folder))
    return first


def test_the_demo_shows_everything_in_well_under_a_minute(tmp_path: Path) -> None:
    """It can also be run again, even while another one is running."""
    out, took_s = asyncio.run(twice(tmp_path))
    assert took_s < 30
    assert len(list(tmp_path.glob("courtly-demo-*/crawl.db"))) == 2

    blocked = rows(out, "SELECT short(url), reason, rule, line FROM blocked ORDER BY 1")
    assert [row for row in blocked if not row[0].startswith("late.test/")] == [
        ("library.test/search?q=robots", "robots", "Disallow: /search", 3),
        ("library.test/staff-only/stacks.html", "robots", "Disallow: /staff-only/", 2),
        ("members.test/", "robots", "Disallow: /", 3),
        ("moved.test/stacks-2.html", "redirect", "Disallow: /staff-only/", 2),
        ("moved.test/stacks.html", "redirect", "Disallow: /staff-only/", 2),
        ("shop.test/basket?sessionid=8f3a", "robots", "Disallow: /*?sessionid", 7),
        ("shop.test/item-1_print.html", "robots", "Disallow: /*_print*.html", 6),
        ("shop.test/list_print_all.html", "robots", "Disallow: /*_print*.html", 6),
        ("shop.test/logo.gif", "robots", "Disallow: /*.gif$", 8),
        ("shop.test/private-sale/", "robots", "Disallow: /private*", 9),
    ]
    late = [row for row in blocked if row[0].startswith("late.test/")]
    assert {row[1:] for row in late} == {("robots", "Disallow: /staff/", 2)}
    assert len(late) == 10
    ((withdrawn,),) = rows(out, "SELECT count(*) FROM blocked WHERE withdrawn")
    assert 1 <= withdrawn < 10

    failed = rows(out, "SELECT short(url), substr(error, 1, instr(error, ':') - 1) FROM failed")
    assert sorted(failed) == [
        ("10.0.0.1/admin", "address"),
        ("garden.test/shed.html", "http"),
        ("gone.test/", "connect"),
    ]
    assert rows(out, "SELECT short(url) FROM queued") == [("lunch.test/desk.html",)]
    ((shown,),) = rows(out, "SELECT count(*) FROM visited WHERE url LIKE '%/hidden%'")
    assert shown == 0

    tables, _, _commands = out.partition("What to try next")
    commands = [line for line in tables.splitlines() if line.lstrip().startswith("courtly ")]
    assert f"courtly retry failed --db {tmp_path}" in commands[1]  # whole, to be copied
    assert max(len(line) for line in tables.splitlines() if line not in commands) <= 80
    for words in ("Visited: ", "Blocked: ", "Failed:", "withdrawn", "lunch.test", "courtly why "):
        assert words in out
