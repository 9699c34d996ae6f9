"""Pages of queued, failed and visited URLs and of seeds: complete, in order, each row once."""

from __future__ import annotations

from typing import Any

import pytest

from storage.engine import url_pages
from storage.paging import mark
from storage.read_records import UrlFilter, UrlList


def filter_of(state: str, **more: Any) -> UrlFilter:
    return UrlFilter(state=UrlList(state), **more)


async def listed(rig: Any, state: str, limit: int = 2, **more: Any) -> list[str]:
    """The URLs of all pages."""
    found: list[str] = []
    after = ""
    for _ in range(100):
        page = await rig.reader.urls_page(filter_of(state, **more), limit=limit, after=after)
        assert len(page.rows) <= limit
        found += [row["url"] for row in page.rows]
        if page.after is None:
            return found
        after = page.after
    raise AssertionError("the pages have no end")


@pytest.fixture
async def crawl(rig: Any) -> Any:
    """Three hosts with five URLs each, of which one was visited and two have failed."""
    for name in ("a", "b", "c"):
        await rig.add(*(f"http://{name}.test/{number}" for number in range(5)))
    for lease in await rig.claim(10, 10):
        slot = lease.slot
        one, two, three = lease.prefetched.urls[:3]
        await rig.commit(
            lease,
            rig.visited(one, slot, status=404 if slot == "a.test" else 200),
            rig.failed(two, slot, error="timeout: it took too long"),
            rig.failed(
                three, slot, error="timeout_of: another code" if slot == "b.test" else "dns: no"
            ),
            release=True,
        )
    return rig


async def test_each_url_is_on_one_page(crawl: Any) -> None:
    for state, count in (("queued", 6), ("failed", 6), ("visited", 3)):
        urls = sorted(row["url"] for row in await crawl.rows(state))
        assert len(urls) == count
        for limit in (1, 2, 3, 6, 1000):
            assert sorted(await listed(crawl, state, limit)) == urls, (state, limit)


async def test_rows_have_the_columns_of_the_view(crawl: Any) -> None:
    for state in UrlList:
        page = await crawl.reader.urls_page(filter_of(state), limit=100)
        rows = await crawl.rows(state)
        assert sorted(map(str, page.rows)) == sorted(map(str, rows))


async def test_the_newest_is_first(rig: Any) -> None:
    await rig.add("http://a.test/1")
    await rig.add("http://b.test/2")
    await rig.add("http://a.test/3")
    assert await listed(rig, "queued") == ["http://a.test/3", "http://b.test/2", "http://a.test/1"]


async def test_of_one_host(crawl: Any) -> None:
    for state in UrlList:
        urls = sorted(row["url"] for row in await crawl.rows(state, host="b.test"))
        assert sorted(await listed(crawl, state, host="b.test")) == urls, state
        assert await listed(crawl, state, host="unknown.test") == [], state


async def test_by_a_part_of_the_url(crawl: Any) -> None:
    assert all("B.test/" not in url for url in await listed(crawl, "queued"))
    found = await listed(crawl, "queued", text="B.TEST/")
    assert len(found) == 2
    assert all(url.startswith("http://b.test/") for url in found)
    assert await listed(crawl, "queued", text="%") == []
    assert await listed(crawl, "queued", text="\0\ud800") == []


async def test_failed_ones_by_code_and_visited_ones_by_status(crawl: Any) -> None:
    assert len(await listed(crawl, "failed", code="timeout")) == 3
    assert len(await listed(crawl, "failed", code="timeout_of")) == 1
    assert len(await listed(crawl, "failed", code="dns", host="a.test")) == 1
    assert await listed(crawl, "failed", code="it's") == []
    assert len(await listed(crawl, "visited", status=404)) == 1
    assert len(await listed(crawl, "visited", status=200)) == 2


async def test_codes_are_counted(crawl: Any) -> None:
    found = await crawl.reader.failures_by_code()
    assert next(iter(found.items())) == ("timeout", 3)
    assert found == {"timeout": 3, "dns": 2, "timeout_of": 1}


async def test_a_page_looks_through_a_bounded_number_of_urls(
    crawl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(url_pages, "LOOKED_THROUGH_MAX", 2)
    for state in UrlList:
        rows = await crawl.rows(state)
        wanted = [row["url"] for row in rows if "a.test" in row["url"]]
        assert sorted(await listed(crawl, state, text="a.test")) == sorted(wanted)
    page = await crawl.reader.urls_page(filter_of("queued", text="a.test"))
    assert (page.rows, page.after is None) == ([], False)


async def test_bad_arguments(crawl: Any) -> None:
    for state in UrlList:
        wanted = filter_of(state)
        for after in ("x", mark("id", (1, 0)), mark(state, ("a", 0)), mark(state, (1.5, 0))):
            with pytest.raises(ValueError, match="after"):
                await crawl.reader.urls_page(wanted, after=after)
            with pytest.raises(ValueError, match="after"):
                await crawl.reader.seeds_page(after=after)
        for limit in (0, 1001):
            with pytest.raises(ValueError, match="a page has"):
                await crawl.reader.urls_page(wanted, limit=limit)


async def test_seeds_have_their_states(rig: Any) -> None:
    await rig.add(*(f"http://a.test/{number}" for number in range(4)), seed=True)
    await rig.add("http://a.test/found")
    (lease,) = await rig.claim(10, 10)
    one, two = lease.prefetched.urls[:2]
    outcomes = rig.visited(one, "a.test", status=404), rig.failed(two, "a.test", error="dns: no")
    await rig.commit(lease, *outcomes, release=True)
    rows, after = [], ""
    while True:
        page = await rig.reader.seeds_page(limit=1, after=after)
        rows += page.rows
        if page.after is None:
            break
        after = page.after
    found = {row["url"]: (row["state"], row["status"], row["error"]) for row in rows}
    assert len(rows) == 4
    assert found.pop(one.url) == ("visited", 404, None)
    assert found.pop(two.url) == ("failed", None, "dns: no")
    assert set(found.values()) == {("queued", None, None)}
    only = await rig.reader.seeds_page(state="queued", text="/")
    assert {row["url"] for row in only.rows} == set(found)
    assert (await rig.reader.seeds_page(text="found")).rows == []
