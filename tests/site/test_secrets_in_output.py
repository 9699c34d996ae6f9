"""The marked secrets of `test_secrets_shown`: no other command shows one, no sink stores one, and
no exception of a `PoliteSession` or its traceback contains one."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import traceback
from functools import partial
from pathlib import Path

import pytest

from crawler import PoliteSession
from crawler.config import ConfigError
from crawler.errors import CourtlyError
from crawler.testing import hang_up
from tests.site.test_secrets_shown import (
    FOUND,
    MARK,
    NOT_A_PROXY,
    PROXIES,
    bad,
    command,
    config_of,
    environment,
    sent_where_it_belongs,
    sites,
)

VIEWS = ("visited", "blocked", "queued", "hosts")
OURS = {"courtly.toml", "login"}
SINKS = """
[[sink]]
kind = "jsonl"
path = "pages.jsonl"
[[sink]]
kind = "warc"
path = "warc"
[[sink]]
kind = "mirror"
path = "mirror"
"""


@pytest.mark.timeout(180)
async def test_no_command_shows_a_secret_and_no_sink_keeps_one(tmp_path: Path) -> None:
    async with sites() as web:
        config = config_of(web, tmp_path, extra=SINKS)
        whole = f"http://{FOUND['seed']}@a.test:{web.port}/"
        place = ("--config", str(config))
        shown: dict[str, str] = {}
        for arguments in (
            ("crawl", *place),
            ("fetch", *place, whole, "http://space.test/", f"{whole}loop", f"{whole}gone"),
            ("fetch", *place, "--json", whole, "http://at.test/", f"ftp://{FOUND['seed']}@a.test/"),
            ("fetch", *place, f"http://{FOUND['seed']}@a test/"),
            ("config", "check", str(config)),
            ("status", *place),
            ("status", *place, "--json"),
            *(("why", *place, of) for of in (whole, "http://at.test/", f"{whole}private")),
            *(("show", *place, view) for view in VIEWS),
            *(
                ("export", *place, view, "--format", form)
                for view, form in (("visited", "csv"), ("failed", "jsonl"), ("links", "csv"))
            ),
            *(
                ("report", *place, report, "--format", form)
                for report, form in (("broken", "html"), ("robots", "text"), ("politeness", "json"))
            ),
            ("robots", "check", *place, f"{whole}private"),
            ("robots", "lint", *place, whole),
            ("seeds", "add", *place, whole, f"http://{FOUND['seed']}@a test/"),
            ("host", "pause", *place, whole),
            ("retry", "failed", *place, "--host", whole),
            ("db", "info", *place),
            ("db", "check", *place),
        ):  # fmt: skip
            shown[" ".join(arguments).replace(MARK, "")] = await command(tmp_path, *arguments)
        assert sent_where_it_belongs(web)
    shown |= kept_in(tmp_path)
    assert {"crawl.db", "pages.jsonl"} <= {*shown}
    found = bad({name: ours(said) for name, said in shown.items()})
    assert not found, json.dumps(found, indent=1)


def kept_in(folder: Path) -> dict[str, str]:
    files = [file for file in folder.rglob("*") if file.is_file() and file.name not in OURS]
    return {str(file.relative_to(folder)): _kept(file) for file in files}


def _kept(file: Path) -> str:
    """The contents of a file."""
    raw = file.read_bytes()
    if file.suffix == ".gz":
        raw = gzip.decompress(raw)
    return raw.decode("utf-8", "replace")


def ours(said: str) -> str:
    """The text without what the site itself says, that is, its own links."""
    for one in FOUND.values():
        if one != FOUND["seed"]:
            said = said.replace(f"{one}@a.test", "")
    return said.replace(f"sid={MARK}cookie; Path=/", "")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("debug", [False, True])
async def test_a_crawl_that_ends_in_a_traceback_shows_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, debug: bool
) -> None:
    """The frames of a traceback hold the config, requests and their headers."""
    if debug:
        monkeypatch.setenv("COURTLY_DEBUG", "1")
    (tmp_path / "sitecustomize.py").write_text(
        "async def request(self, *args, **kwargs):\n"
        "    raise ZeroDivisionError\n"
        "import aiohttp\n"
        "aiohttp.ClientSession._request = request\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    async with sites() as web:
        config = config_of(web, tmp_path)
        (tmp_path / "crawl.db").mkdir()
        shown = {"no database": await command(tmp_path, "crawl", "--config", str(config))}
        (tmp_path / "crawl.db").rmdir()
        shown["a fault"] = await command(tmp_path, "crawl", "--config", str(config))
        shown["fetched"] = await command(
            tmp_path, "fetch", "--config", str(config), web.url("a.test")
        )
    assert "ZeroDivisionError" in shown["a fault"]
    found = bad({name: ours(said) for name, said in shown.items()})
    assert not found, json.dumps(found, indent=1)


@pytest.mark.timeout(60)
async def test_no_exception_of_a_session_tells_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    shown: dict[str, str] = {}
    raised = 0

    def note(name: str, one: object) -> None:
        said = f"{one} {one!r}"
        if isinstance(one, BaseException):
            said += "".join(traceback.format_exception(one)) + str(vars(one))
        shown[f"{len(shown)} {name}".replace(MARK, "")] = said

    headers = {
        "Authorization": f"Bearer {MARK}given",
        "Cookie": f"sid={MARK}cookie",
        "X-Api-Key": f"{MARK}key",
    }
    breaking = {
        "newline": {"Authorization": f"Bearer {MARK}\n"},
        "not a name": {f"X {MARK}": "a"},
        "not text": {"Authorization": b"Bearer " + MARK.encode()},
        "a surrogate": {"Authorization": f"Bearer {MARK}\ud800"},
        "zero": {"Authorization": f"Bearer {MARK}\0"},
        "none": {"Authorization": [f"Bearer {MARK}"]},
    }
    async with sites() as web:
        port = web.port
        web.sites["a.test"]["/broken"] = hang_up()  # type: ignore[index]
        config = config_of(web, tmp_path, extra='[site."d.test"]\nmax_attempts = 1\n')
        user = FOUND["seed"]
        urls = [
            *(f"http://{user}@a.test:{port}/{path}" for path in ("", "private", "loop", "broken")),
            *(f"http://{user}@{host}/" for host in PROXIES),
            f"http://{user}@none.test.invalid:{port}/", f"http://{user}@10.0.0.1/",
            f"http://{user}@a test/", f"ftp://{user}@a.test/", f"{user}@a.test/",
            f"//{user}@a.test/",
            f"http://{user}@127.1:{port}/", f"http://{user}@a.test:{port}x/", f"http://{user}@[::1/",
            f"http://{user}@", "http://u:pass " + MARK + "@b.test/",
            f"http://u:a@{MARK}@b.test:{port}/", f"http://u:a%40{MARK}@b.test:{port}/",
        ]  # fmt: skip
        name = "testingbot/1 (+https://a.test/)"
        async with PoliteSession(config=str(config), user_agent=name, delay=0) as session:
            note("session", session)
            note("config", session.config)
            for url in urls:
                for method in ("get", "may_fetch", "next_turn", "robots"):
                    ask = partial(getattr(session, method), url)
                    if method == "get":
                        ask = partial(ask, headers=headers, retry=False)
                    try:
                        async with asyncio.timeout(0.3):  # a host that rests is not waited for
                            answer = await ask()
                            note(f"{method} {url}", repr(answer)[:500])
                    except TimeoutError:
                        pass
                    except CourtlyError as error:
                        raised += 1
                        note(f"{method} {url}", error)
            for name, given in breaking.items():
                try:
                    await session.get(web.url("a.test", "/page"), headers=given)  # type: ignore[arg-type]
                except Exception as error:  # noqa: BLE001 - whatever it is
                    raised += 1
                    note(name, error)
        with contextlib.suppress(CourtlyError):
            await session.get(urls[0], headers=headers)
    for proxy in NOT_A_PROXY:
        try:
            PoliteSession(config={"crawl": {"user_agent": "x"}, "fetch": {"proxy": proxy}})
        except ConfigError as error:
            note("no proxy", error)
    assert raised > 25
    shown["logged"] = caplog.text
    found = bad({name: ours(said) for name, said in shown.items()})
    assert not found, json.dumps(found, indent=1)
