"""Sinks in complete crawls: which pages they receive, and that none is missing after a crash."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import gzip
import json
import random
import resource
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crawler import Crawler
from crawler.documents.crawled_page import CrawledPage
from crawler.sinks.mirror_paths import file_of
from crawler.sinks.references import ReferenceRole
from crawler.testing import LocalWeb, ReceivedRequest, Reply, html, redirect, text
from storage.sqlite import file_reader
from tests.site.commands import retried

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

POLITE = {"delay": 0, "latency_factor": 0}
SLOWLY = {"delay": 0.02, "latency_factor": 0}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def targets(raw: bytes, kinds: tuple[bytes, ...] = (b"response", b"revisit")) -> list[str]:
    """The URLs of a WARC's records of these kinds."""
    data = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    found = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
        size = int(fields[b"Content-Length"])
        assert rest[size : size + 4] == b"\r\n\r\n"
        if fields[b"WARC-Type"] in kinds:
            found.append(fields[b"WARC-Target-URI"].decode())
        data = rest[size + 4 :]
    return found


async def test_pages_reach_sinks_as_they_ask_for(courtly: Courtly) -> None:
    pages = courtly.sink("jsonl", "pages.jsonl")
    everything = courtly.sink("jsonl", "all.jsonl.gz", noindex=True, status=["2xx"], links=False)
    pictures = courtly.sink("warc", "pictures.warc.gz", content_types=["image/*"])
    noindex = '<meta name="robots" content="noindex">'
    noarchive = '<meta name="robots" content="noarchive">'
    site = {
        "/robots.txt": text("User-agent: *\nDisallow: /no\n"),
        "/": html("Home", "/a", "/hidden", "/kept", "/old", "/cat.png", "/gone", "/no", "/big.zip"),
        "/a": html("A"),
        "/hidden": html("Hidden", head=noindex),
        "/kept": html("Not kept", head=noarchive),
        "/old": redirect("/a", status=301),
        "/cat.png": Reply(body=b"\x89PNG...", content_type="image/png"),
        "/big.zip": Reply(body=b"PK" * 1000, content_type="application/zip"),
    }
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(web, "a.test", politeness=POLITE)
        rows = {row["url"]: row for row in lines(pages)}
        wanted = {"/", "/a", "/kept", "/old", "/cat.png", "/gone", "/big.zip"}
        assert set(rows) == {web.url("a.test", path) for path in wanted}
        assert rows[web.url("a.test", "/kept")]["body"] is None
        assert rows[web.url("a.test", "/kept")]["title"] == "Not kept"
        assert "<h1>A</h1>" in rows[web.url("a.test", "/a")]["body"]
        assert rows[web.url("a.test", "/old")]["redirect_url"] == web.url("a.test", "/a")
        kept = dict(courtly.rows("visited", "url, fetched_at"))
        assert {url: row["fetched_at"] for url, row in rows.items()}.items() <= kept.items()
        packed = [json.loads(one) for one in gzip.decompress(everything.read_bytes()).splitlines()]
        assert {row["status"] for row in packed} == {200}
        assert web.url("a.test", "/hidden") in {row["url"] for row in packed}
        assert targets(pictures.read_bytes()) == [web.url("a.test", "/cat.png")]


async def test_a_body_that_no_sink_wants_is_not_downloaded(courtly: Courtly) -> None:
    courtly.sink("warc", "pictures.warc.gz", content_types=["image/*"])
    site = {
        "/": html("Home", "/big.zip"),
        "/big.zip": Reply(body=b"PK" * 1_000_000, content_type="application/zip"),
    }
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(web, "a.test", politeness=POLITE)
        assert courtly.rows("visited", "body_bytes", "url LIKE '%big.zip'") == [(0,)]


async def test_a_withdrawn_page_is_announced(courtly: Courtly) -> None:
    pages, archive = courtly.sink("jsonl", "a.jsonl"), courtly.sink("warc", "a.warc.gz")
    broken = [True]

    def robots(_: ReceivedRequest) -> Reply:
        if broken:
            broken.pop()
            return Reply(status=500, body="later")
        return text("User-agent: *\nDisallow: /staff/\n")

    others = [f"/{n}" for n in range(14)]  # the second try at robots.txt comes after 2 s
    site: dict[str, Any] = {"/robots.txt": robots, "/": html("Home", "/staff/1", *others)}
    site |= {path: html(path) for path in ("/staff/1", *others)}
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(web, "a.test", politeness={**POLITE, "delay": 0.2})
        url = web.url("a.test", "/staff/1")
        assert courtly.urls("blocked", "withdrawn = 1") == [url]
        told = [row for row in lines(pages) if url in (row.get("url"), row.get("withdrawn"))]
        assert [next(iter(row)) for row in told] == ["url", "withdrawn"]
        assert told[1]["rule"] == "Disallow: /staff/"
        records = targets(archive.read_bytes(), (b"metadata",))
        assert records.count(url) == 2


async def test_kill_9_misses_no_page_in_any_sink(courtly: Courtly) -> None:
    rng = random.Random(3)
    pages = courtly.sink("jsonl", "p.jsonl", max_file=60_000)
    packed = courtly.sink("jsonl", "p.jsonl.gz")
    archive = courtly.sink("warc", "a.warc.gz", max_file=30_000)
    plain = courtly.sink("warc", "b.warc")
    count = 150
    site = {f"/{n}" if n else "/": html(f"Page {n}", f"/{2 * n + 1}", f"/{2 * n + 2}",
            body=f"<p>{rng.random()}</p>" * 20) for n in range(count)}  # fmt: skip
    hosts = {f"h{n}.test": site for n in range(3)}
    contact = asyncio.Event()

    def answer(reply: Reply) -> Any:
        def handle(_: ReceivedRequest) -> Reply:
            contact.set()
            return reply

        return handle

    watched = {
        host: {path: answer(reply) for path, reply in pages.items()}
        for host, pages in hosts.items()
    }
    async with LocalWeb(watched) as web:
        seeds = [web.url(host) for host in hosts]
        for _ in range(6):
            contact.clear()
            async with courtly.process(web, *seeds, politeness=SLOWLY) as process:
                async with asyncio.timeout(20):
                    await contact.wait()
                await asyncio.sleep(rng.uniform(0.05, 0.5))
                if process.returncode is None:
                    process.kill()
        assert courtly.urls("queued"), "the kills came in the midst of it"
        seen = set(courtly.urls("visited"))
        await courtly.crawl(web, politeness=POLITE)
        visited = dict(courtly.rows("visited", "url, fetched_at"))
        assert seen <= set(visited)
        in_lines, in_records = gathered(pages, packed, archive, plain)
        for rows in in_lines:
            last = {row["url"]: row["fetched_at"] for row in rows}
            assert set(last) >= {url for url in visited if not url.endswith("robots.txt")}
            assert all(last[url] == at for url, at in visited.items()), "the last one counts"
        for urls in in_records:
            assert set(urls) >= set(visited)
        again = collections.Counter(in_records[0])
        assert sum(times - 1 for times in again.values()) < count, "little was repeated"


def gathered(*paths: Path) -> tuple[list[list[dict[str, Any]]], list[list[str]]]:
    in_lines, in_records = [], []
    for path in paths:
        stem = path.name.partition(".")[0]
        ending = path.name[len(stem) :]
        files = sorted(path.parent.glob(f"{stem}-*{ending}"))
        files = [path, *(one for one in files if one.name.endswith(ending))]
        if ".jsonl" in path.name:
            raw = b""
            for one in files:
                data = one.read_bytes()
                raw += gzip.decompress(data) if ending.endswith(".gz") else data
            in_lines.append([json.loads(line) for line in raw.splitlines()])
        else:
            in_records.append([url for one in files for url in targets(one.read_bytes())])
    return in_lines, in_records


async def test_a_full_disk_in_a_sink_holds_the_crawl_until_there_is_room(
    courtly: Courtly,
) -> None:
    pages = courtly.sink("jsonl", "p.jsonl")
    site = {"/": html("Home", *(f"/{n}" for n in range(60)))}
    site |= {f"/{n}": html(f"{n}", body="x" * 40_000) for n in range(60)}
    async with (
        LocalWeb({"a.test": site}) as web,
        courtly.process(web, web.url("a.test"), politeness=POLITE) as process,
    ):
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (900_000, -1))
        hold = await courtly.held()
        assert hold["reason"] == "disk-full"
        assert str(pages) in hold["sentence"]
        kept = {row["url"] for row in lines(pages)}, set(courtly.urls("visited"))
        assert kept[1] <= kept[0], "what is committed is in the sink, in whole lines"
        assert len(kept[1]) < 61
        assert process.returncode is None
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (-1, -1))
        _, errors = await asyncio.wait_for(process.communicate(), 30)
        assert process.returncode == 0, errors.decode()
    urls = [row["url"] for row in lines(pages)]
    assert sorted(urls) == sorted(courtly.urls("visited"))
    assert len(urls) == len(set(urls)) == 61


async def test_a_crawler_s_functions_and_sinks_get_its_pages(tmp_path: Path) -> None:
    site = {"/": html("Home", "/a", "/b"), "/a": html("A"), "/b": Reply(status=404)}
    path = tmp_path / "pages.jsonl"
    seen: list[str] = []
    good: list[str] = []

    async def note(page: CrawledPage) -> None:
        await asyncio.sleep(0)
        seen.append(page.url)

    async with LocalWeb({"a.test": site}) as web:
        config = {
            **web.config(politeness=POLITE),
            "sink": [{"kind": "jsonl", "path": str(path)}],
        }
        crawler = Crawler([web.url("a.test")], config=config, sinks=[note])
        crawler.add_sink(lambda page: good.append(page.url), status=["2xx"], exclude=["*/a"])
        read = []
        async with crawler as crawl:
            async for page in crawl:
                read.append(page.url)
                assert page.url not in seen, "not before it is committed"
        assert sorted(seen) == sorted(read) == sorted(row["url"] for row in lines(path))
        assert good == [web.url("a.test")]


@pytest.mark.parametrize("kind", [RuntimeError, StopIteration, MemoryError, UnicodeError])
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_function_that_raises_costs_its_page_alone(
    tmp_path: Path, kind: type[Exception], is_async: bool
) -> None:
    db = tmp_path / "crawl.db"
    broken = [True]
    seen: list[str] = []

    def store(page: CrawledPage) -> None:
        if broken and page.url.endswith("/b"):
            raise kind("my password is pass-marker")
        seen.append(page.url)

    async def store_async(page: CrawledPage) -> None:
        store(page)

    site = {
        "/": html("Home", "/a", "/b", "/c"),
        **{path: html(path) for path in ("/a", "/b", "/c")},
    }
    sink = store_async if is_async else store

    async def read(*seeds: str) -> None:
        config = web.config(politeness=POLITE)
        async with Crawler(seeds, config=config, db=db, sinks=[sink]) as crawl, asyncio.timeout(20):
            async for _ in crawl:
                pass

    async with LocalWeb({"a.test": site}) as web:
        await read(web.url("a.test"))
        assert set(seen) == {web.url("a.test", path) for path in ("/", "/a", "/c")}
        async with file_reader(db) as reader:
            (failed,) = [row async for row in reader.iterate("failed")]
        assert failed["url"] == web.url("a.test", "/b")
        assert str(failed["error"]).startswith("internal: ")
        assert "pass-marker" not in str(failed["error"])
        broken.clear()
        await retried(db)
        await read()
        assert sorted(seen) == sorted(web.url("a.test", path) for path in site)


async def test_pages_visited_again_come_when_they_have_changed(courtly: Courtly) -> None:
    pages = courtly.sink("jsonl", "p.jsonl")
    folder = courtly.sink("mirror", "m")
    noindex = '<meta name="robots" content="noindex">'
    noarchive = '<meta name="robots" content="noarchive">'
    site = {path: html(path) for path in ("/same", "/new", "/shy", "/kept", "/staff")}
    site |= {"/": html("Home", *site), "/robots.txt": text("User-agent: *\nDisallow: /no\n")}
    async with LocalWeb({"a.test": site}) as web:
        soon = {"mode": "fixed", "interval": 0.3}
        await courtly.crawl(web, "a.test", politeness=POLITE, revisit=soon)
        first = lines(pages)
        site |= {
            "/new": html("Changed"),
            "/shy": html("Shy", head=noindex),
            "/kept": html("Kept", head=noarchive),
            "/robots.txt": text("User-agent: *\nDisallow: /staff\n"),
        }
        with contextlib.closing(sqlite3.connect(courtly.db)) as db, db:
            db.execute("UPDATE copies SET expires_at = 0")  # its day is over
        await asyncio.sleep(0.4)
        later = {"mode": "fixed", "interval": "1h"}
        await courtly.crawl(web, "a.test", politeness=POLITE, revisit=later)
        told = {
            str(row.get("withdrawn", row.get("url"))).rpartition("/")[2]: row.get("reason", "page")
            for row in lines(pages)[len(first) :]
        }
        assert told == {"new": "page", "kept": "page", "shy": "noindex", "staff": "robots"}

        def file(path: str) -> Path:
            return folder / file_of(web.url("a.test", path), ReferenceRole.PAGE)

        assert "Changed" in file("/new").read_text()
        assert not file("/kept").exists()
        assert "Withdrawn" in file("/shy").read_text()
        assert "asks not to fetch" in file("/staff").read_text()


async def test_no_charset_and_no_header_ends_a_crawl(courtly: Courtly) -> None:
    for kind, name in (("jsonl", "x.jsonl"), ("warc", "x.warc.gz"), ("mirror", "mirror")):
        courtly.sink(kind, name)
    labels = ("undefined", "idna", "punycode", "zlib", "mbcs", "\xfc", '"', "x" * 300)
    pages: dict[str, Reply] = {
        f"/{n}.css": Reply(body="a{}" * 9_000, content_type=f"text/css; charset={label}")
        for n, label in enumerate(labels)
    }
    for n, value in enumerate(("attachment; filename=Z\xfcrich; title \xdcbersicht", "\x80\xff")):
        pages[f"/{n}"] = Reply(body="x", headers={"Content-Disposition": value})
    pages["/"] = html("Home", *pages)
    async with LocalWeb({"a.test": pages}) as web:
        summary = await courtly.crawl(web, "a.test", politeness={"delay": 0, "latency_factor": 0})
    assert (summary.visited, summary.failed) == (len(pages), 0)
