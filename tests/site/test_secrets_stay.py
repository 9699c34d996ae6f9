"""Secrets in every place of a config, in URLs and in responses: no command shows them, and no file
that a crawl leaves behind contains them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from crawler.testing import LocalWeb, Reply, redirect
from tests.command_processes import start

MARK = "SECRETMARK7Q"


@pytest.mark.timeout(120)
async def test_no_secret_is_shown_or_kept(tmp_path: Path) -> None:
    page = f'<a href="/b">b</a><a href="http://u:{MARK}@a.test/c">c</a>'
    pages = {
        "/": Reply(body=page, headers={"Set-Cookie": f"sid={MARK}"}),
        "/b": redirect(f"//u:{MARK}@a.test/d"),
    }
    async with LocalWeb({"a.test": pages}) as web:
        origin = web.url("a.test").rstrip("/")
        seed = origin.replace("http://", f"http://user:{MARK}@") + "/"
        (tmp_path / "login").write_text(f"user:{MARK}\n")
        config = tmp_path / "config.toml"
        config.write_text(
            f"""
            [crawl]
            user_agent = "testingbot/1 (+http://a.test/)"
            patience = 1
            [politeness]
            delay = 0
            [network]
            allow = ["127.0.0.0/8"]
            resolve = {{ "*.test" = "127.0.0.1" }}
            [fetch]
            credentials = {{ "{origin}" = "file:login" }}
            [site."a.test"]
            cookies = true
            headers = {{ "X-Key" = "{MARK}" }}
            [site."p.test"]
            proxy = "http://u:{MARK}@127.0.0.1:9"
            [[sink]]
            kind = "jsonl"
            path = "{tmp_path}/pages.jsonl"
            """
        )

        async def said(*arguments: str) -> bytes:
            places = ("--config", str(config), "--db", str(tmp_path / "crawl.db"))
            process = await start(*arguments, *places, stderr=asyncio.subprocess.STDOUT)
            out, _ = await asyncio.wait_for(process.communicate(), 60)
            return out

        told = {
            arguments: await said(*arguments)
            for arguments in (
                ("crawl", seed, "http://p.test/"),
                ("why", seed),
                ("why", "http://p.test/"),
                ("show", "visited"),
                ("show", "failed"),
                ("show", "queued"),
                ("show", "hosts"),
            )
        }
        sent = web.log.requests("a.test")
    assert any(MARK in str(one.headers) for one in sent), "it was sent to where it belongs"
    assert [arguments for arguments, out in told.items() if MARK.encode() in out] == []
    ours = {"config.toml", "login"}
    files = [file for file in tmp_path.iterdir() if file.name not in ours]  # noqa: ASYNC240
    assert {"crawl.db", "pages.jsonl"} <= {file.name for file in files}
    assert [file.name for file in files if file.is_file() and MARK in _text(file)] == []


def _text(file: Path) -> str:
    """The text without what the site itself says: the body and the Location of its responses."""
    text = file.read_bytes().decode("utf-8", "replace")
    return text.replace(f"u:{MARK}@a.test/", "") if file.suffix == ".jsonl" else text
