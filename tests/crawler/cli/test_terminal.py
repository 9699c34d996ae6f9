# ruff: noqa: E501 - hostile text, and commands in a line each
"""No command prints control characters from a site, config or database, and none fails if the
locale cannot represent a character."""

from __future__ import annotations

import ast
import asyncio
import io
import json
import os
import re
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from crawler.app import crawl
from crawler.cli import main
from crawler.cli.safe_console import safe_console
from crawler.cli.text import echo, echo_json, say, write_out
from crawler.config import from_dict
from crawler.explain.formatting import json_printable, plain, printable
from crawler.testing import LocalWeb, Reply, html

CLI = Path(__file__).parents[3] / "crawler" / "cli"
HOSTILE = "\x1b]0;x\x07\x1b[2J\x9b31m\x85\x90\u202ea\u2066b\u2028c\u2029d\u200be\ufeff\x7f\b\x0e\u2060\U000e0041"
OUR_STYLES = re.compile(r"\x1b\[[0-9;]*m")
JOINERS = "\u200c\u200d"


def forbidden(text: str, *, allowed: str = "\n\t") -> list[str]:
    """Unsafe characters by Unicode category, independent of the pattern under test."""
    return [
        one
        for one in text
        if one not in allowed + JOINERS
        and (
            unicodedata.category(one) in ("Cc", "Zl", "Zp", "Cs")
            or (unicodedata.category(one) == "Cf" and unicodedata.bidirectional(one) in BIDI)
        )
    ]


BIDI = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI", "BN", "L", "R", "AL")
EVERY = st.text(st.characters() | st.sampled_from(HOSTILE), max_size=60)


class Terminal(io.TextIOWrapper):
    def __init__(self, encoding: str = "utf-8", errors: str = "strict") -> None:
        self.raw_bytes = io.BytesIO()
        super().__init__(self.raw_bytes, encoding=encoding, errors=errors, write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> str:
        self.flush()
        return OUR_STYLES.sub("", self.raw_bytes.getvalue().decode(self.encoding))


@given(EVERY)
def test_unsafe_characters_are_replaced(text: str) -> None:
    soft = "\u00ad"  # a hyphen that is visible only at the end of a line
    assert not forbidden(plain(text).replace(soft, ""), allowed="")
    assert not forbidden(printable(text).replace(soft, ""))
    assert len(plain(text)) == len(text)
    written = json.dumps({"x": text}, ensure_ascii=False)
    assert json.loads(json_printable(written)) == {"x": text}
    assert not forbidden(json_printable(written).replace(soft, ""))


def test_natural_language_is_unchanged() -> None:
    text = (
        "Zürich, 題名, \u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645, 👩\u200d🚀 a\u00a0b"
    )
    assert plain(text) == printable(text) == text


@given(EVERY, st.sampled_from(["utf-8", "ascii", "latin-1", "cp1252", "koi8-r"]))
def test_every_print_function_is_safe(text: str, encoding: str) -> None:
    before, sys.stdout = sys.stdout, Terminal(encoding, errors="replace")
    try:
        say(text)
        echo(text, bold=True)
        echo_json({text: text}, readable=True)
        write_out(text)
        safe_console().print(Text(text), text.replace("[", "("))
        shown = sys.stdout.shown
    finally:
        sys.stdout = before
    assert not forbidden(shown.replace("\u00ad", ""))


def pages(other: str) -> dict[str, Any]:
    robots = f"User-agent: *\nDisallow: /private{HOSTILE}\nDisallow: /private\nCrawl-delay: {HOSTILE}\nX{HOSTILE}: y\n"
    return {
        "/robots.txt": Reply(body=robots.encode(), content_type="text/plain"),
        "/": html("Home", "/private", "/gone", "/title", "/odd", "/coded", "/loop", other),
        "/title": Reply(
            body=f"<title>{HOSTILE}</title><a href='/gone?{HOSTILE}'>{HOSTILE}</a>".encode()
        ),
        "/odd": Reply(body="x", content_type="text/odd\x85\x9b"),
        "/coded": Reply(body="x", headers={"Content-Encoding": "x\x9b31m"}),
        "/loop": Reply(status=302, headers={"Location": "/loop\x9b"}),
        "/raw": Reply(body=HOSTILE.encode() + b"\xff\x9b\0", content_type="text/odd\x85"),
    }


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalWeb, Path]]:
    """A hostile site that was crawled, served by an event loop in a thread."""
    path = tmp_path_factory.mktemp("terminal") / "crawl.db"
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def begin() -> LocalWeb:
        here: dict[str, Any] = {}
        web = await LocalWeb(
            {"a.test": lambda asked: here.get(asked.path, Reply(status=404))}
        ).__aenter__()
        here |= pages(web.url("b.test"))
        config = web.config(
            storage={"url": f"sqlite:{path}", "links": True},
            crawl={"user_agent": "bot/1 (+https://e.test/)"},
            politeness={"delay": 0, "latency_factor": 0},
            fetch={"max_attempts": 1},
            scope={"follow": "any"},
        )
        await crawl(from_dict(config), seeds=[web.url("a.test")])
        return web

    web = asyncio.run_coroutine_threadsafe(begin(), loop).result(30)
    yield web, path
    asyncio.run_coroutine_threadsafe(web.__aexit__(None, None, None), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def commands(web: LocalWeb, path: Path) -> list[list[str]]:
    db = ["--db", str(path)]
    robots = path.with_name("robots.txt")
    robots.write_bytes(pages("x")["/robots.txt"].body)
    config = path.with_name("bad.toml")
    config.write_text(
        f'[crawl]\nuser_agent = {json.dumps(HOSTILE)}\n"x\u202e\u2028" = 1\n', "utf-8"
    )
    good = path.with_name("good.toml")
    good.write_text(
        '[network]\nallow = ["127.0.0.0/8"]\nresolve = {"*.test" = "127.0.0.1"}\n'
        '[crawl]\nuser_agent = "bot/1 (+https://e.test/)"\n[politeness]\ndelay = 0\n'
    )
    views = ["visited", "blocked", "failed", "queued", "hosts", "robots", "skipped", "links"]
    return [
        *(["show", view, *db, "--format", how] for view in views for how in ("table", "jsonl", "csv")),
        *(["export", view, *db, "--format", how] for view in ("visited", "failed", "links") for how in ("csv", "jsonl")),
        *(["report", report, *db, "--format", how] for report in ("broken", "robots", "duplicates", "politeness") for how in ("text", "html", "json")),
        *(["why", web.url("a.test", page), *db] for page in ("/private", "/title", "/coded", "/loop", f"/x{HOSTILE}")),
        ["why", "a.test", *db], ["why", HOSTILE, *db], ["status", *db], ["status", *db, "--json"],
        ["db", "info", *db], ["db", "check", *db], ["config", "check", str(config)],
        ["config", "check", HOSTILE], ["robots", "lint", str(robots)], [HOSTILE], ["show", HOSTILE],
        ["robots", "check", "http://a.test/private", "--robots", str(robots), "--dialect", "all"],
        ["retry", HOSTILE, *db], ["host", "pause", HOSTILE, *db],
        ["fetch", web.url("a.test", "/raw"), web.url("a.test", "/loop"), web.url("a.test", "/coded"),
         "--config", str(good)],
    ]  # fmt: skip


def test_no_command_prints_control_characters(
    web: tuple[LocalWeb, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = {}
    for args in commands(*web):
        out, err = Terminal(), Terminal()
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        monkeypatch.setenv("COURTLY_DEBUG", "0")
        try:
            main(args, standalone_mode=False)
            code = 0
        except SystemExit as error:
            code = int(error.code or 0)
        finally:
            monkeypatch.undo()
        name = " ".join(args[:2])
        codes[name] = code
        assert "Traceback" not in err.shown, args
        assert "internal error" not in err.shown, (args, err.shown)
        assert not forbidden(out.shown), args
        assert not forbidden(err.shown), args
    assert codes["show visited"] == codes["export visited"] == codes["report broken"] == 0
    assert codes["config check"] == 2


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("args", [["show", "visited"], ["why", "a.test"], ["export", "links"]])
def test_a_character_beyond_the_locale_is_no_error(
    web: tuple[LocalWeb, Path], encoding: str, args: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "crawler.cli", *args, "--db", str(web[1])],
        env={**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
        capture_output=True, timeout=30,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"Error" not in done.stderr


def test_bytes_for_a_program_are_unchanged(web: tuple[LocalWeb, Path]) -> None:
    args = ["fetch", web[0].url("a.test", "/raw"), "--config", str(web[1].with_name("good.toml"))]
    commands(*web)
    done = subprocess.run(
        [sys.executable, "-m", "crawler.cli", *args], capture_output=True, timeout=30
    )
    assert done.stdout == pages("x")["/raw"].body


def test_commands_print_through_one_module() -> None:
    found = []
    for path in CLI.rglob("*.py"):
        if path.name in ("text.py", "safe_console.py", "sites.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called in ("print", "click.echo", "click.secho", "Console", "sys.stdout.write"):
                    found.append(f"{path.name}:{node.lineno} {ast.unparse(node)[:50]}")
    (version,) = found
    assert "click.echo(f'courtly {__version__}" in version
