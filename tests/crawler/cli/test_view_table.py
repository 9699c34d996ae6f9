"""Views as tables, JSON lines and CSV, without control characters."""

from __future__ import annotations

import csv
import io
import json

import pytest

from crawler.cli.show import VIEWS
from crawler.cli.view_table import TABLE_COLUMNS, Layout, _shown, wrap, write
from crawler.cli.why import _explain_url
from crawler.config import from_dict
from crawler.explain.explanation import ExplainContext
from policies.listing import Changefreq, Listing
from storage.columns import VIEWS as STORED
from storage.sqlite import memory_store
from storage.store import Batch, HostClock, HostUpdate, Link, Prefetch, SitemapRead, Store


def test_the_views_are_those_of_the_store() -> None:
    assert set(VIEWS) == set(STORED) == set(TABLE_COLUMNS)
    for view, columns in TABLE_COLUMNS.items():
        assert set(columns) - {"key"} <= set(STORED[view])


async def read_sitemap(store: Store) -> None:
    """A sitemap on a separate host, and its listing of another URL."""
    session = await store.open_session("test")
    url, page = "http://maps.test/sitemap.xml", "http://maps.test/page"
    await store.add(
        [Link(url=url, slot="maps.test", host="maps.test", depth=0, priority=1.0, sitemap=True)]
    )
    leases = await store.acquire(session, ["maps.test"])
    update = HostUpdate(slot="maps.test", epoch=leases["maps.test"].epoch, clock=HostClock())
    want = Prefetch(slot="maps.test", count=1)
    done = await store.complete(session, Batch(hosts=[update], prefetch=[want]))
    (queued,) = done.prefetched["maps.test"].urls
    listing = Listing(lastmod_at=1_700_000_000.0, changefreq=Changefreq.DAILY, priority=0.8)
    await store.add(
        [Link(url=page, slot="maps.test", host="maps.test", depth=1, listing=listing)],
        referrer=queued.id,
    )
    read = SitemapRead(
        id=queued.id, slot="maps.test", status=200, fetched_at=1_800_000_000.0, kind="rss",
        body_bytes=1500, urls=1, error="cut\x1b short",
    )  # fmt: skip
    await store.complete(session, Batch(outcomes=[read], hosts=[update]))


async def test_every_view_in_every_format(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    await read_sitemap(store)
    for view in VIEWS:
        for how in ["table", "jsonl", "csv"]:
            await write(view, store.reader.iterate(view), how)
            lines = capsys.readouterr().out.splitlines()
            rows = [row async for row in store.reader.iterate(view)]
            assert rows, (view, how)
            assert len(lines) == len(rows) + (how != "jsonl")
            assert not any("\x1b" in line or "\x9b" in line for line in lines), (view, how)


async def test_why_explains_sitemaps_and_their_listings(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    await read_sitemap(store)
    asked = ExplainContext(config=from_dict({}))
    await _explain_url(store.reader, asked, "http://maps.test/sitemap.xml")
    text = capsys.readouterr().out
    assert "an RSS feed, read at 2027-01-15" in text
    assert "status 200, 1.5 KB, 1 URL taken from it" in text
    assert "part of it could not be used: cut" in text
    assert "named by a robots.txt, listed in `scope.sitemap_paths`" in text
    await _explain_url(store.reader, asked, "http://maps.test/page")
    text = capsys.readouterr().out
    assert "listed in a sitemap: last modified at 2023-11-14" in text
    assert "changes daily, priority 0.8" in text
    assert "found on http://maps.test/sitemap.xml" in text


async def test_json_lines_have_all_columns(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    await write("blocked", store.reader.iterate("blocked"), "jsonl")
    (line,) = capsys.readouterr().out.splitlines()
    assert [json.loads(line)] == [row async for row in store.reader.iterate("blocked")]
    assert "\\u009b" in line


async def test_a_csv_cell_cannot_start_a_formula(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    await write("visited", store.reader.iterate("visited"), "csv")
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row["title"].startswith('\'=cmd("x")')
    assert row["url"] == "http://a.test/"
    assert tuple(row) == STORED["visited"]


async def test_the_table_of_skipped_urls_names_config_keys(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    await write("skipped", store.reader.iterate("skipped"), "table")
    assert "1200   max_depth  crawl.max_depth" in capsys.readouterr().out


async def test_an_empty_view_prints_a_message_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    store = memory_store(wall=lambda: 0.0)
    await store.open_session("test")
    await write("failed", store.reader.iterate("failed"), "table")
    assert capsys.readouterr() == ("", "no URL has failed\n")


async def test_a_table_fits_the_terminal_without_truncation(store: Store) -> None:
    for room in [60, 80, 100]:
        for view in VIEWS:
            columns = TABLE_COLUMNS[view]
            rows = [
                [_shown(view, name, row) for name in columns]
                async for row in store.reader.iterate(view)
            ]
            rows = [
                [cell + "/long-words and/more" * 9 if name == "url" else cell
                 for name, cell in zip(columns, row, strict=True)]
                for row in rows
            ]  # fmt: skip
            layout = Layout.fitting(columns, rows, room)
            for row in (columns, *rows):
                lines = layout.lines(row)
                assert max(map(len, lines)) <= room
                # all text of a cell is in the lines of its column
                starts = [sum(layout.widths[:n]) + 2 * n for n in range(len(layout.widths))]
                for n, index in enumerate(layout.shown):
                    end = starts[n] + layout.widths[n]
                    cell = "".join(line[starts[n] : end].strip() for line in lines)
                    assert cell.replace(" ", "") == row[index].replace(" ", ""), (room, view)


def test_the_least_important_columns_are_dropped_first() -> None:
    columns = TABLE_COLUMNS["blocked"]
    row = ["robots", "2", "Disallow: /private/", "no", "http://a.test/private/x" * 3, "http://a/"]

    def shown(room: int, withdrawn: str = "no") -> list[str]:
        cells = [withdrawn if cell == "no" else cell for cell in row]
        return [columns[index] for index in Layout.fitting(columns, [cells], room).shown]

    assert shown(200) == list(columns)
    assert shown(60) == ["reason", "line", "rule", "url"]
    assert shown(70, "yes") == ["reason", "line", "rule", "withdrawn", "url"]


def test_the_url_gets_the_remaining_width() -> None:
    columns = TABLE_COLUMNS["failed"]
    row = ["3", "2026-11-20 10:53Z", "http://a.test/" + "x" * 200, "timeout: no answer"]
    layout = Layout.fitting(columns, [row], 100)
    assert dict(zip(columns, layout.widths, strict=True))["url"] == 100 - 6 - 8 - 17 - 18


def test_nothing_is_wrapped_without_a_terminal() -> None:
    row = ["0", "1", "2", "now", "http://a.test/" + "x" * 500]
    layout = Layout.fitting(TABLE_COLUMNS["queued"], [row], None)
    assert layout.lines(row)[0].endswith("x" * 500)
    assert len(layout.lines(row)) == 1


def test_cells_are_wrapped_by_display_width() -> None:
    assert wrap("題名題名", 5) == ["題名", "題名"]
    assert wrap("short", 5) == ["short"]
    assert wrap("one two threefour", 7) == ["one two", "threefo", "ur"]
