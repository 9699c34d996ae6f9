"""`courtly db`: info, check and vacuum."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from crawler.cli import main
from storage.sqlite import file_store
from storage.sqlite.schema import SCHEMA_VERSION
from storage.store import Link


def courtly(*args: str) -> Result:
    return CliRunner().invoke(main, args)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Ten queued URLs of one host, and two sessions: the second was killed."""
    path = tmp_path / "crawl.db"

    async def fill() -> None:
        store = file_store(path, wall=time.time)
        await store.open_session("crawl")
        await store.add(
            [
                Link(url=f"http://a.test/{n}", slot="a.test", host="a.test", depth=0)
                for n in range(10)
            ]
        )
        await store.close()
        store = file_store(path, wall=time.time)
        await store.open_session("evil \x1b[31m")
        await store.close()

    asyncio.run(fill())
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE sessions SET ended_at = NULL WHERE id = 2")
    db.close()
    return path


def test_info_for_people(path: Path) -> None:
    result = courtly("db", "info", "--db", str(path))
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    said = {line[:13].strip(): line[13:].strip() for line in lines}
    assert said["database"] == str(path)
    assert said["schema"] == f"version {SCHEMA_VERSION}"
    assert "bytes per URL" in said["size"]
    assert said["URLs"] == "10 discovered: 0 visited, 0 blocked, 0 failed, 10 queued"
    assert said["hosts"] == "1 with 1 origin; copies of robots.txt: 0"
    assert said["last written"].endswith("Z")
    assert said["sessions"].startswith("2: evil \N{REPLACEMENT CHARACTER}[31m, started ")
    assert said["sessions"].endswith("running or killed")
    assert lines[-1].strip().startswith("1: crawl, started ")
    assert ", ended " in lines[-1]


def test_info_as_json(path: Path) -> None:
    found = json.loads(courtly("db", "info", "--db", str(path), "--json").stdout)
    assert (found["database"], found["schema"], found["urls"], found["queued"]) == (
        str(path), SCHEMA_VERSION, 10, 10,
    )  # fmt: skip
    assert found["bytes_per_url"] > 0
    assert [one["name"] for one in found["sessions"]] == ["evil \x1b[31m", "crawl"]


def test_check_lists_problems_and_exits_with_1(path: Path) -> None:
    sound = courtly("db", "check", "--db", str(path))
    assert (sound.exit_code, sound.stdout) == (0, f"{path}: ok\n")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE slots SET queued = 7")
        db.execute("INSERT INTO failures SELECT 1, 1, 3, 0.0")
    db.close()
    result = courtly("db", "check", "--db", str(path))
    assert result.exit_code == 1
    assert "host a.test: queued is 7, but its origins say 10" in result.stdout
    assert "1 URLs failed without an error, or have an error without having failed" in result.stdout


def test_vacuum_prints_both_sizes(path: Path) -> None:
    result = courtly("db", "vacuum", "--db", str(path))
    assert result.exit_code == 0, result.output
    assert " before, " in result.stdout
    assert courtly("db", "check", "--db", str(path)).exit_code == 0


def test_copy_shows_what_it_copied_and_checks_it(path: Path) -> None:
    copied = path.with_name("copy.db")
    result = courtly("db", "copy", str(path), str(copied))
    assert result.exit_code == 0, result.output
    assert "urls: 10 rows copied\n" in result.stderr
    assert result.stdout.endswith("copy.db: ok\n")
    again = courtly("db", "copy", str(path), str(copied))
    assert again.exit_code == 2
    assert "holds a crawl: copy to a database that does not exist" in again.stderr
    missing = courtly("db", "copy", str(path.with_name("none.db")), str(path.with_name("x.db")))
    assert missing.exit_code == 2
    assert not path.with_name("none.db").exists()
