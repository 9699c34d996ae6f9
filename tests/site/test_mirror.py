"""A mirror of a whole site, opened in a browser without a network."""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
import subprocess
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crawler.sinks.mirror_paths import file_of
from crawler.sinks.references import ReferenceRole
from crawler.testing import LocalWeb, ReceivedRequest, Reply, html, redirect, text

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

POLITE = {"delay": 0, "latency_factor": 0}


def png(width: int) -> Reply:
    """An image of this width, by which the browser shows that it has loaded it."""
    rows = b"".join(b"\0" + b"\x80" * 3 * width for _ in range(2))

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = struct.pack(">IIBBBBB", width, 2, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return Reply(body=b"\x89PNG\r\n\x1a\n" + body, content_type="image/png")


# Tells in the page's title what a browser could show, once all is there.
PROBE = """<script>
addEventListener("load", () => {
  const wide = [...document.images].map(i => i.naturalWidth).join(",");
  const color = getComputedStyle(document.querySelector("h1")).color;
  const back = getComputedStyle(document.body).backgroundImage.includes("file:");
  const own = performance.getEntriesByType("resource").every(e => e.name.startsWith("file:"));
  document.title = `${wide} ${color} ${back} ${own}`;
});
</script>"""


def site(other: str) -> dict[str, Any]:
    return {
        "/robots.txt": text("User-agent: *\nDisallow: /private/\n"),
        "/": html(
            "Home", "/About?x=1", "/about", "/private/x", "/paper", "/old", "/gone", "/lost", other,
            head=f'<link rel="stylesheet" href="/styles/main"><base href="/deep/">{PROBE}'
            f'<script src="{other}track.js"></script><link rel="preconnect" href="{other}">',
            body=f'<img src="../a.png"><img srcset="/b.PNG 1x" src="/never.png">'
            f'<img src="{other}pic?id=3"><img src="/private/secret.png"><img src="/moved.png">',
        ),
        "/styles/main": Reply(
            body='@import "../more.css"; body { background: url(/back.png) }',
            content_type="text/css",
        ),
        "/more.css": Reply(body="h1 { color: rgb(1, 2, 3) }", content_type="text/css"),
        "/a.png": png(11),
        "/b.PNG": png(12),
        "/never.png": png(99),
        "/back.png": png(14),
        "/moved.png": redirect("/a.png"),
        "/about": html("about"),
        "/About?x=1": html("About", "/", "#part", body='<p id="part">'),
        "/paper": Reply(body=b"%PDF-1.4", content_type="application/pdf"),
        "/old": redirect("/about"),
        "/lost": redirect("/gone"),
    }  # fmt: skip


def title_in_browser(file: Path) -> str:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        if os.environ.get("CI"):
            pytest.fail("there is no chromium")
        pytest.skip("there is no chromium")
    isolated = ["unshare", "-rn"] if _can_unshare() else []
    done = subprocess.run(
        [*isolated, browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
         "--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9",
         "--virtual-time-budget=5000", f"--user-data-dir={file.parent}.profile", file.as_uri()],
        capture_output=True, text=True, timeout=50,
    )  # fmt: skip
    title = done.stdout.partition("<title>")[2].partition("</title>")[0]
    assert title, done.stderr[-2000:]
    return title


def _can_unshare() -> bool:
    try:
        return subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode == 0
    except OSError:
        return False


async def test_a_mirror_opens_in_a_browser_without_a_network(courtly: Courtly) -> None:
    folder = courtly.sink("mirror", "mirror")
    sites: dict[str, Any] = {"b.test": {"/pic?id=3": png(13), "/": html("Elsewhere")}}
    here: dict[str, Any] = {}

    def answer(asked: ReceivedRequest) -> Reply:
        return here.get(asked.path, Reply(status=404))

    async with LocalWeb({**sites, "a.test": answer}) as web:
        here |= site(web.url("b.test"))
        await courtly.crawl(web, "a.test", politeness=POLITE)

        def file(path: str, role: ReferenceRole = ReferenceRole.PAGE, host: str = "a.test") -> Path:
            return folder / file_of(web.url(host, path), role)

        assert web.log.paths("b.test") == ["/robots.txt", "/pic?id=3"], "only what the page needs"
        asked = web.log.paths("a.test")
        assert not [path for path in asked if path.startswith("/private/")]
        assert "/track.js" not in web.log.paths("b.test")
        home = file("/").read_text("utf-8-sig")
        assert f'href="{file("/about").name}"' in home, "the base is gone, the link is right"
        assert f'href="{web.url("a.test", "/private/x")}"' in home, (
            "what is not there is on the web"
        )
        assert f'href="{web.url("a.test", "/gone")}"' in home
        assert f'href="{web.url("b.test")}"' in home
        assert "track.js" not in home
        assert "preconnect" not in home
        assert "url=about~.html" in file("/old").read_text("utf-8-sig")
        lost = file("/lost").read_text("utf-8-sig")
        assert f'href="{web.url("a.test", "/gone")}"' in lost, "it leads to what is not there"
        assert 'content=""' in lost, "nobody is led to the network without a click"
        assert file("/paper", ReferenceRole.PART).with_suffix(".pdf").read_bytes() == b"%PDF-1.4"
        assert "~.pdf" in file("/paper").read_text("utf-8-sig")
        assert file("/moved.png", ReferenceRole.PART).read_bytes() == site("")["/a.png"].body
        assert "a.test" in (folder / "index.html").read_text()

        title = title_in_browser(file("/"))
        wide, color, back, own = title.rsplit(" ", 5)[0], *_rest(title)
        assert wide == "11,12,13,0,11", "pictures, one of another host, one that is forbidden"
        assert color == "rgb(1, 2, 3)", "a style imported by a style"
        assert back == "true"
        assert own == "true", "nothing was asked of the network"


def _rest(title: str) -> tuple[str, str, str]:
    words = title.split(" ")
    return " ".join(words[1:4]), words[4], words[5]


async def test_what_is_withdrawn_or_not_to_be_kept_is_not_there(courtly: Courtly) -> None:
    folder = courtly.sink("mirror", "mirror", fsync=False)
    broken = [True]

    def robots(_: ReceivedRequest) -> Reply:
        if broken:
            broken.pop()
            return Reply(status=500)
        return text("User-agent: *\nDisallow: /staff/\n")

    others = [f"/{n}" for n in range(14)]
    kept = html("Kept", head='<meta name="robots" content="noarchive">', body='<img src="/x.png">')
    hidden = html("H", head='<meta name="robots" content="noindex">')
    pages: dict[str, Any] = {"/robots.txt": robots, "/kept": kept, "/hidden": hidden}
    pages["/"] = html(
        "Home", "/staff/1", "/staff/p.png", "/staff/paper", "/kept", "/hidden", *others
    )  # fmt: skip
    pages["/staff/paper"] = Reply(body=b"%PDF-1.4", content_type="application/pdf")
    pages |= {path: html(path) for path in ("/staff/1", *others)} | {"/staff/p.png": png(3)}
    async with LocalWeb({"a.test": pages}) as web:
        await courtly.crawl(web, "a.test", politeness={**POLITE, "delay": 0.2})
        assert len(courtly.urls("blocked", "withdrawn = 1")) == 3
        notice = folder / file_of(web.url("a.test", "/staff/1"), ReferenceRole.PAGE)
        assert "<h1>Withdrawn</h1>" in notice.read_text()
        for path in ("/staff/p.png", "/kept", "/hidden"):
            for role in ReferenceRole:
                assert not (folder / file_of(web.url("a.test", path), role)).exists()
        staff = {
            one.name
            for one in (folder / file_of(web.url("a.test"), ReferenceRole.PAGE)).parent.glob(
                "staff/*"
            )
        }
        assert staff == {"1~.html", "paper~.html"}, "notices; the paper itself is gone"
        assert "/x.png" not in web.log.paths("a.test"), "nobody needs it"


async def test_a_later_run_links_what_came_since(courtly: Courtly) -> None:
    folder = courtly.sink("mirror", "mirror")
    pages = {"/": html("Home", "/a"), "/a": html("A", "/b#x"), "/b": html("B", "/")}
    async with LocalWeb({"a.test": pages}) as web:
        place = folder / file_of(web.url("a.test", "/a"), ReferenceRole.PAGE)
        await courtly.crawl(web, "a.test", politeness=POLITE, crawl={"max_pages": 2})
        assert f'href="{web.url("a.test", "/b")}#x"' in place.read_text()
        await courtly.crawl(web, politeness=POLITE)
        assert 'href="b~.html#x"' in place.read_text()


async def test_a_folder_with_other_things_is_not_touched(courtly: Courtly) -> None:
    folder = courtly.sink("mirror", "home")
    folder.mkdir()
    (folder / "letter.txt").write_text("dear")
    async with LocalWeb({"a.test": {"/": html("Home")}}) as web:
        with pytest.raises(Exception, match="with other content"):
            await courtly.crawl(web, "a.test", politeness=POLITE)
    assert [one.name for one in folder.iterdir()] == ["letter.txt"]


async def test_kill_9_misses_no_page_and_the_next_run_sees_to_the_links(courtly: Courtly) -> None:
    folder = courtly.sink("mirror", "mirror")
    count = 120
    pages = {
        f"/{n}" if n else "/": html(f"Page {n}", f"/{2 * n + 1}", f"/{2 * n + 2}", "/no")
        for n in range(count)
    }
    contact = asyncio.Event()

    def answer(asked: ReceivedRequest) -> Reply:
        contact.set()
        return pages.get(asked.path, Reply(status=404))

    slowly = {"delay": 0.02, "latency_factor": 0}
    async with LocalWeb({"a.test": answer}) as web:
        for wait_s in (0.3, 0.5):
            contact.clear()
            async with courtly.process(web, web.url("a.test"), politeness=slowly) as process:
                async with asyncio.timeout(20):
                    await contact.wait()
                await asyncio.sleep(wait_s)
                process.kill()
        assert courtly.urls("queued"), "the kills came in the midst of it"
        await courtly.crawl(web, politeness=POLITE)
        for path in pages:
            page = (folder / file_of(web.url("a.test", path), ReferenceRole.PAGE)).read_text(
                "utf-8-sig"
            )
            assert f'href="{web.url("a.test", "/no")}"' in page, "it is not there"
            n = int(path[1:] or 0)
            for m in (2 * n + 1, 2 * n + 2):
                there = f'href="{m}~.html"' if m < count else f'href="{web.url("a.test", f"/{m}")}"'
                assert there in page
