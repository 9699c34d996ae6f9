"""TLS of the page: certificates that are read, refused and renewed, and bounded handshakes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import ssl
import warnings
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from crawler.clock import RealClock
from crawler.config import ConfigError, from_dict
from crawler.daemon.listener import listening_on
from crawler.daemon.monitoring.access_log import AccessLog
from crawler.front_door import listener
from crawler.front_door.connections import serving
from crawler.front_door.tls import Certificate, CertificateError, certificate_of
from crawler.testing import LocalWeb
from tests.crawler.daemon.certificates import OPENSSL, make_certificate
from tests.crawler.daemon.test_processes import Place

pytestmark = pytest.mark.skipif(OPENSSL is None, reason="no openssl to make certificates with")
NOW = datetime.now(UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_certificate(tmp_path)
    return tmp_path


@pytest.fixture
def place(tmp_path: Path, town: LocalWeb) -> Place:
    return Place(tmp_path, town)


def certificate(folder: Path, name: str = "page") -> Certificate:
    return Certificate(folder / f"{name}.pem", folder / f"{name}.key")


def trusting(folder: Path, name: str = "page") -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(folder / f"{name}.pem"))


class Said(AccessLog):
    """Collects what is logged."""

    def __init__(self) -> None:
        super().__init__(RealClock())
        self.found: list[tuple[str, str]] = []

    def malformed(self, peer: str, error: str) -> None:
        self.found.append((peer, error))


@contextlib.asynccontextmanager
async def served(made: Certificate, said: AccessLog | None = None) -> AsyncIterator[str]:
    """A page at a free port; yields its URL."""

    async def hello(request: web.Request) -> web.Response:
        return web.Response(text=f"secure {request.secure}")

    app = web.Application()
    app.router.add_get("/", hello)
    section = from_dict({"daemon": {"listen": "127.0.0.1:0"}}).daemon
    clock, access = RealClock(), said or Said()
    async with (
        serving(app, clock) as connections,
        listening_on(section, connections, made, access=access, clock=clock) as url,
    ):
        yield url


@contextlib.asynccontextmanager
async def connected(
    url: str, context: ssl.SSLContext
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, _, port = url.removeprefix("https://").rstrip("/").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    yield reader, writer
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def serial_of(url: str, context: ssl.SSLContext) -> str:
    """The number of the certificate of a new connection."""
    async with connected(url, context) as (_, writer):
        return str(writer.get_extra_info("peercert")["serialNumber"])


async def test_the_page_is_served_with_the_certificate(folder: Path) -> None:
    async with served(certificate(folder)) as url, aiohttp.ClientSession() as client:
        assert url.startswith("https://127.0.0.1:")
        async with client.get(url, ssl=trusting(folder)) as answer:
            assert await answer.text() == "secure True"
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await client.get(url)


async def test_old_versions_of_tls_are_refused(folder: Path) -> None:
    said = Said()
    async with served(certificate(folder), said) as url:
        context = trusting(folder)
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python advises against it, too
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await serial_of(url, context)


async def test_a_renewed_certificate_is_for_new_connections(folder: Path) -> None:
    made = certificate(folder)
    async with served(made) as url:
        first = await serial_of(url, trusting(folder))
        async with connected(url, trusting(folder)) as (reader, writer):
            make_certificate(folder)
            assert made.changed()
            assert made.renew()
            assert not made.changed()
            assert not made.renew()
            assert await serial_of(url, trusting(folder)) != first
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert b"secure True" in await reader.read()  # on the connection from before


async def test_a_broken_renewal_keeps_the_old_certificate(folder: Path) -> None:
    made = certificate(folder)
    async with served(made) as url:
        trusted = trusting(folder)
        first = await serial_of(url, trusted)
        make_certificate(folder, "other")
        shutil.copy(folder / "other.pem", folder / "page.pem")
        with pytest.raises(CertificateError, match="is not the key of"):
            made.renew()
        second = await serial_of(url, trusted)
        assert first == second


def test_the_key_may_be_in_the_same_file(folder: Path) -> None:
    both = folder / "both.pem"
    both.write_bytes((folder / "page.pem").read_bytes() + (folder / "page.key").read_bytes())
    assert Certificate(both).warnings(NOW) == ()


def test_what_cannot_be_used_is_refused_in_sentences(folder: Path) -> None:
    make_certificate(folder, "other")
    make_certificate(folder, "locked", encrypted=True)
    (folder / "empty.pem").write_text("")
    (folder / "large.pem").write_bytes(b"x" * 1_000_001)
    os.mkfifo(folder / "pipe.pem")
    for certificate_, key, words in (
        ("page.pem", "other.key", "other.key is not the key of"),
        ("locked.pem", "locked.key", "locked.key is encrypted: decrypt it"),
        ("empty.pem", "page.key", "do not hold a certificate and its key in PEM format"),
        ("page.pem", "empty.pem", "do not hold a certificate and its key in PEM format"),
        ("none.pem", "page.key", "none.pem cannot be read: no such file or directory"),
        ("page.pem", "none.key", "none.key cannot be read"),
        ("large.pem", "page.key", "larger than 1,000,000 bytes"),
        ("pipe.pem", "page.key", "is not a regular file"),
        ("page.pem", None, "does not hold a certificate and its key"),
    ):
        with pytest.raises(CertificateError, match=words):
            Certificate(folder / certificate_, None if key is None else folder / key)


def test_a_readable_key_and_an_old_certificate_are_pointed_out(folder: Path) -> None:
    made = certificate(folder)
    assert made.warnings(NOW) == ()
    (soon,) = made.warnings(NOW + timedelta(days=25))
    assert "expires on" in soon
    (over,) = made.warnings(NOW + timedelta(days=31))
    assert "expired on" in over
    (folder / "page.key").chmod(0o640)
    assert made.warnings(NOW) == ()  # a group is the administrator's choice
    (folder / "page.key").chmod(0o604)
    (readable,) = made.warnings(NOW)
    assert "every user of this machine can read" in readable


@pytest.mark.parametrize(
    ("daemon", "words"),
    [
        ({"tls_key": "page.key"}, "daemon.tls_key: needs daemon.tls_certificate"),
        ({"tls_certificate": "page.pem", "listen": "unix:a.sock"}, "a Unix socket .* has no TLS"),
    ],
)
def test_settings_that_contradict_each_other(daemon: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        from_dict({"daemon": daemon})


def test_the_error_names_the_place_in_the_config(tmp_path: Path) -> None:
    config = from_dict({"daemon": {"tls_certificate": str(tmp_path / "none.pem")}})
    with pytest.raises(ConfigError, match=r"daemon\.tls_certificate: .*none\.pem cannot be read"):
        certificate_of(config)


def test_tls_does_not_replace_the_token() -> None:
    section = from_dict({"daemon": {"listen": "0.0.0.0:1", "tls_certificate": "x.pem"}}).daemon
    assert section.is_beyond_loopback


async def test_failed_handshakes_are_logged_by_kind(folder: Path) -> None:
    said = Said()
    async with served(certificate(folder), said) as url:
        host, port = url.removeprefix("https://").rstrip("/").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer hunter2\r\n\r\n")
        await reader.read()
        writer.close()
        with pytest.raises(ssl.SSLCertVerificationError):
            await serial_of(url, ssl.create_default_context())
        async with asyncio.timeout(5):
            while len(said.found) < 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert ("127.0.0.1", "TLS HTTP_REQUEST") in said.found
    assert "hunter2" not in str(said.found)


async def test_handshakes_that_never_end_do_not_lock_others_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "HANDSHAKES_MAX", 4)
    async with served(certificate(folder)) as url:
        host, port = url.removeprefix("https://").rstrip("/").split(":")
        idle = [await asyncio.open_connection(host, int(port)) for _ in range(20)]
        await serial_of(url, trusting(folder))
        async with asyncio.timeout(5):  # the oldest were displaced
            assert await idle[0][0].read() == b""
        for _, one in idle:
            one.close()


# ------------------------------------------------------------ the whole process


async def test_a_reload_renews_the_certificate(place: Place) -> None:
    make_certificate(place.folder)
    place.write(daemon={"tls_certificate": "page.pem", "tls_key": "page.key"})
    async with place.running() as daemon:
        assert daemon.base.startswith("https://")
        session, api = daemon.session, f"{daemon.base}/api"
        async with session.get(f"{api}/status", ssl=trusting(place.folder)) as answer:
            assert answer.status == 200
        code, out, _ = await place.courtly("status", "--config", str(place.config))
        assert code == 0, out  # commands use the socket beside the database
        old = trusting(place.folder)
        make_certificate(place.folder)
        code, out, _ = await place.courtly("reload", "--dry-run", "--config", str(place.config))
        assert (code, "daemon.tls_certificate: another certificate" in out) == (0, True)
        before = await serial_of(daemon.base, old)
        daemon.process.send_signal(signal.SIGHUP)
        event = await place.event("reloaded")
        assert event["changes"] == [
            "daemon.tls_certificate: another certificate, for new connections"
        ]
        after = await serial_of(daemon.base, trusting(place.folder))
        assert before != after
        (place.folder / "page.key").write_text("broken")
        code, _, err = await place.courtly("reload", "--config", str(place.config))
        assert code == 2
        assert "daemon.tls_certificate" in err
        still = await serial_of(daemon.base, trusting(place.folder))
        assert still == after
        assert await daemon.end() == 0


async def test_a_start_without_a_certificate_is_refused(place: Place) -> None:
    place.write(daemon={"tls_certificate": "none.pem", "tls_key": "page.key"})
    code, _, err = await place.courtly("run", str(place.config))
    assert code == 2
    assert "daemon.tls_certificate" in err
    assert "none.pem cannot be read: no such file or directory" in " ".join(err.split())


async def test_a_session_s_cookie_is_secure(place: Place) -> None:
    make_certificate(place.folder)
    place.write(daemon={"tls_certificate": "page.pem", "tls_key": "page.key", "token": "hunter2x"})
    async with place.running() as daemon:
        async with daemon.session.post(
            f"{daemon.base}/login",
            data={"token": "hunter2x"},
            ssl=trusting(place.folder),
            allow_redirects=False,
        ) as answer:
            assert answer.status == 303
            assert "Secure" in answer.headers["Set-Cookie"]
        assert await daemon.end() == 0
