"""The store's contract: what reports are made of."""

from __future__ import annotations

from storage.store import Looked, Malformed, Outlink, Pointer, Rel


async def report(rig, kind):
    return [tuple(row.values()) async for row in rig.reader.report(kind)]


async def test_broken_links_with_the_pages_that_link_to_them(rig):
    """All of them where links are kept, the first where not, and through redirects."""
    await rig.add("http://a.test/", "http://a.test/two")
    lease = await rig.claim_one()
    home, two = lease.prefetched.urls
    names = ("gone", "dead", "old", "fine")
    links = [rig.link(f"http://a.test/{name}", depth=1, anchor=name) for name in names]
    done = await rig.commit(lease, rig.visited(home, links=links), want=9, held=[two.id])
    by = {one.url.rpartition("/")[2]: one for one in done.prefetched["a.test"].urls}
    outlinks = [
        Outlink("http://a.test/gone", "Gone!", None),
        Outlink("http://a.test/old", None, None),
    ]
    await rig.commit(
        lease, rig.visited(two, outlinks=outlinks), rig.visited(by["gone"], status=404),
        rig.failed(by["dead"], error="dns: none"), rig.redirect(by["old"], "http://a.test/gone"),
        rig.visited(by["fine"]),
    )  # fmt: skip
    gone, dead = "http://a.test/gone", "http://a.test/dead"
    first, second, old = "http://a.test/", "http://a.test/two", "http://a.test/old"
    assert await report(rig, "broken") == [
        (gone, 404, None, first, None, "gone", "link"),
        (gone, 404, None, second, None, "Gone!", "link"),
        (gone, 404, None, first, old, "old", "link"),
        (gone, 404, None, second, old, None, "link"),
        (dead, None, "dns: none", first, None, "dead", "link"),
    ]


async def test_redirects_in_a_loop_or_to_nowhere_are_broken(rig):
    """Each URL of the loop once, with the pages that link to it and the redirects that lead in."""
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    (home,) = lease.prefetched.urls
    names = ("a", "b", "self", "into", "nowhere", "elsewhere")
    links = [rig.link(f"http://a.test/{name}", depth=1, anchor=name) for name in names]
    done = await rig.commit(lease, rig.visited(home, links=links), want=9)
    by = {one.url.rpartition("/")[2]: one for one in done.prefetched["a.test"].urls}
    await rig.commit(
        lease, rig.redirect(by["a"], "http://a.test/b"), rig.redirect(by["b"], "http://a.test/a"),
        rig.redirect(by["self"], "http://a.test/self"), rig.redirect(by["into"], "http://a.test/a"),
        rig.redirect(by["elsewhere"], "http://b.test/"), rig.visited(by["nowhere"], status=302),
    )  # fmt: skip
    found = await report(rig, "broken")
    first = "http://a.test/"
    loop, lost = "redirects: it redirects in a loop", "redirects: it redirects to no URL"
    expected = [
        (f"{first}a", 301, loop, first, None, "a", "link"),
        (f"{first}a", 301, loop, first, f"{first}into", "into", "link"),
        (f"{first}b", 301, loop, first, None, "b", "link"),
        (f"{first}self", 301, loop, first, None, "self", "link"),
        (f"{first}nowhere", 302, lost, first, None, "nowhere", "link"),
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)


async def test_a_broken_seed_is_linked_by_nobody(rig):
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    await rig.commit(lease, rig.visited(lease.prefetched.urls[0], status=410))
    assert await report(rig, "broken") == [("http://a.test/", 410, None, None, None, None, None)]


async def test_what_robots_forbade_by_host_and_rule(rig):
    await rig.add("http://b.test/x", "http://a.test/", "http://a.test/y", "http://a.test/x")
    leases = {lease.slot: lease for lease in await rig.claim()}
    b, a = leases["b.test"], leases["a.test"]
    home, y, x = a.prefetched.urls
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
    await rig.commit(b, rig.blocked(b.prefetched.urls[0], "b.test", rule="Disallow: /", line=1))
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
        for n, (one, digits) in enumerate(zip(lease.prefetched.urls, hashes, strict=True))
    ]
    await rig.commit(lease, *pages)
    assert await report(rig, "duplicates") == [
        (digits, f"http://a.test/{n}", 200, 100, "text/html", f"T{n}", None)
        for digits, n in (("ff" * 8, 0), ("ff" * 8, 2), ("01" * 8, 1), ("01" * 8, 4))
    ]


A, B, C, D = (f"http://a.test/{name}" for name in "abcd")


async def pages(rig, *outcomes):
    """Visit A, B, C and D, each with the values given for it."""
    await rig.add(A, B, C, D)
    lease = await rig.claim_one()
    given = dict(zip((A, B, C, D), outcomes, strict=False))
    await rig.commit(
        lease,
        *(rig.visited(one, **given[one.url]) for one in lease.prefetched.urls if one.url in given),
    )
    return {one.url: one for one in lease.prefetched.urls}, lease


async def test_requisites_have_a_kind(rig):
    kinds = {"i": Rel.IMAGE, "s": Rel.STYLE, "j": Rel.SCRIPT, "f": Rel.FONT, "m": Rel.MEDIA}
    links = [Outlink(f"http://x.test/{name}", None, rel) for name, rel in kinds.items()]
    links += [Outlink("http://x.test/?", None, Rel.REQUISITE), Outlink(B, "b", None)]
    await pages(rig, {"outlinks": links}, {"status": 404})
    rows = await rig.rows("links")
    assert {row["target"][-1]: (row["rel"], row["kind"]) for row in rows} == {
        "i": ("requisite", "image"), "s": ("requisite", "style"), "j": ("requisite", "script"),
        "f": ("requisite", "font"), "m": ("requisite", "media"), "?": ("requisite", None),
        "b": (None, None),
    }  # fmt: skip
    assert await report(rig, "broken") == [(B, 404, None, A, None, "b", "link")]


async def test_broken_requisites_say_so_without_links_too(rig):
    await rig.add(A)
    lease = await rig.claim_one()
    link = rig.link("http://a.test/i.png", requisite=True)
    done = await rig.commit(lease, rig.visited(lease.prefetched.urls[0], links=[link]), want=3)
    (image,) = done.prefetched["a.test"].urls
    await rig.commit(lease, rig.visited(image, status=404))
    assert await report(rig, "broken") == [(image.url, 404, None, A, None, None, "requisite")]


async def test_malformed_links_go_with_their_page(rig):
    bad = [Malformed("hhttp://x", "scheme"), Malformed("http://[", "unparsable")]
    urls, lease = await pages(rig, {"malformed": bad}, {"malformed": bad[:1]})
    expected = [
        {"source": A, "href": "hhttp://x", "reason": "scheme"},
        {"source": A, "href": "http://[", "reason": "unparsable"},
        {"source": B, "href": "hhttp://x", "reason": "scheme"},
    ]
    assert await rig.rows("malformed") == expected
    assert await rig.rows("malformed", host="b.test") == []
    assert await report(rig, "malformed") == [
        ("hhttp://x", "scheme", A), ("hhttp://x", "scheme", B), ("http://[", "unparsable", A),
    ]  # fmt: skip
    assert await rig.rows("malformed", host="a.test") == expected
    await rig.commit(
        lease, rig.visited(urls[A], again=True, malformed=bad[1:]), rig.blocked(urls[B])
    )
    assert await rig.rows("malformed") == expected[1:2]
    await rig.crash()
    if rig.kind != "memory":
        assert await rig.rows("malformed") == expected[1:2]


async def test_fragments_that_point_to_nothing(rig):
    whole = Looked.FRAGMENTS | Looked.POINTERS
    pointers = [
        Pointer(A, "own", None), Pointer(B, "here", None), Pointer(B, "a%20b", "a b"),
        Pointer(B, "%C3%BC", "ü"), Pointer(B, "gone", None), Pointer(C, "x", None),
        Pointer("http://x.test/", "y", None),
    ]  # fmt: skip
    urls, lease = await pages(
        rig,
        {"pointers": pointers, "elements": ["own"], "looked": whole},
        {"elements": ["here", "a b", "ü", "other"], "looked": whole},
        {"elements": ["only"]},  # not read to its end
    )
    rows = await rig.rows("fragments")
    assert [(row["target"], row["fragment"], row["found"]) for row in rows] == [
        (A, "own", 1), (B, "here", 1), (B, "a%20b", 1), (B, "%C3%BC", 1), (B, "gone", 0),
        (C, "x", None), ("http://x.test/", "y", None),
    ]  # fmt: skip
    assert await report(rig, "dangling") == [(B, "gone", A, None)]
    assert await report(rig, "looked") == [(3, 0, 2, 2, 0)]
    # The page that had the element changes, and the one that linked it is withdrawn.
    await rig.commit(lease, rig.visited(urls[B], again=True, looked=whole))
    assert len(await report(rig, "dangling")) == 4
    await rig.commit(lease, rig.blocked(urls[A]))
    assert await report(rig, "dangling") == await rig.rows("fragments") == []


async def test_redirects_take_fragments_along(rig):
    whole = Looked.FRAGMENTS
    await pages(
        rig,
        {"pointers": [Pointer(B, "x", None), Pointer(B, "in", None), Pointer(D, "z", None)]},
        {"status": 301, "redirect_url": C},
        {"elements": ["in", "own"], "looked": whole},
        {"status": 301, "redirect_url": C, "pointers": [Pointer(C, "gone", None)]},
    )
    assert await report(rig, "dangling") == [(C, "gone", D, None), (C, "x", A, B)]


async def test_redirects_in_a_circle_end(rig):
    await pages(
        rig,
        {"pointers": [Pointer(B, "x", None)]},
        {"status": 301, "redirect_url": C},
        {"status": 301, "redirect_url": B},
    )
    assert await report(rig, "dangling") == []


async def test_what_was_cut_of_a_page(rig):
    urls, lease = await pages(rig, {"cut": "max_links max_markup"}, {}, {"cut": "max_links"})
    assert [row["cut"] for row in await rig.rows("visited")] == [
        "max_links max_markup", None, "max_links",
    ]  # fmt: skip
    await rig.commit(lease, rig.visited(urls[A], again=True))
    assert (await rig.reader.url(A))["cut"] is None
    assert (await rig.reader.url(C))["cut"] == "max_links"


async def test_links_beyond_a_limit_of_the_store_are_links_all_the_same(rig):
    """A target is in the view though its query was one too many for its path to be queued."""
    await rig.store.close()
    await rig.open(queries_per_path_max=1)
    urls = [f"http://a.test/p?{n}" for n in range(4)] + ["http://z.test/", A]
    await rig.add(A)
    lease = await rig.claim_one()
    outlinks = [Outlink(url, None, None) for url in urls]
    pointers = [Pointer(url, "x", None) for url in urls]
    page = rig.visited(
        lease.prefetched.urls[0], links=urls[:4], outlinks=outlinks, pointers=pointers
    )
    await rig.commit(lease, page)
    assert sorted(row["target"] for row in await rig.rows("links")) == sorted(urls)
    assert sorted(row["target"] for row in await rig.rows("fragments")) == sorted(urls)
    assert await rig.urls("queued") == ["http://a.test/p?0"]
    assert await rig.rows("skipped") == [{"reason": "max_queries_per_path", "count": 3}]
