"""A site with a self-signed certificate in complete crawls: refused unless its table allows it."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from typing import TYPE_CHECKING

import pytest

from crawler.testing import LocalWeb, html

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.site.conftest import Courtly

_OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(_OPENSSL is None, reason="no openssl to make certificates with")


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]
        body = b"" if path == b"/robots.txt" else b"<title>Secure</title>"
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
        writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


@pytest.fixture
def certified(tmp_path: Path) -> ssl.SSLContext:
    assert _OPENSSL is not None
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [_OPENSSL, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=secure.test",
         "-addext", "subjectAltName=DNS:secure.test"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


@pytest.fixture
async def secure(certified: ssl.SSLContext) -> AsyncIterator[str]:
    """The URL of a server with a self-signed certificate."""
    server = await asyncio.start_server(_answer, "127.0.0.1", 0, ssl=certified)
    async with server:
        yield f"https://secure.test:{server.sockets[0].getsockname()[1]}/"


@pytest.mark.parametrize("table", [None, {"tls_verify": False}, {"ca_file": "cert.pem"}])
async def test_a_certificate_of_its_own(
    courtly: Courtly, secure: str, tmp_path: Path, table: dict[str, object] | None
) -> None:
    """Its robots.txt is requested with the same settings as its pages."""
    site: dict[str, object] = {}
    if table is not None:
        table = {**table, "ca_file": str(tmp_path / "cert.pem")} if "ca_file" in table else table
        site["secure.test"] = table
    async with LocalWeb(
        {"a.test": {"/": html("Home", secure, "/good"), "/good": html("Good")}}
    ) as web:
        await courtly.crawl(
            web,
            "a.test",
            politeness={"delay": 0, "latency_factor": 0},
            scope={"follow": "any"},
            fetch={"unreachable_for": 0},
            site=site,
        )
        good = [web.url("a.test"), web.url("a.test", "/good")]
    if table is None:
        assert courtly.urls("visited") == good
        ((url, error),) = courtly.rows("failed", "url, error")
        assert url == secure
        assert error == "tls: the certificate is not valid: self-signed certificate"
    else:
        assert courtly.urls("visited") == sorted([*good, secure])
        assert courtly.rows("robots", "status", "origin LIKE 'https:%'") == [(200,)]
        assert courtly.rows("visited", "title", f"url = '{secure}'") == [("Secure",)]
