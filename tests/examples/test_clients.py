"""Each example runs against a local web, politely, and is short."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shutil
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler.errors import RobotsDisallowed
from crawler.testing import LocalWeb, Pages, ReceivedRequest, Reply, html, redirect, text

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
UA = "examplebot/1.0 (+https://example.com/bot)"
HOST = "127.0.0.1"
DELAY_S = 0.1
LINES_MAX = 40
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def main_of(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


async def run(name: str, *urls: str, **options: Any) -> None:
    config = {"politeness": {"delay": DELAY_S, "latency_factor": 0}}
    async with asyncio.timeout(60):
        await main_of(name)(UA, *urls, config=config, allow="127.0.0.0/8", **options)


@pytest.fixture
async def web() -> AsyncIterator[LocalWeb]:
    site = {
        "/robots.txt": text("User-agent: examplebot\nDisallow: /private/\n"),
        "/a": html("A"),
        "/b": redirect("/a"),
        "/to-private": redirect("/private/a"),
        "/private/a": html("Private"),
        "/busy": Reply(status=503, headers={"Retry-After": "1"}),
    }
    async with LocalWeb({HOST: site}) as web:
        yield web


def assert_polite(web: LocalWeb) -> None:
    assert web.log.paths()[0] == "/robots.txt"
    assert not any(path.startswith("/private/") for path in web.log.paths())
    assert min(web.log.gaps(), default=DELAY_S) >= DELAY_S - 0.001
    assert web.log.peak_concurrency() == 1
    assert {entry.headers["user-agent"] for entry in web.log} == {UA}


def test_an_example_is_short_documented_and_has_a_test() -> None:
    for file in sorted(EXAMPLES.glob("*.py")):
        source = file.read_text(encoding="utf-8")
        assert len(source.splitlines()) <= LINES_MAX, file
        assert source.startswith('"""'), file
        for files in ((ROOT / "tests").rglob("test_*.py"), (ROOT / "docs").glob("*.md")):
            assert any(file.stem in one.read_text(encoding="utf-8") for one in files)


@pytest.mark.parametrize("name", ["httpx_transport", "requests_in_a_thread"])
async def test_a_client_is_polite_also_after_redirects(
    name: str, web: LocalWeb, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (web.url(HOST, path) for path in ("/a", "/b"))
    await run(name, a, b)
    assert re.findall(r"^200 (\S+) \d{3}$", capsys.readouterr().out, re.MULTILINE) == [a, a]
    assert sorted(web.log.paths()) == ["/a", "/a", "/b", "/robots.txt"]
    assert_polite(web)


@pytest.mark.parametrize("name", ["httpx_transport", "requests_in_a_thread", "s3_objects"])
@pytest.mark.parametrize("path", ["/private/a", "/to-private"])
async def test_a_client_requests_nothing_that_is_disallowed(
    name: str, path: str, web: LocalWeb, keys: None
) -> None:
    if name == "s3_objects" and path == "/to-private":
        await run(name, web.url(HOST, path))  # it follows no redirects
    else:
        with pytest.raises(RobotsDisallowed):
            await run(name, web.url(HOST, path))
    assert_polite(web)


@pytest.mark.parametrize("name", ["httpx_transport", "requests_in_a_thread", "s3_objects"])
async def test_a_client_waits_after_a_503(name: str, web: LocalWeb, keys: None) -> None:
    await run(name, *(web.url(HOST, path) for path in ("/busy", "/a")))
    assert web.log.paths() == ["/robots.txt", "/busy", "/a"]
    assert web.log.gaps()[-1] >= 1
    assert_polite(web)


# ---------------------------------------------------------------- S3


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


async def test_s3_objects_are_requested_with_a_signature(
    keys: None, capsys: pytest.CaptureFixture[str]
) -> None:
    def serve(request: ReceivedRequest) -> Reply:
        if request.path == "/robots.txt":
            return Reply(status=403)
        signed = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/\d{8}/us-east-1/s3/aws4_request, "
            r"SignedHeaders=host;[a-z0-9;-]+, Signature=[0-9a-f]{64}",
            request.headers.get("Authorization", ""),
        )
        return Reply(body=b"object", status=200 if signed else 403)

    async with LocalWeb({HOST: serve}) as web:
        await run("s3_objects", *(web.url(HOST, f"/bucket/{n}") for n in range(2)))
        assert re.findall(r"^(\d+) \S+ (\d+)$", capsys.readouterr().out, re.MULTILINE) == [
            ("200", "6"),
            ("200", "6"),
        ]
        assert web.log.paths() == ["/robots.txt", "/bucket/0", "/bucket/1"]
        assert_polite(web)


# ---------------------------------------------------------------- Chromium


@pytest.fixture
def chromium() -> str:
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail("there is no Chromium")
        pytest.skip("there is no Chromium")
    return CHROMIUM


@pytest.fixture
def udp() -> Iterator[socket.socket]:
    """A port that WebRTC would contact."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind((HOST, 0))
        bound.setblocking(False)
        yield bound


def page_of(title: str, body: str) -> Reply:
    return Reply(body=f"<!DOCTYPE html><title>{title}</title>{body}")


async def test_all_that_chromium_requests_for_a_page_has_a_permit(
    chromium: str, udp: socket.socket, capsys: pytest.CaptureFixture[str]
) -> None:
    udp_port = udp.getsockname()[1]
    script = Reply(
        body="document.title += ' with script'; fetch('/private/data'); fetch('/moved');"
        "new WebSocket('ws://' + location.host + '/socket');"
        "navigator.sendBeacon('/private/beacon'); new Worker('/worker.js');"
        "navigator.serviceWorker?.register('/private/service.js').catch(() => {});"
        "new EventSource('/private/events'); window.open('/private/popup');"
        "new SharedWorker('/shared.js'); fetch('/form', {method: 'POST'});"
        f"const peer = new RTCPeerConnection({{iceServers: [{{urls: 'stun:{HOST}:{udp_port}'}}]}});"
        "peer.createDataChannel('data');"
        "peer.createOffer().then((offer) => peer.setLocalDescription(offer));",
        content_type="text/javascript",
    )
    body = (
        '<link rel="stylesheet" href="/style.css"><script src="/script.js"></script>'
        '<img src="/image.png"><img src="/private/image.png"><iframe src="/frame"></iframe>'
        '<link rel="prefetch" href="/private/prefetch"><link rel="icon" href="/private/icon">'
        '<script type="speculationrules">{"prerender": [{"urls": ["/private/prerender"], '
        '"eagerness": "immediate"}], "prefetch": [{"urls": ["/private/speculated"], '
        '"eagerness": "immediate"}]}</script>'
    )
    site: Pages = {
        "/robots.txt": text("User-agent: examplebot\nDisallow: /private/\n"),
        "/": redirect("/page"),
        "/page": page_of("Page", body),
        "/style.css": Reply(body="body { background: url(/b.png) }", content_type="text/css"),
        "/script.js": script,
        "/worker.js": Reply(body="fetch('/private/of-worker')", content_type="text/javascript"),
        "/shared.js": Reply(body="fetch('/private/of-shared')", content_type="text/javascript"),
        "/form": redirect("/sent"),
        "/image.png": Reply(body=b"", content_type="image/png"),
        "/b.png": Reply(body=b"", content_type="image/png"),
        "/frame": page_of("Frame", "<img src=/private/of-frame.png>"),
        "/moved": redirect("/private/moved"),
    }
    async with LocalWeb({HOST: site}) as web:
        await run("playwright_page", web.url(HOST), chromium=chromium)
        assert capsys.readouterr().out == f"{web.url(HOST, '/page')} Page with script\n"
        assert {*web.log.paths()} - {"/favicon.ico"} == {
            path for path in site if not path.startswith("/private/")
        }
        assert_polite(web)
    with pytest.raises(BlockingIOError):
        udp.recv(1)
