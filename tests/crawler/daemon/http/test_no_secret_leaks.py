"""Hostile requests of a client that knows the token: no secret reaches the log, the responses or
the metrics, and the log does not grow with their number."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from crawler.config.sections import LogLevel
from crawler.daemon.http.accounts import Role, account
from crawler.daemon.http.guards import HttpSettings
from crawler.daemon.monitoring.access_log import PERIOD_S, AccessLog
from crawler.daemon.monitoring.event_log import EventLog, LogFile
from crawler.testing import JumpClock

TOKEN: Final = "zQ7vX2mZp9Rt4LsW8eYb"
READER: Final = "zD3fG6hJ9kL2zX5cV8bN"
SEEDS: Final = (1, 2)
LOG_BYTES: Final = 20_000  # for 500 requests
LIBRARIES: Final = ("aiohttp", "asyncio", "courtly")

SECRET, SESSION = "{SECRET}", "{SESSION}"  # in the requests below
HEADS: Final = (
    f"Authorization: Bearer {SECRET}\0",
    f"Authorization: Bearer {SECRET}\x01\x02",
    f" Authorization: Bearer {SECRET}",
    f"Authorization : Bearer {SECRET}",
    f"Authorization: Bearer {SECRET}\r\nContent-Length: x",
    f"Authorization: Bearer {SECRET}\r\nContent-Length: -1",
    f"Authorization: Bearer {SECRET}\r\nContent-Length: 5\r\nContent-Length: 6",
    f"Authorization: Bearer {SECRET}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
    f"Authorization: Bearer {SECRET}\r\nTransfer-Encoding: {SECRET}",
    f"Authorization: Bearer {SECRET}\r\n{SECRET}",
    f"Authorization: Bearer {SECRET}{'x' * 9_000}",
    f"Authorization: Bearer {SECRET}\r\nX: {'y' * 70_000}",
    f"Authorization: Bearer {SECRET}\r\n" + "\r\n".join(f"X-{n}: {SECRET}" for n in range(300)),
    f"Cookie: courtly_{{PORT}}={SESSION}\xff\x00",
    f"Cookie: {SESSION}; courtly_{{PORT}}={SESSION}\r\n{SESSION}",
    f"Cookie: courtly_{{PORT}}={SESSION}\r\nExpect: {SESSION}",
    f"Authorization: Basic {SECRET}",
    f"Authorization: {SECRET}",
    f"Proxy-Authorization: Bearer {SECRET}\r\nUpgrade: {SECRET}\r\nConnection: upgrade",
    f"Authorization: Bearer {SECRET}x",
    f"Authorization: Bearer {SECRET}\r\nX-Forwarded-For: {SECRET}",
    f"Authorization: Bearer {SECRET}\r\nOrigin: http://{SECRET}",
    f"Authorization: Bearer {SECRET}\r\nSec-Fetch-Site: {SECRET}",
    f"Authorization: Bearer {SECRET}\r\nAccept: text/html",
    f"Authorization: Bearer {SECRET}",
    f"Cookie: courtly_{{PORT}}={SESSION}\r\nOrigin: http://127.0.0.1:{{PORT}}",
)  # fmt: skip
TARGETS: Final = (
    "GET /", "GET /api/status", "GET /api/nothing", "POST /api/pause", "POST /api/seeds",
    "POST /hosts/steer", "POST /seeds", "POST /login", "POST /tester", "DELETE /api/permit/x",
    f"GET /{SECRET}", f"POST /{SECRET}", f"POST /api/{SECRET}", f"GET /?token={SECRET}",
    f"POST /api/hosts/pause?dry_run={SECRET}", f"DELETE /api/permit/{SECRET}", f"{SECRET} /",
    f"GET /static/{SECRET}", f"GET http://{SECRET}@127.0.0.1/", f"GET /{SECRET} x", "GET /%zz",
    "GET *", "OPTIONS *", "PRI *", f"POST /{SESSION}", f"GET /host?host={SECRET}",
    f"GET /api/hosts?{SECRET}=1&limit={SECRET}", f"GET /api/host?host={SESSION}",
)  # fmt: skip
VERSIONS: Final = ("HTTP/1.1", "HTTP/1.0", "HTTP/9.9", f"{SECRET}", "")
JSON: Final = "Content-Type: application/json"
FORM: Final = "Content-Type: application/x-www-form-urlencoded"
BODIES: Final = (
    ("", ""),
    (JSON, f'{{"host": "{SECRET}"}}'),
    (JSON, f'{{"{SECRET}": 1}}'),
    (JSON, f'{{"host": "{SECRET}'),
    (JSON, f'{{"urls": ["{SECRET}", "http://{SECRET}@a.test/"], "priority": "{SECRET}"}}'),
    (JSON, "[" * 5_000),
    (JSON, "\xff\xfe\x00"),
    (f"{JSON}\r\nContent-Encoding: gzip", f"{SECRET}"),
    (f"{JSON}\r\nTransfer-Encoding: chunked", f"zz\r\n{SECRET}\r\n0\r\n\r\n"),
    (f"{JSON}\r\nTransfer-Encoding: chunked", f"5;{SECRET}\r\nhello{SECRET}\r\n"),
    (FORM, f"token={SECRET}x&next=/{SECRET}"),
    (FORM, f"host={SECRET}&command={SECRET}&back=/hosts"),
    (FORM, f"token=%zz%ff{SECRET}"),
    (f"{FORM}; charset={SECRET}", f"token={SECRET}"),
    (f"Content-Type: multipart/form-data; boundary={SECRET}", f"--{SECRET}\r\n{SECRET}\r\n"),
    ("Content-Type: multipart/form-data", f"{SECRET}"),
)


def requests(rng: random.Random, secrets: Sequence[str], session: str, port: int) -> bytes:
    """A hostile request."""
    head, (kind, body) = rng.choice(HEADS), rng.choice(BODIES)
    start = f"{rng.choice(TARGETS)} {rng.choice((*VERSIONS, 'HTTP/1.1', 'HTTP/1.1', 'HTTP/1.1'))}"
    lines = [start, f"Host: 127.0.0.1:{port}", "Connection: close", head]
    if kind:
        lines.append(kind)
    text = "\r\n".join(lines) + "\r\n"
    for mark, value in (
        (SECRET, rng.choice(secrets)),
        (SESSION, session),
        ("{PORT}", str(port)),
    ):
        text, body = text.replace(mark, value), body.replace(mark, value)
    if kind and "chunked" not in kind:
        text += f"Content-Length: {len(body)}\r\n"
    raw = (text + "\r\n" + body).encode("latin-1")
    if rng.random() < 0.2:
        at = rng.randrange(len(raw))
        raw = raw[:at] + bytes([rng.randrange(256)]) + raw[at + 1 :]
    return raw[: rng.randrange(len(raw))] if rng.random() < 0.1 else raw


async def sent(port: int, raw: bytes, within_s: float = 0.2) -> bytes:
    """Send a request; return what comes back until the server closes, or the time is over: many of
    these requests are incomplete."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = b""
    with contextlib.suppress(TimeoutError, ConnectionError):
        writer.write(raw)
        async with asyncio.timeout(within_s):
            while piece := await reader.read(65_536):
                found += piece
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return found


@pytest.fixture
async def logged(tmp_path: Path) -> AsyncIterator[EventLog]:
    """A log in a file, with what libraries write."""
    file = LogFile(tmp_path / "log.jsonl")
    log = EventLog(file, LogLevel.DEBUG)
    handler = log.handler()
    for name in LIBRARIES:
        logging.getLogger(name).addHandler(handler)
    yield log
    for name in LIBRARIES:
        logging.getLogger(name).removeHandler(handler)
    file.close()


SETTINGS: Final = HttpSettings(
    accounts=(account("alice", TOKEN), account("grafana", READER, Role.READ))
)


async def session_of(daemon: Any) -> str:
    answer = await daemon.client.post("/login", data={"token": TOKEN})
    return str(answer.headers["Set-Cookie"]).partition("=")[2].partition(";")[0]


def lines_of(log: EventLog, path: Path) -> list[dict[str, Any]]:
    log.file.close()
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("seed", SEEDS)
async def test_hostile_requests_reveal_no_secret(
    start: Any, logged: EventLog, tmp_path: Path, capfd: pytest.CaptureFixture[str], seed: int
) -> None:
    logged.hide((TOKEN, READER))
    rng = random.Random(seed)
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    async with start("a.test", settings=SETTINGS, log=logged) as daemon:
        await daemon.idle()
        session = await session_of(daemon)
        secrets = (TOKEN, READER, session)
        codes: set[bytes] = set()
        for number in range(600):
            raw = requests(rng, (TOKEN, READER), session, daemon.port)
            answer = await sent(daemon.port, raw)
            header, _, body = answer.partition(b"\r\n\r\n")
            codes.add(header[9:12])
            # What a client wrote into a target or a body may be quoted to it; its headers may not.
            asked, _, content = raw.partition(b"\r\n\r\n")
            given = asked.partition(b"\r\n")[0] + content
            for secret in secrets:
                if secret.encode() not in given:
                    assert secret.encode() not in answer, raw
            assert b"500 Internal" not in header, (number, raw, body)
        assert {b"200", b"400", b"401", b"403", b"404", b"422"} <= codes
        metrics = (await daemon.client.get("/metrics", headers=bearer)).body
        status = json.dumps((await daemon.client.get("/api/status", headers=bearer)).body)
        daemon.monitor.access.flush()
    found = lines_of(logged, tmp_path / "log.jsonl")
    shown = (tmp_path / "log.jsonl").read_text("utf-8") + "".join(capfd.readouterr())
    for secret in secrets:
        for place in (shown, metrics, status):
            assert secret not in place
            assert quote(secret, safe="") not in place
    names = {line["event"] for line in found}
    assert {"malformed", "unauthorized", "refused"} <= names
    assert "library" not in names, [line for line in found if line["event"] == "library"]


MALFORMED: Final = (
    b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\0\r\n\r\n",
    b"GET / HTTP/9.9\r\nAuthorization: Bearer %s\r\n\r\n",
    b"%s\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03%s",
    (
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 30\r\n"
        b"Content-Encoding: gzip\r\n\r\ntoken=%s...."
    ),
    (
        b"POST /api/seeds HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
        b"Authorization: Bearer %s\r\n\r\nzz\r\n"
    ),
)


async def test_500_malformed_requests_write_little_log(
    start: Any, logged: EventLog, tmp_path: Path
) -> None:
    async with start(settings=SETTINGS, log=logged) as daemon:
        for number in range(500):
            raw = MALFORMED[number % len(MALFORMED)] % TOKEN.encode()
            answer = await sent(daemon.port, raw, within_s=30.0)
            assert re.match(rb"HTTP/1.[01] 4", answer), raw
            assert b"Python" not in answer
            assert TOKEN.encode() not in answer
        daemon.monitor.access.flush()
    found = [line for line in lines_of(logged, tmp_path / "log.jsonl") if "from" in line]
    assert (tmp_path / "log.jsonl").stat().st_size < LOG_BYTES
    first, total = found
    assert (first["event"], first["from"], total["event"]) == (
        "malformed",
        "127.0.0.1",
        "malformed",
    )
    assert total["repeated"] > 400
    assert TOKEN not in (tmp_path / "log.jsonl").read_text()


async def test_wrong_tokens_are_counted_for_each_address(logged: EventLog, tmp_path: Path) -> None:
    """One line for the first, one for their number; many addresses share one for the others."""
    async with JumpClock() as clock:
        access = AccessLog(clock, logged)
        for number in range(5_000):
            access.unauthorized(f"192.0.2.{number % 100}", "/api/status")
        await clock.sleep_until(clock.monotonic() + PERIOD_S + 1)
        access.unauthorized("192.0.2.1", "/api/status")  # the next minute begins anew
        access.flush()
    found = lines_of(logged, tmp_path / "log.jsonl")
    assert {line["event"] for line in found} == {"unauthorized"}
    assert (tmp_path / "log.jsonl").stat().st_size < LOG_BYTES
    firsts = [line for line in found if "path" in line]
    counted = sum(line.get("repeated", 0) + line.get("others", 0) for line in found)
    assert len(firsts) == 61
    assert len(firsts) + counted == 5_001


async def test_wrong_tokens_beyond_the_limit_are_counted_too(
    start: Any, logged: EventLog, tmp_path: Path
) -> None:
    """The count of the log is the number of wrong tokens, not of answers with 401."""
    wrong = {"Authorization": "Bearer wrong-token"}
    async with start(settings=SETTINGS, log=logged) as daemon:
        answers = [
            (await daemon.client.get("/api/status", headers=wrong)).status for _ in range(90)
        ]
        assert set(answers) == {401, 429}
        daemon.monitor.access.flush()
    found = lines_of(logged, tmp_path / "log.jsonl")
    first, total = [line for line in found if line["event"] == "unauthorized"]
    assert "repeated" not in first
    assert total["repeated"] == 89


async def test_each_refused_command_is_logged_once_a_minute(
    start: Any, logged: EventLog, tmp_path: Path
) -> None:
    reader = {"Authorization": f"Bearer {READER}"}
    async with start(settings=SETTINGS, log=logged) as daemon:
        for _ in range(50):
            assert (await daemon.client.post("/api/pause", headers=reader)).status == 403
            assert (await daemon.client.post("/api/retry", headers=reader)).status == 403
        daemon.monitor.access.flush()
    found = lines_of(logged, tmp_path / "log.jsonl")
    refused = [line for line in found if line["event"] == "refused"]
    assert [(line["what"], line.get("repeated")) for line in refused] == [
        ("pause", None),
        ("retry", None),
        ("pause", 49),
        ("retry", 49),
    ]
    assert {line["by"] for line in refused} == {"grafana"}
    assert {line["from"] for line in refused} == {"127.0.0.1"}
