"""Saved pages of several sites, crawled into a mirror and opened in Chromium without a network."""

from __future__ import annotations

import asyncio
import contextlib
import mimetypes
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

import pytest

from crawler.sinks.mirror_paths import file_of
from crawler.sinks.references import ReferenceRole
from crawler.testing import LocalWeb, ReceivedRequest, Reply, redirect
from tests.site.conftest import Courtly
from tests.site.web import conftest as web_tests

if TYPE_CHECKING:
    from tests.referees.conftest import Data

pytestmark = [pytest.mark.referee, pytest.mark.timeout(1_800)]

_SITES_MAX = 40
# What a browser asks for itself.
_OWN = (
    b"//clients2.google.com/time/",
    b"update.googleapis.com",
    b"CONNECT accounts.google.com:",
    b"CONNECT optimizationguide-pa.googleapis.com:",
)
_LOOK = """(async () => {
  for (const one of document.images) one.loading = "eager";
  await new Promise((done) => setTimeout(done, 200));
  return {
    links: [...document.querySelectorAll("a[href], area[href], iframe[src], frame[src], object[data]")]
      .filter((one) => !/^\\s*file:/i.test(one.getAttribute("href") ?? ""))
      .map((one) => one.src || one.data || one.href).filter((one) => typeof one == "string"),
    images: [...document.images].filter((one) => one.getAttribute("src") && one.complete && !one.naturalWidth)
      .map((one) => one.currentSrc || one.src),
  };
})()"""  # noqa: E501


class Folder:
    """A site made of files."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def file(self, path: str) -> Path | None:
        file = Path(os.path.normpath(f"{self.root}/{unquote(path.partition('?')[0])}"))
        inside = file.is_relative_to(self.root)
        return file if inside and file.exists() else None

    def __call__(self, asked: ReceivedRequest) -> Reply:
        file = self.file(asked.path)
        if file is None:
            return Reply(status=404)
        if file.is_dir():
            if not asked.path.endswith("/"):
                return redirect(asked.path + "/")
            file /= "index.html"
        if not file.is_file():
            return Reply(status=404)
        guessed = "text/html" if ".html" in file.name else mimetypes.guess_type(file.name)[0]
        return Reply(body=file.read_bytes(), content_type=guessed or "application/octet-stream")

    def pages(self, number: int) -> list[str]:
        names = [
            quote(f"/{file.relative_to(self.root)}")
            for ending in ("html", "htm", "xhtml")
            for file in self.root.rglob(f"*.{ending}")
        ]
        return random.Random(0).sample(sorted(names), min(number, len(names)))


def sites(paths: list[Path]) -> Iterator[Folder]:
    for path in paths:
        for folder in sorted(path.iterdir()):
            if folder.is_dir() and (site := Folder(folder.resolve())).pages(1):
                yield site


async def test_a_mirror_of_saved_pages_has_no_dead_link(
    data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = list(sites(data("REFEREE_PAGES")))[:_SITES_MAX]
    data("REFEREE_CHROMIUM")
    each = int(os.environ.get("REFEREE_PAGES_MAX", "400")) // max(len(folders), 1) + 1
    courtly = Courtly(tmp_path)
    mirror = courtly.sink("mirror", "mirror")
    hosts = {f"site{n}.test": folder for n, folder in enumerate(folders)}
    requests: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        if not any(name in line for name in _OWN):
            requests.append(line)
        writer.close()

    proxy = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    cut_off = (f"--proxy-server=127.0.0.1:{port}", "--proxy-bypass-list=<-loopback>")
    monkeypatch.setattr(web_tests, "_FLAGS", (*web_tests._FLAGS, *cut_off))
    async with LocalWeb(hosts) as web, proxy:
        seeds = [
            web.url(host, path) for host, folder in hosts.items() for path in folder.pages(each)
        ]
        limits = {"max_depth": 0, "patience": 5}
        await courtly.crawl(web, *seeds, politeness={"delay": 0, "latency_factor": 0}, crawl=limits)
        links, dead, broken = 0, [], []
        async with contextlib.AsyncExitStack() as stack:
            at = stack.enter_context(web_tests.chromium(tmp_path / "profile"))
            browser = await stack.enter_async_context(web_tests.connected(at))
            for number, url in enumerate(seeds):
                if number % 50 == 0:
                    tab = await browser.tab()
                seen = await _look(tab, (mirror / file_of(url, ReferenceRole.PAGE)).as_uri())
                links += len(seen["links"])
                dead += [(url, link) for link in seen["links"] if _is_dead(link, mirror)]
                broken += [(url, image) for image in seen["images"] if _is_ours(image, mirror)]
    print(  # noqa: T201
        f"\n{len(seeds)} pages, {links} links, {len(dead)} dead, {len(broken)} images broken,"
        f" {len(requests)} requests"
    )
    assert dead == []
    assert broken == []
    assert requests == [], requests


async def _look(tab: web_tests.Tab, page: str) -> dict[str, Any]:
    """Links and broken images of a page, or of the page that it leads to."""
    await tab.goto(page)
    for _ in range(3):
        try:
            return dict(await tab.js(_LOOK))
        except AssertionError:
            await asyncio.sleep(0.5)
    return {"links": [], "images": []}


def _is_dead(link: str, mirror: Path) -> bool:
    parts = urlsplit(link)
    file = Path(unquote(parts.path))
    return parts.scheme == "file" and file.is_relative_to(mirror) and not file.exists()


def _is_ours(image: str, mirror: Path) -> bool:
    """Whether the mirror has the image that is not displayed; otherwise the site lacks it too."""
    file = Path(unquote(urlsplit(image).path))
    return image.startswith("file:") and file.is_relative_to(mirror) and file.exists()
