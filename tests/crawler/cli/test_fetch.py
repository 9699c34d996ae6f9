"""`courtly fetch`: the body to standard output, a sentence to standard error."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from crawler.cli import main
from crawler.testing import LocalWeb, Reply, hang_up, html, redirect, text

UA = "examplebot/1.0 (+https://example.com/bot)"
SITE = {
    "/robots.txt": text("User-agent: *\nDisallow: /no\n"),
    "/": html("Home"),
    "/old": redirect("/"),
    "/raw": Reply(body=b"\x00\xff\x1b", content_type="application/odd-\x85"),
    "/broken": hang_up(),
    "/busy": Reply(status=503),
}
CONFIG = """
[network]
resolve = { "*.test" = "127.0.0.1" }
[politeness]
delay = 0.01
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("web.toml").write_text(CONFIG)


def run(*args: str) -> Result:
    result = CliRunner().invoke(main, ["fetch", *args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result


async def fetch(web: LocalWeb, *paths: str, host: str = "a.test") -> Result:
    urls = [web.url(host, path) for path in paths]
    return await asyncio.to_thread(
        run, *urls, "--user-agent", UA, "--allow", "127.0.0.0/8", "--config", "web.toml"
    )


@pytest.fixture(autouse=True)
def nothing_is_left(elsewhere: None) -> Iterator[None]:
    yield
    assert list(Path().iterdir()) == [Path("web.toml")], "no database"


async def test_bodies_go_to_stdout_and_one_line_each_to_stderr() -> None:
    async with LocalWeb({"a.test": SITE}) as web:
        result = await fetch(web, "/old", "/raw")
    assert result.exit_code == 0
    assert result.stdout_bytes == html("Home").body.encode() + b"\x00\xff\x1b"
    lines = result.stderr.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(f"302 {web.url('a.test', '/old')} -> 200 {web.url('a.test', '/')} (")
    assert "3 bytes" in lines[1]
    assert "\x85" not in result.stderr
    assert web.log.paths() == ["/robots.txt", "/old", "/", "/raw"]
    assert web.log[0].headers["user-agent"] == UA


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/no", "may not be fetched"),
        ("/broken", "could not be fetched: protocol: "),
        ("/busy", "503 http"),
        ("/absent", "404 http"),
    ],
)
async def test_errors_are_reported_without_retries(path: str, told: str) -> None:
    async with LocalWeb({"a.test": SITE}) as web:
        result = await fetch(web, path)
    assert result.exit_code == 1
    assert told in result.stderr
    assert web.log.paths().count(path) == (0 if path == "/no" else 1)


async def test_a_host_that_refuses_connections_is_tried_once() -> None:
    async with LocalWeb({}) as web:
        config = ("--allow", "127.0.0.0/8", "--config", "web.toml", "--user-agent", UA)
        result = await asyncio.to_thread(run, f"http://a.test:{web.dead_port}/", *config)
    assert result.exit_code == 1
    assert "refused the connection" in result.stderr


def test_bad_usage() -> None:
    for args, told in [
        (["https://example.com/"], "crawl.user_agent"),
        (["example.com"], "did you mean https://example.com"),
        (["http://a.test/", "--config", "absent.toml"], "absent.toml: there is no such file"),
        ([], "issing argument 'URL...'"),
    ]:
        result = run(*args)
        assert result.exit_code == 2, (args, told)
        assert told in result.stderr
        assert result.stdout == "", (args, told)
