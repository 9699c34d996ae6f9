"""Rows on stdout: JSON lines and CSV whole, tables for eyes; nothing a page says is obeyed."""

from __future__ import annotations

import csv
import io
import json

import pytest

from crawler.cli.rows import TABLE_COLUMNS, _cut, _fit, write
from crawler.cli.show import VIEWS
from storage.memory import MemoryStore
from storage.rows import VIEWS as STORED


def test_the_views_are_the_store_s() -> None:
    assert set(VIEWS) == set(STORED) == set(TABLE_COLUMNS)
    for view, columns in TABLE_COLUMNS.items():
        assert set(columns) - {"key"} <= set(STORED[view])


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("how", ["table", "jsonl", "csv"])
async def test_every_view_in_every_format(
    view: str, how: str, store: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    await write(view, store.iterate(view), how)
    lines = capsys.readouterr().out.splitlines()
    rows = [row async for row in store.iterate(view)]
    assert rows
    assert len(lines) == len(rows) + (how != "jsonl")
    assert not any("\x1b" in line or "\x9b" in line for line in lines)


async def test_json_lines_have_the_view_s_columns(
    store: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    await write("blocked", store.iterate("blocked"), "jsonl")
    (line,) = capsys.readouterr().out.splitlines()
    assert [json.loads(line)] == [row async for row in store.iterate("blocked")]
    assert "\\u009b" in line


async def test_a_csv_cell_cannot_start_a_formula(
    store: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    await write("visited", store.iterate("visited"), "csv")
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row["title"].startswith('\'=cmd("x")')
    assert row["url"] == "http://a.test/"
    assert tuple(row) == STORED["visited"]


async def test_a_table_says_the_key_of_what_was_skipped(
    store: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    await write("skipped", store.iterate("skipped"), "table")
    assert "1200   max_depth  crawl.max_depth" in capsys.readouterr().out


async def test_an_empty_view_says_so_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    store = MemoryStore(lambda: 0.0)
    await store.open_session("test")
    await write("failed", store.iterate("failed"), "table")
    assert capsys.readouterr() == ("", "nothing is failed\n")


def test_the_widest_columns_are_cut_first() -> None:
    assert _fit([3, 40, 60], 80) == [3, 36, 36]
    assert _fit([3, 4], 80) == [3, 4]
    assert _fit([30, 30, 2], 10) == [8, 8, 2]


def test_wide_characters_are_cut_by_columns() -> None:
    assert _cut("題名題名", 5) == "題名…"
    assert _cut("short", 5) == "short"
