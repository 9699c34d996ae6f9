"""`courtly export`: whole views as files."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from crawler.cli import main
from crawler.clock import RealClock
from crawler.databases import open_store
from storage.columns import VIEWS
from storage.location import FileLocation
from storage.store import Batch, Failed, HostClock, HostUpdate, Link, Outlink, Rel, Store, Visited

ROWS = 4_500  # more than one batch
TITLES = ['=cmd|" /C calc"!A0', "+1", "@x", "-2", "  =3", "a, b", 'q"q', "ü"]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "crawl.db"
    asyncio.run(fill(path))
    return path


async def fill(path: Path) -> None:
    store: Store = open_store(FileLocation(path), RealClock())
    session = await store.open_session("test")
    await store.add(
        [Link(url=f"http://a.test/{n}", slot="a.test", host="a.test", depth=0) for n in range(ROWS)]
    )
    (lease,) = await store.claim(session, hosts=1, urls_per_host=ROWS)
    failed, *pages = lease.prefetched.urls
    await store.complete(
        session,
        Batch(
            outcomes=[
                Failed(id=failed.id, slot="a.test", error="dns: none", attempts=1, last_at=1.5),
                *(
                    Visited(
                        id=one.id,
                        slot="a.test",
                        status=200,
                        fetched_at=1_700_000_000.125,
                        content_type="text/html",
                        body_bytes=7,
                        elapsed_s=0.25,
                        title=TITLES[n % len(TITLES)],
                        indexable=n % 2 == 0,
                        outlinks=[Outlink("http://b.test/", "=1+1", Rel.NOFOLLOW)],
                    )
                    for n, one in enumerate(pages)
                ),
            ],
            hosts=[HostUpdate(slot="a.test", epoch=lease.epoch, clock=HostClock())],
        ),
    )
    await store.close(session)


def export(database: Path, *args: str) -> Result:
    return CliRunner().invoke(main, ["export", *args, "--db", str(database)])


def test_csv_has_every_row_and_no_formula(database: Path) -> None:
    result = export(database, "visited")
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert len(rows) == ROWS - 1
    assert tuple(rows[0]) == VIEWS["visited"]
    assert {row["title"] for row in rows} == {
        "'=cmd|\" /C calc\"!A0", "'+1", "'@x", "'-2", "'  =3", "a, b", 'q"q', "ü",
    }  # fmt: skip
    assert rows[0]["fetched_at"] == "1700000000.125"
    assert rows[0]["redirect_url"] == ""


def test_json_lines_are_unchanged(database: Path) -> None:
    result = export(database, "links", "--format", "jsonl", "--host", "a.test")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(rows) == ROWS - 1
    assert rows[0]["target"] == "http://b.test/"
    assert (rows[0]["anchor"], rows[0]["rel"]) == ("=1+1", "nofollow")
    assert export(database, "links", "--format", "jsonl", "--host", "b.test").stdout == ""


def test_parquet_has_types(database: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "visited.parquet"
    result = export(database, "visited", "--format", "parquet", "--output", str(file))
    assert result.exit_code == 0, result.output
    table = parquet.read_table(file)
    assert table.num_rows == ROWS - 1
    types = {field.name: str(field.type) for field in table.schema}
    assert types["status"] == "int64"
    assert types["fetched_at"] == "double"
    assert types["indexable"] == "bool"
    assert types["title"] == "string"
    assert table.column("indexable")[1].as_py() is False
    assert [one.name for one in tmp_path.iterdir()] == ["visited.parquet"]


def test_without_pyarrow_the_error_names_the_extra(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.cli.export.find_spec", lambda _: None)
    result = export(database, "visited", "--format", "parquet")
    assert result.exit_code == 2
    assert "pip install 'courtly[parquet]'" in result.stderr


@pytest.mark.parametrize("view", ["blocked", "failed"])
def test_an_empty_view_has_a_header(database: Path, view: str) -> None:
    result = export(database, view)
    assert result.stderr == ("no URL was blocked\n" if view == "blocked" else "")
    lines = result.stdout.splitlines()
    assert lines[0] == ",".join(VIEWS[view])
    assert len(lines) == (2 if view == "failed" else 1)


def test_an_unwritable_target(database: Path, tmp_path: Path) -> None:
    nowhere = export(database, "visited", "--output", str(tmp_path / "no" / "out.csv"))
    assert nowhere.exit_code == 1
    assert "Traceback" not in nowhere.stderr


def test_views_that_cannot_be_exported(database: Path) -> None:
    assert 'did you mean "visited"' in export(database, "visitd").stderr
    assert export(database, "hosts").exit_code == 2
    assert export(Path("no.db"), "visited").exit_code == 2


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "ndjson", "parquet"])
def test_the_suffix_of_the_file_chooses_the_format(
    database: Path, tmp_path: Path, suffix: str
) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    file = tmp_path / f"failed.{suffix}"
    command = ["export", "failed", "--db", str(database), "--output", str(file)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    start = {"csv": b"url,", "jsonl": b'{"url', "ndjson": b'{"url', "parquet": b"PAR1"}[suffix]
    assert file.read_bytes().startswith(start)
