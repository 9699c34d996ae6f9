"""The page behind a reverse proxy that serves it under a path prefix, beside other things."""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import AsyncIterator, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from urllib.parse import urldefrag, urljoin, urlsplit

import aiohttp
import pytest
from aiohttp import hdrs, web

from crawler.config import ConfigError, from_dict
from crawler.daemon.http.guards import HttpSettings

BASE: Final = "/tools/courtly"
TOKEN: Final = "kQ7vX2mZp9Rt4LsW8eYb"
BEARER: Final = {"Authorization": f"Bearer {TOKEN}"}
LINKS: Final = {"a": "href", "link": "href", "script": "src", "img": "src", "form": "action"}
STATIC: Final = Path(__file__).parents[3] / "crawler/console/static"


class Page(HTMLParser):
    """The links of a page, and its forms with their fields."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []  # the element, and where it leads
        self.forms: list[tuple[str, str, dict[str, str]]] = []  # method, action, fields
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if (to := given.get(LINKS.get(tag, ""))) is not None:
            self.links.append((tag, to))
        if "formaction" in given:
            self.links.append((tag, given["formaction"]))
        if tag == "form":
            self.forms.append((given.get("method", "get"), given["action"], {}))
        elif tag in ("input", "button") and given.get("name") and self.forms:
            self.forms[-1][2][given["name"]] = given.get("value", "")


@contextlib.asynccontextmanager
async def proxied(port: int, *, strips: bool) -> AsyncIterator[tuple[str, list[str]]]:
    """A reverse proxy in front of the daemon; yields its URL, and the paths requested of it that
    are not under the prefix. strips: it removes the prefix."""
    strayed: list[str] = []

    async def forward(request: web.Request) -> web.StreamResponse:
        if not request.path.startswith(BASE):
            strayed.append(f"{request.method} {request.path}")
            return web.Response(status=404, text="something else")
        path = request.path_qs.removeprefix(BASE) if strips else request.path_qs
        async with session.request(
            request.method,
            f"http://127.0.0.1:{port}{path or '/'}",
            headers=request.headers,
            data=await request.read(),
            allow_redirects=False,
        ) as answer:
            response = web.Response(status=answer.status, body=await answer.read())
            for name in (hdrs.LOCATION, hdrs.SET_COOKIE, hdrs.CONTENT_TYPE):
                if name in answer.headers:
                    response.headers[name] = answer.headers[name]
            return response

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", forward)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with aiohttp.ClientSession(
        auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}", strayed
        finally:
            await runner.cleanup()


def own_links(text: str, url: str, here: str) -> Iterator[tuple[str, str]]:
    for tag, to in Page(text).links:
        absolute = urldefrag(urljoin(url, to)).url
        if absolute.startswith(here):
            yield tag, absolute


@pytest.mark.parametrize("strips", [False, True])
async def test_no_link_form_or_file_leaves_the_prefix(start: Any, strips: bool) -> None:
    settings = HttpSettings(token=TOKEN, base_path=BASE)
    async with start("a.test", "b.test", settings=settings) as daemon:
        await daemon.idle()
        jar = aiohttp.CookieJar(unsafe=True)
        async with (
            proxied(daemon.port, strips=strips) as (here, strayed),
            aiohttp.ClientSession(cookie_jar=jar, headers={"Accept": "text/html"}) as browser,
        ):
            async with browser.get(f"{here}{BASE}/hosts?state=queued") as answer:
                assert answer.url.path == f"{BASE}/login"
                form = Page(await answer.text()).forms[0]
            fields = {**form[2], "token": TOKEN}
            async with browser.post(here + form[1], data=fields) as answer:
                assert str(answer.url) == f"{here}{BASE}/hosts?state=queued"
            assert {cookie["path"] for cookie in jar} == {BASE}

            waiting, seen = deque([f"{here}{BASE}/"]), {f"{here}{BASE}/"}
            forms: dict[str, dict[str, str]] = {}
            files = 0
            while waiting and len(seen) < (400 if strips else 40):
                url = waiting.popleft()
                async with browser.get(url) as answer:
                    assert answer.status in (200, 422), url  # 422: this crawl has no file to reload
                    assert answer.url.path.startswith(f"{BASE}/"), url
                    if answer.content_type != "text/html":
                        files += 1
                        continue
                    text = await answer.text()
                for method, action, given in Page(text).forms:
                    assert action.startswith(f"{BASE}/"), (url, action)
                    if method == "post":
                        forms.setdefault(action, given)
                for tag, found in own_links(text, url, here):
                    assert urlsplit(found).path.startswith(f"{BASE}/"), (url, found)
                    if tag != "form" and found not in seen:
                        seen.add(found)
                        waiting.append(found)
            assert files >= 3  # style sheet, script, icon
            if strips:
                some = ("/logout", "/crawl/pause", "/host/slow")
                assert {f"{BASE}{path}" for path in some} <= {*forms}
            for action, given in sorted(forms.items(), key=lambda one: one[0].endswith("/logout")):
                values = {"delay_s": "1", "urls": "/", "robots": "x", **given}
                async with browser.post(
                    here + action, data=values, headers={"Origin": here}, allow_redirects=False
                ) as answer:
                    assert answer.status < 500, action
                    assert answer.status not in (404, 401), action
                    onward = answer.headers.get("Location", f"{BASE}/")
                    assert onward.startswith(f"{BASE}/"), (action, onward)
            assert strayed == []


async def test_redirects_and_programs_stay_under_the_prefix(start: Any) -> None:
    async with start("a.test", settings=HttpSettings(base_path=BASE)) as daemon:
        await daemon.idle()
        get = daemon.client.get
        for path, to in (
            ("/find?q=a.test", "/host?host=a.test"),
            ("/find?q=http://a.test/x", "/url?url="),
            ("/favicon.ico", "/static/favicon."),
        ):
            answer = await get(BASE + path)
            assert answer.headers["Location"].startswith(BASE + to)
        for prefix in (BASE, ""):  # for probes and proxies that do not know of the prefix
            for path in ("/healthz", "/readyz", "/metrics", "/api/status", "/api/host?host=a.test"):
                assert (await get(prefix + path)).status == 200, prefix + path
        assert (await get(BASE)).status == 200
        assert (await get(f"{BASE}?said=paused")).status == 200
        assert (await get(f"{BASE}x/api/status")).status == 404
        assert (await get(f"{BASE}/api/openapi.json")).body["servers"] == [{"url": BASE}]
        assert (await daemon.client.post(f"{BASE}/api/pause")).body["state"] == "paused"
        assert (await daemon.local.get("/api/status")).body["state"] == "paused"
        foreign = {"Origin": "http://evil.test"}
        answer = await daemon.client.post(f"{BASE}/api/resume", headers=foreign)
        assert answer.status == 403


async def test_the_token_guards_every_path_under_the_prefix(start: Any) -> None:
    async with start(settings=HttpSettings(token=TOKEN, base_path=BASE)) as daemon:
        for path in ("/", "/api/status", "/metrics", "/hosts", "//api/status", "/static/../hosts"):
            assert (await daemon.client.get(BASE + path)).status == 401, path
        assert (await daemon.client.get(f"{BASE}/healthz")).status == 200
        page = {"Accept": "text/html"}
        answer = await daemon.client.get(f"{BASE}/hosts?state=paused", headers=page)
        assert answer.headers["Location"] == f"{BASE}/login?next=%2Fhosts%3Fstate%3Dpaused"


def test_the_script_knows_the_prefix() -> None:
    """Each path of the server that the script names has the prefix before it."""
    text = "".join(one.read_text("utf-8") for one in STATIC.glob("*.js"))
    paths = re.findall(r'(.{7})["`]/[a-z][^"`]*["`]', text)
    assert paths
    assert {before[-7:] for before in paths} == {"BASE + "[-7:]}


def test_a_prefix_is_a_plain_path() -> None:
    for given, path in [
        ("", ""),
        ("/", ""),
        ("/courtly", "/courtly"),
        ("/a/b.c/", "/a/b.c"),
        ("/~me", "/~me"),
    ]:
        assert from_dict({"daemon": {"base_path": given}}).daemon.base_path == path


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("courtly", "must be a path"),
        ("https://x.test/courtly", "must be a path"),
        ("/a b", "must be a path"),
        ("//x.test", "must be a path"),
        ("/a/../b", "must not contain"),
        ("/a?b", "must be a path"),
        ('/a"b', "must be a path"),
        ("/hosts", "a path of the daemon itself"),
    ],
)
def test_anything_else_is_refused(given: str, words: str) -> None:
    with pytest.raises(ConfigError, match=rf"daemon\.base_path: .*{words}"):
        from_dict({"daemon": {"base_path": given}})
