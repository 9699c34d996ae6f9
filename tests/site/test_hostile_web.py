"""One crawl of a hostile web: each hostile page gets the outcome that its name states, and the rest
is crawled normally."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from typing import TYPE_CHECKING

import brotli  # type: ignore[import-untyped]
from click.testing import CliRunner

from crawler.cli import main
from crawler.testing import LocalWeb, ReceivedRequest, Reply, hang_up, html, not_found, redirect

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

FAST = {"delay": 0, "latency_factor": 0}
GOOD = [f"/good/{n}" for n in range(10)]
HREFS = [
    "http://", "http:///", "http://[", "http://[::1", "http://a b/", "http://%zz/", "http://:80/",
    "http://a.test:99999/", "http://a.test:x/", "http://user:pw@/", "//", "///", "\\\\", "?", "#",
    "", "javascript:void(0)", "data:text/html,<a href=x>", "mailto:a@b.test", "tel:1",
    "about:blank", "file:///etc/passwd",
    "ftp://a.test/", "ht\ttp://a.test/\nx", "\x00", "\x01/x", "%", "%zz",
    "%00", "\ud800", "http://xn--/", "http://xn--a/", "http://..../", "http://256.256.256.256/",
    "http://1.2.3.4.5/", "http://0x100000000/", "http://a.test/" + "x" * 100_000, "../" * 5_000,
    "http://" + "a." * 200 + "test/", "http://" + "a" * 300 + ".test/", "\u202e\ufeff/", "http://ａ.test/",
]  # fmt: skip
HOSTILE_BYTES = bytes(range(0x80, 0x100)).decode("latin-1") + "\x09"


def attributes() -> str:
    return "".join(f'<a href="{href}">x</a>' for href in HREFS)


def pages(web: LocalWeb) -> dict[str, Reply]:
    """Pages by path; the end of a path states the outcome."""
    a_million = b"<a href=/good/0>x</a>" + b" " * 1_000_000
    return {
        "/nested": Reply(body="<div>" * 400_000 + '<a href="/found/nested">x</a>'),
        "/links": Reply(body="".join(f"<a href=/many/{n}>x</a>" for n in range(100_000))),
        "/hrefs": Reply(
            body=(attributes() + '<a href="/found/hrefs">x</a>').encode("utf-8", "surrogatepass")
        ),
        "/xml": Reply(
            body='<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
            + "".join(f'<!ENTITY a{n} "{"&a;" * 10}">' for n in range(100))
            + ']><urlset><url><loc>&a9;</loc></url></urlset><a href="/found/xml"/>'
        ),
        "/binary": Reply(body=bytes(range(256)) * 4_000 + b'<a href="/found/binary">x</a>'),
        "/png": Reply(body=b"\x89PNG\r\n\x1a\n" + bytes(100_000)),
        "/charset": Reply(body="<title>ü</title>", content_type="text/html; charset=utf-7\x80\xff"),
        "/utf-16": Reply(body="<title>ü</title>", content_type="text/html; charset=utf-16"),
        "/gzip-broken": Reply(body=b"\x1f\x8bnot", headers={"Content-Encoding": "gzip"}),
        "/gzip-cut": Reply(
            body=gzip.compress(a_million)[:-9], headers={"Content-Encoding": "gzip"}
        ),
        "/br-cut": Reply(body=brotli.compress(a_million)[:-3], headers={"Content-Encoding": "br"}),
        "/bomb": Reply(
            body=gzip.compress(bytes(50_000_000)), headers={"Content-Encoding": "gzip"}
        ),
        "/unknown-coding": Reply(body="x", headers={"Content-Encoding": "sdch"}),
        "/long-header": Reply(headers={"X": "y" * 60_000}),
        "/too-long-header": Reply(headers={"X": "y" * 100_000}),
        "/hangs-up": hang_up(),
        "/breaks-off": Reply(body="x" * 1_000, broken=True),
        "/loop": redirect("/loop"),
        "/ring-1": redirect("/ring-2"),
        "/ring-2": redirect("/ring-1"),
        "/to-nowhere": Reply(status=302),
        "/to-empty": redirect(""),
        "/to-junk": redirect("http://[::1"),
        "/to-script": redirect("javascript:alert(1)"),
        "/to-private": redirect("http://169.254.169.254/latest/meta-data/"),
        "/to-latin-1": Reply(status=302, headers={"Location": "/found/caf\xe9"}),
        "/to-dead": redirect(f"http://dead.test:{web.dead_port}/"),
        "/status-999": Reply(status=999, body="x"),
        "/status-600": Reply(status=600, body="x"),
        "/headers": Reply(
            body=b"<title>\xff\xfe\xed\xa0\x80</title><a href='/found/headers'>\xed\xa0\x80</a>",
            headers=[
                (name, HOSTILE_BYTES)
                for name in ("X-Robots-Tag", "Link", "Refresh", "Retry-After", "ETag",
                             "Last-Modified", "Cache-Control", "Expires", "Date", "Set-Cookie",
                             "Location", "Content-Language", "Server")
            ],
            content_type="text/html; " + HOSTILE_BYTES,
        ),
    }  # fmt: skip


async def test_the_rest_of_a_crawl_is_unharmed(courtly: Courtly) -> None:
    async with LocalWeb() as web:
        bad = pages(web)
        web.sites["a.test"] = {
            "/": html("Home", *bad, *GOOD),
            **bad,
            **{path: html(path) for path in GOOD},
        }
        web.sites["b.test"] = {"/": html("Good", *GOOD), **{path: html(path) for path in GOOD}}
        started_s = time.monotonic()
        summary = await courtly.crawl(
            web,
            "a.test",
            "b.test",
            politeness=FAST,
            scope={"follow": "any", "exclude": ["*/many/*"]},
            fetch={
                "max_attempts": 1,
                "unreachable_for": 0,
                "max_body": "10MB",
                "cookies": True,
            },
            robots={"unreachable": "open"},
        )
        assert time.monotonic() - started_s < 30
        visited = {
            url.removeprefix(web.url("a.test", "")): rest
            for url, *rest in courtly.rows(
                "visited", "url, status, title, content_type, redirect_url"
            )
        }
        failed = {
            url.removeprefix(web.url("a.test", "")): error.partition(":")[0]
            for url, error in courtly.rows("failed", "url, error")
        }
        assert set(GOOD) <= set(visited)
        assert {web.url("b.test", path) for path in ("/", *GOOD)} <= set(visited)
        outcomes = {path: failed.get(path) or visited[path][0] for path in bad}
        assert outcomes == {
            "/nested": 200, "/links": 200, "/hrefs": 200, "/xml": 200, "/binary": 200, "/png": 200,
            "/charset": 200, "/utf-16": 200, "/gzip-broken": "body", "/gzip-cut": "body",
            "/br-cut": "body", "/bomb": "too-large", "/unknown-coding": 200, "/long-header": 200,
            "/too-long-header": "too-large", "/hangs-up": "protocol", "/breaks-off": "body",
            "/loop": 302, "/ring-1": 302, "/ring-2": 302, "/to-nowhere": 302, "/to-empty": 302,
            "/to-junk": 302, "/to-script": 302, "/to-private": 302, "/to-latin-1": 302,
            "/to-dead": 302, "/status-999": "http", "/status-600": "http", "/headers": 200,
        }  # fmt: skip
        for found in ("nested", "hrefs", "xml", "binary", "headers"):
            assert f"/found/{found}" in visited, found
        assert visited["/to-latin-1"][3] == web.url("a.test", "/found/caf%E9")
        assert visited["/to-junk"][3] is None
        assert failed["http://169.254.169.254/latest/meta-data/"] == "address"
        assert failed[f"http://dead.test:{web.dead_port}/"] == "connect"
        paths = web.log.paths("a.test")
        assert len(paths) == len(set(paths))
        assert summary.queued == 0


async def test_hostile_bytes_in_every_header_reach_neither_the_store_nor_json(
    courtly: Courtly,
) -> None:
    names = [
        "Content-Type", "Location", "Link", "Refresh", "X-Robots-Tag", "Retry-After", "ETag",
        "Last-Modified", "Cache-Control", "Expires", "Date", "Set-Cookie", "Content-Encoding",
        "Content-Language", "Server", "X",
    ]  # fmt: skip
    values = ["\xff", "\xc3", "\xed\xa0\x80", "a\xe9b", "\xef\xbf\xbe", "\xf4\x90\x80\x80", "\x80"]
    cases = [(name, value) for name in names for value in values]

    def page(asked: ReceivedRequest) -> Reply:
        kind, _, number = asked.path.strip("/").partition("/")
        if not number.isdecimal():
            if asked.path != "/":
                return not_found()
            return html("Home", *(f"/{kind}/{n}" for kind in ("p", "r") for n in range(len(cases))))
        name, value = cases[int(number)]
        body = f"<title>{value}</title><a href='/x'>{value}</a>".encode("latin-1")
        return Reply(
            status=302 if kind == "r" else 200,
            body=body,
            headers=[(name, value)],
        )

    def robots(asked: ReceivedRequest) -> Reply:
        if asked.path != "/robots.txt":
            return html("Home")
        name, value = cases[int(asked.host.removeprefix("r").removesuffix(".test"))]
        return Reply(
            body="User-agent: *\nDisallow: /x\xff\n".encode("latin-1"), headers=[(name, value)]
        )

    async with LocalWeb() as web:
        web.sites["a.test"] = page
        for n in range(len(cases)):
            web.sites[f"r{n}.test"] = robots
        seeds = ["a.test", *(f"r{n}.test" for n in range(len(cases)))]
        fetch = {"max_attempts": 1, "cookies": True}
        await courtly.crawl(web, *seeds, politeness=FAST, fetch=fetch)
        assert courtly.rows("visited", "count(*)")[0][0] > 2 * len(cases)
        for view in ("visited", "failed", "robots", "hosts", "skipped"):
            arguments = ["show", view, "--db", str(courtly.db), "--format", "jsonl"]
            arguments += ["--limit", "100000"]
            shown = await asyncio.to_thread(CliRunner().invoke, main, arguments)
            assert shown.exit_code == 0, shown.output
            rows = [json.loads(line) for line in shown.stdout.splitlines()]
            assert rows or view in ("failed", "skipped")
            json.dumps(rows, ensure_ascii=False).encode()


# ---------------------------------------------------------------- below HTTP

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
# By path: pieces sent one after the other, the last again and again; None: wait for the client.
SAID: dict[str, tuple[bytes | None, ...]] = {
    "/good": (OK + b"Content-Length: 4\r\n\r\ngood",),
    "/reset-at-once": (b"",),
    "/reset-in-the-header": (OK,),
    "/silence": (None,),
    "/header-drip": (OK + b"X: ", b"y"),
    "/body-drip": (OK + b"\r\n", b"y"),
    "/endless-body": (OK + b"\r\n", b"x" * 65_536),
    "/endless-header": (OK, b"X: " + b"y" * 60_000 + b"\r\n"),
    "/9-kb-header": (OK + b"X: " + b"y" * 9_000 + b"\r\nContent-Length: 0\r\n\r\n",),
    "/100-kb-header": (OK + b"X: " + b"y" * 100_000 + b"\r\nContent-Length: 0\r\n\r\n",),
    "/garbage": (b"\x00\x01\x02 SSH-2.0\r\n\r\n",),
    "/too-long-length": (OK + b"Content-Length: 100\r\n\r\nshort",),
    "/too-short-length": (OK + b"Content-Length: 5\r\n\r\nhello and more",),
    "/two-lengths": (OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",),
    "/chunks": (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",),
    "/trailers": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n",
        b"X: " + b"y" * 60_000 + b"\r\n",
    ),
    "/interims": (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100,) * 2,
    "/switch": (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",),
    "/zstd": (OK + b"Content-Encoding: zstd\r\nContent-Length: 4\r\n\r\nnope",),
}
AGAIN = {"/header-drip", "/body-drip", "/endless-body", "/endless-header", "/trailers", "/interims"}
ENDS = {
    "/good": "200", "/reset-at-once": "protocol", "/reset-in-the-header": "protocol",
    "/silence": "timeout", "/header-drip": "timeout", "/body-drip": "timeout",
    "/endless-body": "too-large", "/endless-header": "too-large", "/9-kb-header": "200",
    "/100-kb-header": "too-large", "/garbage": "protocol", "/too-long-length": "body",
    "/too-short-length": "200", "/two-lengths": "protocol", "/chunks": "body",
    "/trailers": "too-large",    "/interims": "protocol", "/switch": "protocol", "/zstd": "body",
}  # fmt: skip


async def _raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ")[1].decode()
        said = SAID.get(path, (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",))
        for piece in said:
            if piece is None:
                await reader.read()
            else:
                writer.write(piece)
        while path in AGAIN:
            writer.write(said[-1] or b"")
            await writer.drain()
            await asyncio.sleep(0.01)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def test_servers_that_speak_no_http_harm_nobody(courtly: Courtly) -> None:
    """One host for each of them, and hosts that cannot be connected to."""
    server = await asyncio.start_server(_raw, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    names = {f"h{n}.test": path for n, path in enumerate(SAID)}
    async with server, LocalWeb() as web:
        links = [f"http://{name}:{port}{path}" for name, path in names.items()]
        dead = f"http://dead.test:{web.dead_port}/"
        untrusted = f"https://h0.test:{port}/tls"
        missing = "http://no-such-name.invalid/"
        web.sites["a.test"] = {
            "/": html("Home", *links, dead, untrusted, missing, *GOOD),
            **{path: html(path) for path in GOOD},
        }
        started_s = time.monotonic()
        summary = await courtly.crawl(
            web,
            "a.test",
            politeness=FAST,
            scope={"follow": "any"},
            fetch={
                "max_attempts": 1,
                "unreachable_for": 0,
                "max_body": "1MB",
                "timeout": 4,
                "connect_timeout": 1,
                "first_byte_timeout": 1,
                "min_rate": 1_000,
            },
        )
        assert time.monotonic() - started_s < 20
        ends = {url: str(status) for url, status in courtly.rows("visited", "url, status")}
        ends |= {
            url: error.partition(":")[0] for url, error in courtly.rows("failed", "url, error")
        }
        assert {path: ends[f"http://{name}:{port}{path}"] for name, path in names.items()} == ENDS
        assert {ends[web.url("a.test", path)] for path in GOOD} == {"200"}
        assert (ends[dead], ends[untrusted], ends[missing]) == ("connect", "tls", "dns")
        assert summary.queued == 0
