"""`courtly retry failed`, `courtly drop failed` and `courtly seeds list` on a database at rest."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from crawler.cli import main, seeds
from crawler.daemon.api.url_lists import SEED_STATES
from storage.sqlite import file_store
from storage.store import Batch, Failed, HostClock, HostUpdate, Link

ERRORS = {"/1": "dns: no", "/2": "timeout: late", "/3": "timeout: late"}


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """Four seeds, of which three have failed."""
    path = tmp_path / "crawl.db"

    async def fill() -> None:
        store = file_store(path, wall=lambda: 1.8e9)
        session = await store.open_session("test")
        links = [
            Link(url=f"http://a.test{path}", slot="a.test", host="a.test", depth=0, seed=True)
            for path in (*ERRORS, "/4")
        ]
        await store.add(links)
        (lease,) = await store.claim(session, hosts=1, urls_per_host=9)
        outcomes = [
            Failed(id=one.id, slot="a.test", error=ERRORS[one.url[13:]], attempts=1, last_at=1.8e9)
            for one in lease.prefetched.urls
            if one.url[13:] in ERRORS
        ]
        update = HostUpdate(slot="a.test", epoch=lease.epoch, clock=HostClock(), release=True)
        await store.complete(session, Batch(outcomes=outcomes, hosts=[update]))
        await store.close()

    asyncio.run(fill())
    return path


def said(db: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--db", str(db)])


def test_failed_urls_are_dropped_by_code_and_host(db: Path) -> None:
    assert "2 failed URLs dropped" in said(db, "drop", "failed", "--code", "timeout").output
    assert (
        "no URL has failed with the code timeout"
        in said(db, "drop", "failed", "--code", "timeout").output
    )
    assert "1 failed URL dropped" in said(db, "drop", "failed", "--host", "a.test").output
    assert said(db, "drop", "failed", "--host", "b.test").exit_code == 2
    assert "dropped" in said(db, "show", "skipped").output


def test_failed_urls_are_retried_by_code(db: Path) -> None:
    assert "1 failed URL queued again" in said(db, "retry", "failed", "--code", "dns").output
    assert (
        "no URL has failed with the code dns" in said(db, "retry", "failed", "--code", "dns").output
    )
    assert said(db, "retry", "quarantined", "--code", "dns").exit_code == 2


def test_seeds_are_listed_with_their_states(db: Path) -> None:
    lines = said(db, "seeds", "list", "--format", "jsonl").output.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [(row["url"], row["state"]) for row in rows] == [
        ("http://a.test/4", "queued"),
        ("http://a.test/3", "failed"),
        ("http://a.test/2", "failed"),
        ("http://a.test/1", "failed"),
    ]
    assert rows[3]["error"] == "dns: no"
    table = said(db, "seeds", "list", "--state", "failed", "--search", "/2").output
    assert "http://a.test/2" in table
    assert "timeout: late" in table
    assert "/3" not in table
    assert (
        len(said(db, "seeds", "list", "--limit", "2", "--format", "csv").output.splitlines()) == 3
    )
    assert "no seed matches" in said(db, "seeds", "list", "--state", "visited").output
    assert said(db, "seeds", "list", "--state", "queue").exit_code == 2


def test_the_states_are_those_of_the_api() -> None:
    assert seeds.STATES == SEED_STATES
