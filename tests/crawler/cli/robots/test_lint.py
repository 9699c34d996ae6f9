"""`courtly robots lint`: findings as compilers print them, with lines, severities and reasons."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from crawler.cli import main, safe_console
from crawler.cli.robots import lint_report
from crawler.cli.robots.sources import read
from crawler.testing import LocalWeb, text
from policies import robots
from policies.robots.lint import FINDINGS_MAX

BAD = "User-agent: *\nDisallow: secret\nAllow: /*.html$\nCrawl-delay: 0.5\n"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("web.toml").write_text(
        '[network]\nallow = ["127.0.0.0/8"]\nresolve = { "*.test" = "127.0.0.1" }\n'
    )


def lint(*args: str, stdin: str | bytes = "") -> Result:
    result = CliRunner().invoke(main, ["robots", "lint", *args], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result


def test_each_finding_is_a_line_with_place_severity_reason_and_code() -> None:
    Path("robots.txt").write_text(BAD)
    result = lint("robots.txt")
    assert result.exit_code == 1, "there is an error"
    *findings, summary = result.stdout.splitlines()
    assert findings[0] == (
        "robots.txt:2: error: "
        "a rule that begins with neither `/` nor `*` matches nothing [no-slash]"
    )
    assert {line.split(":")[1] for line in findings} == {"2", "3", "4"}
    assert summary.startswith("robots.txt: 1 error, 1 warning, ")


def test_warnings_and_notes_do_not_change_the_exit_code() -> None:
    result = lint("-", stdin=BAD.replace("secret", "/secret"))
    assert result.exit_code == 0
    assert "standard input:3: warning: " in result.stdout
    assert result.stdout.splitlines()[-1].startswith("standard input: 1 warning, ")


def test_a_good_file_and_an_empty_one() -> None:
    for body in ("User-agent: *\nDisallow: /private/\n", ""):
        result = lint("-", stdin=body)
        assert (result.exit_code, result.stdout) == (
            0,
            "standard input: no problems found\n",
        )


def test_json() -> None:
    result = lint("-", "--json", stdin=BAD)
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert set(found) == {"robots", "status", "errors", "warnings", "notes", "findings"}
    assert (found["robots"], found["status"], found["errors"]) == ("-", None, 1)
    assert found["findings"][0] == {
        "line": 2,
        "severity": "error",
        "code": "no-slash",
        "why": "a rule that begins with neither `/` nor `*` matches nothing",
    }
    assert found["errors"] + found["warnings"] + found["notes"] == len(found["findings"])


def test_many_findings_are_truncated() -> None:
    shown = lint("-", stdin="junk\n" * 5_000).stdout
    assert len(shown.splitlines()) == FINDINGS_MAX + 1
    assert "only the first 1,000 are shown" in shown


def test_control_characters_of_findings_are_replaced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    body = (
        "User-agent: \x1b[2J\nDisallow: /\x1b]0;x\x07 y\nCrawl-delay: \x1b[31m" + "z" * 500 + "\n"
    )
    assert "\x1b" not in lint("-", stdin=body).stdout

    class Terminal(Console):
        def __init__(self, **_: object) -> None:
            super().__init__(force_terminal=True, color_system=None, width=80, soft_wrap=True)

    monkeypatch.setattr(safe_console, "Console", Terminal)
    Path("robots.txt").write_text(body)
    known = read("robots.txt")
    file = robots.parse(body.encode())
    lint_report._show(known, file, robots.lint(file))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "     2 │ Disallow: /" in shown


def test_bad_usage() -> None:
    for what, words in [
        ("none.txt", "cannot read none.txt: No such file"),
        ("ftp://h/", "is not an http"),
    ]:
        result = lint(what)
        assert (result.exit_code, result.stdout) == (2, ""), (what, words)
        assert words in result.stderr


async def fetched(*args: str) -> Result:
    return await asyncio.to_thread(lint, *args, "--config", "web.toml")


async def test_a_url_selects_its_sites_robots_txt() -> None:
    async with LocalWeb({"a.test": {"/robots.txt": text(BAD)}}) as web:
        result = await fetched(web.url("a.test", "/deep/page?x"))
        assert result.exit_code == 1
        assert f"{web.url('a.test', '/robots.txt')}:2: error: " in result.stdout
        assert web.log.paths("a.test") == ["/robots.txt"]


async def test_a_missing_or_unreachable_file() -> None:
    down = {"/robots.txt": text("down", status=503)}
    async with LocalWeb({"none.test": {}, "down.test": down}) as web:
        absent = await fetched(web.url("none.test"))
        assert absent.exit_code == 0
        assert "does not exist (status 404)" in absent.stdout
        unreachable = await fetched(web.url("down.test"))
        assert (unreachable.exit_code, unreachable.stdout) == (1, "")
        assert "/robots.txt: could not be fetched: answered 503" in unreachable.stderr
        dead = await fetched(f"http://a.test:{web.dead_port}/", "--json")
        assert dead.exit_code == 1
        assert "refused" in json.loads(dead.stdout)["error"]
