"""TLS as it fails in practice, each case by name; and what a site's own table may change of it."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from crawler.clock import RealClock
from crawler.config import ConfigError, from_dict
from crawler.fetching.fetcher import AiohttpFetcher, Answer, Failure, Request
from crawler.fetching.site_settings import SiteSettingsTable
from tests.crawler.conftest import fetcher_config

HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
_OPENSSL = shutil.which("openssl")
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")

pytestmark = pytest.mark.skipif(_OPENSSL is None, reason="no openssl to make certificates with")


class Authority:
    """A certificate authority of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "ca.pem"
        self._run("req", "-x509", *_NEW_KEY, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2",
                  "-subj", "/CN=the test's authority",
                  "-addext", "keyUsage=critical,keyCertSign")  # fmt: skip

    def _run(self, *arguments: str) -> None:
        assert _OPENSSL is not None
        subprocess.run([_OPENSSL, *arguments], cwd=self.folder, check=True, capture_output=True)

    def server(self, *, name: str = "raw.test", expired: bool = False) -> ssl.SSLContext:
        """A server with a certificate for `name` by this authority."""
        (self.folder / "names").write_text(f"subjectAltName=DNS:{name}\n")
        self._run(
            "req", *_NEW_KEY, "-keyout", "key.pem", "-out", "asked.csr", "-subj", f"/CN={name}"
        )
        sign = ("x509", "-req", "-in", "asked.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-CAcreateserial", "-out", "cert.pem", "-extfile", "names")  # fmt: skip
        if expired:
            try:
                self._run(*sign, "-days", "-1")
            except subprocess.CalledProcessError:  # newer ones ask for dates
                self._run(*sign, "-not_before", "20200101000000Z", "-not_after", "20200201000000Z")
        else:
            self._run(*sign, "-days", "2")
        return self._context("cert.pem", "key.pem")

    def self_signed(self) -> ssl.SSLContext:
        self._run("req", "-x509", *_NEW_KEY, "-keyout", "own.key", "-out", "own.pem", "-days", "2",
                  "-subj", "/CN=raw.test", "-addext", "subjectAltName=DNS:raw.test")  # fmt: skip
        return self._context("own.pem", "own.key")

    def _context(self, cert: str, key: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / cert, self.folder / key)
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


Open = Callable[..., AbstractAsyncContextManager[AiohttpFetcher]]


@asynccontextmanager
async def opened(**sections: Any) -> AsyncIterator[AiohttpFetcher]:
    """A fetcher under a config of these sections."""
    async with AiohttpFetcher(fetcher_config(**sections), RealClock()) as fetcher:
        yield fetcher


async def outcome(url: str, **sections: Any) -> str | bytes:
    """The body, or the error."""
    async with opened(**sections) as fetcher:
        result = await fetcher.fetch(Request(url=url))
    if isinstance(result, Failure):
        assert not result.connected
        assert not result.permanent
        return result.error
    assert isinstance(result, Answer)
    return result.body


async def test_a_certificate_of_an_authority_that_is_not_known(serve, authority):
    server = await serve(HELLO, tls=authority.server())
    said = await outcome(server.url(scheme="https"))
    assert said == ("tls: the certificate is not valid: unable to get local issuer certificate")
    assert server.requests == []


async def test_a_site_may_trust_an_authority_of_its_own(serve, authority):
    server = await serve(HELLO, tls=authority.server())
    own = {"raw.test": {"ca_file": str(authority.file)}}
    assert await outcome(server.url(scheme="https"), site=own) == b"hello"
    other = {"other.test": {"ca_file": str(authority.file)}}
    assert "local issuer" in await outcome(server.url(scheme="https"), site=other)
    all_sites = {"ca_file": str(authority.file)}
    assert await outcome(server.url(scheme="https"), fetch=all_sites) == b"hello"


async def test_an_expired_certificate(serve, authority):
    server = await serve(HELLO, tls=authority.server(expired=True))
    fetch = {"ca_file": str(authority.file)}
    said = await outcome(server.url(scheme="https"), fetch=fetch)
    assert said == "tls: the certificate is not valid: certificate has expired"
    assert server.requests == []


async def test_a_certificate_for_another_host(serve, authority):
    server = await serve(HELLO, tls=authority.server(name="other.test"))
    fetch = {"ca_file": str(authority.file)}
    said = await outcome(server.url(scheme="https"), fetch=fetch)
    assert said == (
        "tls: the certificate is not valid: Hostname mismatch, certificate is not valid for "
        "'raw.test'"
    )
    assert server.requests == []


async def test_a_self_signed_certificate(serve, authority):
    server = await serve(HELLO, tls=authority.self_signed())
    said = await outcome(server.url(scheme="https"))
    assert said == "tls: the certificate is not valid: self-signed certificate"
    assert server.requests == []


@pytest.mark.parametrize("case", ["self-signed", "expired", "another host"])
async def test_certificates_of_a_site_one_owns_need_not_be_looked_at(serve, authority, case):
    tls = {
        "self-signed": authority.self_signed,
        "expired": lambda: authority.server(expired=True),
        "another host": lambda: authority.server(name="other.test"),
    }[case]()
    server = await serve(HELLO, tls=tls)
    own = {"raw.test": {"tls_verify": False}}
    assert await outcome(server.url(scheme="https"), site=own) == b"hello"
    said = await outcome(server.url(scheme="https", host="else.test"), site=own)
    assert isinstance(said, str)
    assert said.startswith("tls: ")


async def test_a_connection_made_without_a_look_serves_no_other_site(serve, authority):
    """Both names are one server, and both come from one pool."""
    server = await serve(HELLO, tls=authority.self_signed(), keep=True)
    async with opened(site={"raw.test": {"tls_verify": False}}) as fetcher:
        for host, good in [("raw.test", True), ("else.test", False), ("raw.test", True)]:
            result = await fetcher.fetch(Request(url=server.url(scheme="https", host=host)))
            assert isinstance(result, Answer) is good, result
    assert len(server.requests) == 2


def test_certificates_are_looked_at_everywhere_else():
    for data in ({"fetch": {"tls_verify": False}}, {"site": {"*": {"tls_verify": False}}}):
        with pytest.raises(ConfigError, match="only for a site you own"):
            from_dict(data)


def test_a_file_of_authorities_that_cannot_be_had_is_named(tmp_path):
    (tmp_path / "empty.pem").write_text("")
    data = {
        "fetch": {"ca_file": "missing.pem"},
        "site": {"a.test": {"ca_file": "empty.pem"}},
    }
    with pytest.raises(ConfigError) as caught:
        SiteSettingsTable(from_dict(data, base=tmp_path))
    assert caught.value.problems == (
        f"config: fetch.ca_file: {tmp_path / 'missing.pem'}: No such file or directory",
        f'config: site."a.test".ca_file: {tmp_path / "empty.pem"}: holds no certificates',
    )


@pytest.mark.parametrize("said", ["", "Content-Length: 0\r\n"])
async def test_law_1_a_contact_through_a_tunnel_ends_with_its_answer(
    serve, authority, pushed_clock, said
):
    """Not when the proxy said that the tunnel is there: that was a whole answer as well."""
    clock = pushed_clock

    async def late(connection):
        await connection.request()
        clock.ahead_s += 1000
        await connection.send(HELLO)

    server = await serve(late, tls=authority.server())

    async def pump(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def proxy_script(connection):
        await connection.request()
        await connection.send(f"HTTP/1.1 200 Connection established\r\n{said}\r\n".encode())
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(pump(connection.reader, writer), pump(reader, connection.writer))

    proxy = await serve(proxy_script)
    async with AiohttpFetcher(
        fetcher_config(fetch={"ca_file": str(authority.file)}), clock
    ) as fetcher:
        url = server.url(scheme="https")
        answer = await fetcher.fetch(Request(url=url, proxy=proxy.url(host="127.0.0.1")))
    assert isinstance(answer, Answer), answer
    assert answer.body == b"hello"
    assert answer.elapsed_s >= 1000
