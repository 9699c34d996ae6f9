"""The store's contract: what reports are made of."""

from __future__ import annotations

from storage.base import Outlink, Rel


async def report(rig, kind):
    return [tuple(row.values()) async for row in rig.reader.report(kind)]


async def test_broken_links_with_the_pages_that_link_to_them(rig):
    """All of them where links are kept, the first where not, and through redirects."""
    await rig.add("http://a.test/", "http://a.test/two")
    lease = await rig.claim_one()
    home, two = lease.hand.urls
    names = ("gone", "dead", "old", "fine")
    links = [rig.link(f"http://a.test/{name}", depth=1, anchor=name) for name in names]
    done = await rig.commit(lease, rig.visited(home, links=links), want=9, held=[two.id])
    by = {one.url.rpartition("/")[2]: one for one in done.hands["a.test"].urls}
    outlinks = [
        Outlink("http://a.test/gone", "Gone!", None),
        Outlink("http://a.test/old", None, None),
    ]
    await rig.commit(
        lease,
        rig.visited(two, outlinks=outlinks),
        rig.visited(by["gone"], status=404),
        rig.failed(by["dead"], error="dns: none"),
        rig.redirect(by["old"], "http://a.test/gone"),
        rig.visited(by["fine"]),
    )
    gone, dead = "http://a.test/gone", "http://a.test/dead"
    first, second, old = "http://a.test/", "http://a.test/two", "http://a.test/old"
    assert await report(rig, "broken") == [
        (gone, 404, None, first, None, "gone"),
        (gone, 404, None, second, None, "Gone!"),
        (gone, 404, None, first, old, "old"),
        (gone, 404, None, second, old, None),
        (dead, None, "dns: none", first, None, "dead"),
    ]


async def test_a_broken_seed_is_linked_by_nobody(rig):
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    await rig.commit(lease, rig.visited(lease.hand.urls[0], status=410))
    assert await report(rig, "broken") == [("http://a.test/", 410, None, None, None, None)]


async def test_what_robots_forbade_by_host_and_rule(rig):
    await rig.add("http://b.test/x", "http://a.test/", "http://a.test/y", "http://a.test/x")
    leases = {lease.slot: lease for lease in await rig.claim()}
    b, a = leases["b.test"], leases["a.test"]
    home, y, x = a.hand.urls
    outlinks = [
        Outlink("http://a.test/x", "X", None),
        Outlink("http://b.test/x", None, Rel.NOFOLLOW),
    ]
    await rig.commit(
        a,
        rig.visited(home, outlinks=outlinks),
        rig.blocked(x, rule="Disallow: /x", line=3),
        rig.blocked(y, rule="Disallow: /y", line=2),
    )
    await rig.commit(b, rig.blocked(b.hand.urls[0], "b.test", rule="Disallow: /", line=1))
    robots = "http://a.test/robots.txt"
    assert await report(rig, "forbidden") == [
        ("a.test", robots, 2, "Disallow: /y", "robots", "http://a.test/y", 0, None, None),
        ("a.test", robots, 3, "Disallow: /x", "robots", "http://a.test/x", 0, "X", "http://a.test/"),
        (
            "b.test", "http://b.test/robots.txt", 1, "Disallow: /", "robots", "http://b.test/x", 0,
            None, "http://a.test/",
        ),
    ]  # fmt: skip


async def test_pages_with_one_body(rig):
    await rig.add(*(f"http://a.test/{n}" for n in range(6)))
    lease = await rig.claim_one()
    hashes = ["ff" * 8, "01" * 8, "ff" * 8, "02" * 8, "01" * 8, "01" * 8]
    pages = [
        rig.visited(one, body_hash=digits, title=f"T{n}", status=404 if n == 5 else 200)
        for n, (one, digits) in enumerate(zip(lease.hand.urls, hashes, strict=True))
    ]
    await rig.commit(lease, *pages)
    assert await report(rig, "duplicates") == [
        (digits, f"http://a.test/{n}", 200, 100, "text/html", f"T{n}", None)
        for digits, n in (("ff" * 8, 0), ("ff" * 8, 2), ("01" * 8, 1), ("01" * 8, 4))
    ]
