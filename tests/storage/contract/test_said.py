"""The store's contract: what pages say of themselves, and their links."""

from __future__ import annotations

from storage.store import BlockReason, Outlink, Rel


async def test_what_a_page_says_is_in_its_row(rig):
    await rig.add("http://a.test/?b=1")
    lease = await rig.claim_one()
    page = rig.visited(
        lease.prefetched.urls[0],
        canonical_url="http://other.test/",
        body_hash="ff00000000000001",
        usage="content-signal: ai-train=no (header)",
    )
    await rig.commit(lease, page)
    (row,) = await rig.rows("visited")
    assert row["canonical_url"] == "http://other.test/"
    assert row["body_hash"] == "ff00000000000001"
    assert row["usage"] == "content-signal: ai-train=no (header)"
    assert await rig.urls("queued") == [], "what a page calls canonical is no work"
    stats = await rig.store.stats()
    assert (stats.queued, stats.hosts) == (0, 1)


async def test_all_links_of_a_page_are_rows(rig):
    await rig.add("http://a.test/", "http://a.test/known")
    lease = await rig.claim_one()
    first = next(one for one in lease.prefetched.urls if one.url == "http://a.test/")
    outlinks = [
        Outlink("http://a.test/known", "Known", None),
        Outlink("http://a.test/new", None, Rel.NOFOLLOW),
        Outlink("http://far.test/", "Far", Rel.CANONICAL),
        Outlink("http://a.test/i.png", None, Rel.REQUISITE),
        Outlink("http://a.test/", None, Rel.REDIRECT),
    ]
    links = [rig.link("http://a.test/new", depth=1)]
    await rig.commit(lease, rig.visited(first, links=links, outlinks=outlinks))
    rows = {row["target"]: row for row in await rig.rows("links")}
    assert {(t, row["anchor"], row["rel"]) for t, row in rows.items()} == {
        (link.url, link.anchor, link.rel) for link in outlinks
    }
    assert {row["source"] for row in rows.values()} == {"http://a.test/"}
    assert await rig.urls("queued") == ["http://a.test/known", "http://a.test/new"]
    assert len(await rig.rows("links", host="a.test")) == 5
    assert await rig.rows("links", host="far.test") == []
    assert len(await rig.rows("links", limit=2)) == 2
    about = await rig.reader.url("http://far.test/")
    assert (about["state"], about["reason"]) == ("skipped", None)


async def test_a_link_target_that_is_linked_in_scope_later_is_queued(rig):
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    page = rig.visited(lease.prefetched.urls[0], outlinks=[Outlink("http://b.test/", None, None)])
    await rig.commit(lease, page)
    await rig.add("http://b.test/")
    assert await rig.urls("queued") == ["http://b.test/"]


async def test_links_go_with_their_page(rig):
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    page = rig.visited(
        lease.prefetched.urls[0], ungoverned=True, outlinks=[Outlink("http://a.test/b", None, None)]
    )
    await rig.commit(lease, page)
    withdrawn = rig.blocked(lease.prefetched.urls[0], reason=BlockReason.ROBOTS)
    await rig.store.rejudge(rig.session, kept=(), withdrawn=[withdrawn], freed=())
    assert await rig.rows("links") == []
