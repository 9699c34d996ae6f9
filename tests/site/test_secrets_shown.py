"""A marked secret in every place that can hold one: URLs, proxies, headers, credentials and the
daemon's token. The daemon and `courtly config check` never show any."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import aiohttp
import pytest

from crawler.daemon.http.routes import ROUTES
from crawler.testing import LocalWeb, Reply, html, redirect, text
from tests import command_processes

LIMIT_S = 60.0
MARK = "SECRETMARK7Q"
NOT_A_PROXY = (
    f"http://u:{MARK}notport@[127.0.0.1:9",
    f"socks5://u:{MARK}socks@127.0.0.1:9",
    f"http://u:{MARK}port@127.0.0.1:{MARK}",
    f"{MARK}bare",
    f"http://u:{MARK} space@127.0.0.1:0",
)
# "@", a space and "%40" in a password, each as careless people write them.
PROXIES = {
    "at.test": f"http://u:a@{MARK}at@127.0.0.1:9",
    "space.test": f"http://u:a {MARK}space@127.0.0.1:9",
    "escaped.test": f"http://u:a%40{MARK}escaped%40@127.0.0.1:9",
    "slash.test": f"http://u:a%2F{MARK}slash@127.0.0.1:9",
}
FOUND = {
    "seed": f"u:{MARK}seed",
    "link": f"u:{MARK}link",
    "location": f"u:{MARK}location",
    "canonical": f"u:{MARK}canonical",
    "sitemap": f"u:{MARK}sitemap",
}
CREDENTIALS = {"env": f"user:{MARK}env", "file": f"user:{MARK}file"}
TOKEN = f"{MARK}token-that-is-long-enough"


def leaks(shown: str) -> list[str]:
    """The marks and encoded credentials that the text contains."""
    encoded = [base64.b64encode(one.encode()).decode() for one in CREDENTIALS.values()]
    encoded += [base64.b64encode(one.encode()).decode() for one in FOUND.values()]
    return [
        shown[max(0, at - 60) : at + 40]
        for needle in (MARK, *encoded)
        if (at := shown.find(needle)) >= 0
    ]


@contextlib.asynccontextmanager
async def sites() -> AsyncIterator[LocalWeb]:
    secret_cookie = {"Set-Cookie": f"sid={MARK}cookie; Path=/"}
    async with LocalWeb() as web:
        port = web.port

        def at(who: str, path: str) -> str:
            return f"http://{FOUND[who]}@a.test:{port}{path}"

        robots = f"User-agent: *\nDisallow: /private\nSitemap: {at('sitemap', '/sitemap.xml')}\n"
        head = f'<link rel="canonical" href="{at("canonical", "/")}">'
        links = (
            *("/page", "/moved", "/loop", "/private", "/gone", "/hangs"),
            *(at("link", path) for path in ("/linked", "/private/linked", "/gone-linked")),
        )
        web.sites["a.test"] = {
            "/robots.txt": text(robots),
            "/": Reply(
                body=html("Home", *links, head=head).body,
                headers={"Content-Type": "text/html", **secret_cookie},
            ),
            "/page": html("Page", "/"),
            "/linked": html("Linked", "/"),
            "/moved": redirect(at("location", "/landed")),
            "/landed": html("Landed"),
            "/loop": redirect(at("location", "/loop")),
            "/sitemap.xml": text(
                f"<urlset><url><loc>{at('sitemap', '/page')}</loc></url></urlset>"
            ),
        }
        web.sites["b.test"] = {"/": html("B")}
        yield web


def config_of(web: LocalWeb, folder: Path, *, delay: float = 0.01, extra: str = "") -> Path:
    (folder / "login").write_text(CREDENTIALS["file"] + "\n")
    proxies = "\n".join(
        f"[site.{json.dumps(host)}]\nproxy = {json.dumps(url)}" for host, url in PROXIES.items()
    )
    config = folder / "courtly.toml"
    seeds = [
        f"http://{FOUND['seed']}@a.test:{web.port}/",
        web.url("b.test"),
        *(f"http://{host}/" for host in PROXIES),
    ]
    config.write_text(
        f"""
        [crawl]
        user_agent = "testingbot/1 (+http://a.test/)"
        patience = 1
        seeds = {json.dumps(seeds)}
        [politeness]
        delay = {delay}
        latency_factor = 0
        [network]
        allow = ["127.0.0.0/8"]
        resolve = {{ "*.test" = "127.0.0.1" }}
        [storage]
        url = "sqlite:crawl.db"
        links = true
        [daemon]
        listen = "127.0.0.1:0"
        log = "courtly.log"
        log_level = "debug"
        token = "{TOKEN}"
        [fetch.headers]
        X-Global = "{MARK}global"
        [fetch.credentials]
        "{web.url("a.test").rstrip("/")}" = "env:COURTLY_TEST_LOGIN"
        "{web.url("b.test").rstrip("/")}" = "file:login"
        [site."a.test"]
        cookies = true
        headers = {{ Cookie = "a={MARK}cookieheader", X-Api-Key = "{MARK}key" }}
        [site."c.test"]
        headers = {{ X-Auth-Token = "Bearer {MARK}authorization" }}
        {proxies}
        {extra}
        """
    )
    return config


def environment() -> dict[str, str]:
    return {**os.environ, "COURTLY_TEST_LOGIN": CREDENTIALS["env"]}


async def start(folder: Path, *arguments: str) -> asyncio.subprocess.Process:
    return await command_processes.start(
        *arguments, cwd=folder, env=environment(), stderr=asyncio.subprocess.STDOUT
    )


async def command(folder: Path, *arguments: str) -> str:
    process = await start(folder, *arguments)
    async with asyncio.timeout(LIMIT_S):
        out, _ = await process.communicate()
    return out.decode()


def sent_where_it_belongs(web: LocalWeb) -> bool:
    asked = str([one.headers for one in web.log.requests("a.test")])
    return f"{MARK}cookieheader" in asked and f"{MARK}key" in asked


def bad(shown: dict[str, str]) -> dict[str, list[str]]:
    return {name: found for name, said in shown.items() if (found := leaks(said))}


@pytest.mark.timeout(120)
async def test_the_daemon_shows_no_secret(tmp_path: Path) -> None:
    shown: dict[str, str] = {}
    async with sites() as web:
        config = config_of(web, tmp_path)
        process = await start(tmp_path, "run", str(config))
        assert process.stdout is not None
        try:
            async with asyncio.timeout(LIMIT_S):
                first = (await process.stdout.readline()).decode()
            assert first.startswith("http://"), first + (await process.stdout.read()).decode()
            base = first.split()[0].rstrip("/")
            shown["the first line"] = first
            given = {"Authorization": f"Bearer {TOKEN}"}
            async with aiohttp.ClientSession(base, headers=given) as client:
                await _until_crawled(client)
                shown |= await _asked(client, web)
                shown |= await _reloaded(client, web, tmp_path)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(LIMIT_S):
                out, _ = await process.communicate()
        shown["its output"] = out.decode()
    assert sent_where_it_belongs(web)
    shown["the log"] = (tmp_path / "courtly.log").read_text()
    assert '"event": "started"' in shown["the log"] or '"event":"started"' in shown["the log"]
    found = bad(shown)
    assert not found, json.dumps(found, indent=1)


async def _until_crawled(client: aiohttp.ClientSession) -> None:
    async with asyncio.timeout(LIMIT_S):
        while True:
            async with client.get("/api/status") as response:
                assert response.status == 200, await response.text()
                if (await response.json())["visited"] >= 5:
                    return
            await asyncio.sleep(0.1)


async def _asked(client: aiohttp.ClientSession, web: LocalWeb) -> dict[str, str]:
    """The responses to every GET route, every page, and posts that contain a secret."""
    origin = web.url("a.test").rstrip("/")
    whole = quote(f"http://{FOUND['seed']}@a.test:{web.port}/", safe="")
    queries = {
        "/api/host": [f"host=a.test:{web.port}", *(f"host={host}" for host in PROXIES)],
        "/api/url": [f"url={whole}", *(f"url=http://{host}/" for host in PROXIES), f"url=x{whole}"],
        "/api/robots": [f"origin={quote(origin, safe='')}", f"origin={whole}"],
        "/api/config": ["", *(f"host={host}" for host in ("a.test", "c.test", *PROXIES))],
    }
    paths = [
        f"{route.path}?{query}"
        for route in ROUTES
        if route.method == "GET"
        for query in queries.get(route.path, [""])
    ]
    paths += [
        "/",
        "/hosts",
        "/blocked",
        "/seeds",
        "/config/reload",
        "/tester",
        "/metrics",
        "/healthz",
    ]
    paths += [f"/config?{query}" for query in queries["/api/config"]]
    paths += [f"/host?{query}" for query in queries["/api/host"]]
    paths += [f"/url?{query}" for query in queries["/api/url"]]
    paths += [
        f"/tester?url={whole}",
        f"/find?q={whole}",
        "/openapi.json",
        f"/host?host={whole}",
        f"/config?host={whole}",
    ]
    shown: dict[str, str] = {}
    for path in paths:
        async with client.get(path, allow_redirects=False) as response:
            shown[path] = f"{response.headers} {await response.text()}"
            assert response.status < 500, path
    with_secret = f"http://u:{MARK}posted@a.test:{web.port}/posted"
    wrong = f"http://u:{MARK}posted@a test/"
    for path, body in (
        ("/api/seeds", {"urls": [with_secret, wrong, f"ftp://u:{MARK}posted@a.test/"]}),
        ("/api/robots/check", {"urls": [with_secret, wrong], "url": with_secret}),
        ("/api/robots/check", {"urls": [with_secret], "url": wrong}),
        ("/api/robots/check", {"urls": [with_secret, wrong], "robots": "User-agent: *\n"}),
        ("/api/hosts/slow", {"host": with_secret, "delay_s": 1}),
        ("/api/hosts/pause", {"host": wrong}),
        ("/api/retry", {"host": with_secret}),
    ):
        async with client.post(path, json=body) as response:
            assert response.status < 500, path
            shown[f"{path} {body}".replace(MARK, "")] = await response.text()
    return shown


async def _reloaded(client: aiohttp.ClientSession, web: LocalWeb, folder: Path) -> dict[str, str]:
    """The responses to reloads that change a secret or are invalid in a key that holds one."""
    shown: dict[str, str] = {}
    changed = config_of(web, folder).read_text()
    good = (
        changed.replace(f"{MARK}key", f"{MARK}otherkey")
        .replace(f"{MARK}global", f"{MARK}otherglobal")
        .replace(f"a@{MARK}at", f"b@{MARK}otherat")
        .replace(f"a {MARK}space", f"b {MARK}otherspace")
        .replace(TOKEN, TOKEN + "other")
        .replace(f"u:{MARK}seed", f"u:{MARK}otherseed")
        .replace("file:login", "env:COURTLY_TEST_LOGIN")
    )
    wrong = {
        f"proxy {number}": changed + f"\n[site.'wrong.test']\nproxy = {json.dumps(proxy)}\n"
        for number, proxy in enumerate(NOT_A_PROXY)
    } | {
        "token": changed.replace(f'"{TOKEN}"', f'["{TOKEN}"]'),
        "header": changed.replace(f'X-Api-Key = "{MARK}key"', f'X-Api-Key = ["{MARK}key"]'),
        "credentials": changed.replace("file:login", CREDENTIALS["file"]),
        "authorization": changed.replace("X-Auth-Token", "Authorization"),
        "no TOML": changed.replace(f'"{TOKEN}"', f'"{TOKEN}'),
        "no file": changed.replace("file:login", "file:none"),
        "seed": changed.replace("@a.test:", "@a test:"),
    }
    for name, content in {"good": good, **wrong}.items():
        (folder / "courtly.toml").write_text(content)
        async with client.get("/config/reload") as response:
            shown[f"page {name}"] = await response.text()
        for dry in ("?dry_run=true", ""):
            if name == "good" and not dry:
                continue  # last
            async with client.post(f"/api/reload{dry}", json={}) as response:
                assert response.status < 500
                shown[f"reload{dry} {name}"] = await response.text()
    shown |= {
        f"check {name}": await _checked(folder, content)
        for name, content in {"good": good, **wrong}.items()
    }
    (folder / "courtly.toml").write_text(good)
    async with client.post("/api/reload", json={}) as response:
        shown["reload good"] = await response.text()
    return shown


async def _checked(folder: Path, content: str) -> str:
    (folder / "other.toml").write_text(content)
    return await command(folder, "config", "check", "other.toml")
