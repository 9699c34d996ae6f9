"""The links of a page become rows a few at a time."""

from __future__ import annotations

import pytest

from storage.engine import link_table as module
from storage.engine.link_table import LinkTable

ROWS = 3


@pytest.fixture
def parts(monkeypatch):
    """How many links became rows together."""
    counts = []
    place = LinkTable._place

    def noted(self, found, *arguments):
        counts.append(len(found))
        return place(self, found, *arguments)

    monkeypatch.setattr(LinkTable, "_place", noted)
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", ROWS)
    return counts


async def test_links_become_rows_a_few_at_a_time(sqlite_rig, parts):
    rig = sqlite_rig
    await rig.add("http://a.test/", "http://a.test/known")
    lease = await rig.claim_one()
    parts.clear()
    urls = [f"http://{name}.test/{n}" for n in range(5) for name in "ab"]
    links = [rig.link(url) for url in ("http://a.test/known", *urls, *urls)]
    done = await rig.commit(lease, rig.visited(lease.prefetched.urls[0], links=links))
    assert parts == [3, 3, 3, 1]  # the known one is remembered
    assert dict(done.added) == {"a.test": 5, "b.test": 5}
    assert sorted(await rig.urls("queued")) == sorted(["http://a.test/known", *urls])


async def test_seeds_and_targets_are_found_in_any_part(sqlite_rig, parts):
    rig = sqlite_rig
    await rig.add(*(f"http://a.test/{n}" for n in range(8)), seed=True)
    assert max(parts) == ROWS
    assert [len(some) async for some in rig.store.seeds()] == [8]
    lease = await rig.claim_one()
    first = lease.prefetched.urls[0]
    target = rig.link("http://a.test/target", seed=True, hops=1)
    links = [*(rig.link(f"http://a.test/more/{n}") for n in range(5)), target]
    await rig.commit(lease, rig.redirect(first, target.url, links=links))
    (row,) = [row for row in await rig.rows("visited") if row["url"] == first.url]
    assert row["redirect_url"] == target.url
