"""Failed URLs that an operator drops: in no view, skipped, and queued by a later link."""

from __future__ import annotations

from typing import Any

import pytest

ERRORS = {"/1": "dns: gone", "/2": "timeout: late", "/3": "timeout: late"}


@pytest.fixture
async def crawl(rig: Any) -> Any:
    """Two hosts with three failed URLs each."""
    await rig.add(*(f"http://{name}.test{path}" for name in "ab" for path in ERRORS))
    for lease in await rig.claim(10, 10):
        failed = [
            rig.failed(url, lease.slot, error=ERRORS[url.url[len("http://a.test") :]])
            for url in lease.prefetched.urls
        ]
        await rig.commit(lease, *failed, release=True)
    return rig


async def skipped(rig: Any) -> int:
    return sum(row["count"] for row in await rig.rows("skipped") if row["reason"] == "dropped")


@pytest.mark.parametrize(
    ("host", "code", "count"),
    [
        (None, None, 6), ("a.test", None, 3), (None, "timeout", 4), ("b.test", "timeout", 2),
        ("b.test", "time", 0), ("c.test", None, 0),
    ],
)  # fmt: skip
async def test_those_of_a_host_or_code_are_dropped(
    crawl: Any, host: str | None, code: str | None, count: int
) -> None:
    assert await crawl.store.drop_failed(host, code) == count
    assert len(await crawl.rows("failed")) == 6 - count
    assert (await crawl.reader.stats()).failed == 6 - count
    assert await skipped(crawl) == count
    assert await crawl.rows("queued") == []
    assert await crawl.store.drop_failed(host, code) == 0
    assert await crawl.store.retry_failed() == 6 - count


async def test_known_urls_are_those_in_a_view(crawl: Any) -> None:
    await crawl.store.drop_failed("a.test")
    await crawl.add("http://a.test/2", "http://a.test/4")
    dropped, failed = ["http://a.test/1", "http://a.test/3"], ["http://b.test/1"]
    queued, new = ["http://a.test/2", "http://a.test/4"], ["http://a.test/5", "http://c.test/"]
    urls = [*dropped, *failed, *queued, *new, *queued]
    assert await crawl.reader.known_urls(urls) == {*failed, *queued}
    assert await crawl.reader.known_urls([]) == set()


async def test_a_dropped_url_says_so_and_a_later_link_queues_it(crawl: Any) -> None:
    await crawl.store.drop_failed()
    row = await crawl.reader.url("http://a.test/1")
    assert (row["state"], row["reason"]) == ("skipped", "dropped")
    await crawl.add("http://a.test/1")
    assert await crawl.urls("queued") == ["http://a.test/1"]
    assert [lease.slot for lease in await crawl.claim(10, 10)] == ["a.test"]
