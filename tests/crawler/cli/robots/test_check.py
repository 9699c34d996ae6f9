"""`courtly robots check`: the verdict, the deciding line, and differences between dialects."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from crawler.cli import main
from crawler.cli.robots.verdict_view import VerdictView
from crawler.explain.robots_tester import KnownRobots, RobotsTester
from crawler.testing import LocalWeb, redirect, text
from policies import robots
from policies.robots_state import RobotsRules, RobotsState

FILE = """\
# The files of example.com
User-agent: googlebot
Disallow: /google/

User-agent: *
Crawl-delay: 5
Disallow: /private/   # keep out
Disallow: /backup/
Allow: /*.html$
"""
URL = "https://example.com/backup/yes_or_not.html"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("robots.txt").write_text(FILE)
    Path("web.toml").write_text(WEB)


def run(*args: str, stdin: str | bytes = "") -> Result:
    result = CliRunner().invoke(main, ["robots", *args], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result


def checked(*args: str, stdin: str | bytes = FILE) -> str:
    result = run("check", *args, "--robots", "-", stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def verdicts(*args: str, stdin: str | bytes = FILE) -> list[dict[str, Any]]:
    return [json.loads(line) for line in checked(*args, "--json", stdin=stdin).splitlines()]


# ---------------------------------------------------------------- a file


def test_the_deciding_line_is_shown_in_context() -> None:
    shown = checked(URL)
    assert "  Allowed by line 9, `Allow: /*.html$`, in the group for all crawlers (`*`)" in shown
    assert shown.splitlines()[2:9] == [
        "",
        "    5 │ User-agent: *",
        "      ⋮",
        "    7 │ Disallow: /private/   # keep out",
        "    8 │ Disallow: /backup/",
        "  ▸ 9 │ Allow: /*.html$",
        "",
    ]
    assert "group         `*` at line 5; other groups: `googlebot` (line 2)" in shown
    assert "also matches  line 8, `Disallow: /backup/` (8 octets)" in shown
    assert "Crawl-delay   5 s" in shown
    assert "(Yahoo! Slurp's help page" in shown
    assert "dialects      disallowed by teoma (line 8), res1996 (line 8) and res1994 (line" in shown


def test_the_table_of_all_dialects_highlights_differences() -> None:
    shown = checked(URL, "--dialect", "all")
    rows = [line.split() for line in shown.splitlines()[1:11]]
    assert rows[0] == ["dialect", "verdict", "line", "rule", "group"]
    differing = [row[1] for row in rows if row[0] == "≠"]
    assert differing == ["teoma", "res1996", "res1994"]
    assert [row[0] for row in rows[1:] if row[0] != "≠"] == [
        name for name in robots.DIALECTS if name not in differing
    ]
    assert "≠ differs from slurp: teoma, res1996 and res1994." in shown
    assert "  ▸ 8 │ Disallow: /backup/   ◂ teoma, res1996, res1994\n" in shown
    assert "Allow wins a tie (dialect slurp)" in shown
    assert "The same applies to rfc9309, google, google2010, bing and yandex." in shown


def test_all_dialects_may_agree() -> None:
    assert "All 9 dialects agree." in checked("/private/x", "--dialect", "ALL")


def test_json_has_the_documented_keys() -> None:
    verdict, other = verdicts(URL, "/private/x", "--agent", "examplebot")
    docs = (Path(__file__).parents[4] / "docs" / "robots.md").read_text("utf-8")
    section = docs.partition("## On the command line")[2].partition("\n## ")[0]
    assert all(f"`{key}`" in section for key in verdict), verdict.keys()
    assert (verdict["allowed"], verdict["rule"], verdict["line"]) == (True, "Allow: /*.html$", 9)
    assert verdict["url"] == URL
    assert verdict["agent"] == ["examplebot"]
    assert verdict["losers"] == [{"rule": "Disallow: /backup/", "line": 8, "length": 8}]
    assert verdict["dialects"]["res1996"] == {
        "allowed": False,
        "rule": "Disallow: /backup/",
        "line": 8,
    }
    start, end = verdict["span"]
    assert FILE.encode()[start:end] == b"Allow: /*.html$\n"
    assert other["crawl_delay_s"] == 5
    assert other["url"] == "/private/x"


def test_the_url_is_used_as_given() -> None:
    file = "User-agent: *\nDisallow: /a%62/\nDisallow: /x/../y\nDisallow: /B?\n"
    urls = ["http://h/ab/", "http://h/a%62/", "http://h/x/../y", "http://h/y", "HTTP://H/B?", "/B"]
    as_1994 = verdicts(*urls, "--dialect", "res1994", stdin=file)
    assert [v["line"] for v in as_1994] == [None, 2, 3, None, 4, None]


def test_the_strictest_of_several_dialects_decides() -> None:
    (verdict,) = verdicts(URL, "--dialect", "slurp", "--dialect", "res1996")
    assert (verdict["allowed"], verdict["dialect"], verdict["line"]) == (False, "res1996", 8)
    assert "The strictest verdict of slurp and res1996 applies." in verdict["reason"]


def test_the_order_of_preference_of_agents() -> None:
    for args, agents in [
        ((), ["courtly"]),
        (("--user-agent", "googlebot/2.1 (+http://x.test/)"), ["googlebot"]),
        (("--agent", "Googlebot/2.1"), ["Googlebot"]),
        (("--agent", "Mozilla/5.0 (compatible; googlebot/2.1)"), ["googlebot"]),
        (("--agent", "googlebot", "--agent", "a b"), ["googlebot", "a b"]),
        (("--config", "crawl.toml"), ["sitebot"]),
        (("--config", "crawl.toml", "--user-agent", "x/1"), ["sitebot"]),
        (("--config", "crawl.toml", "--agent", "y"), ["y"]),
    ]:
        Path("crawl.toml").write_text(
            '[site."example.com"]\ntoken = "sitebot"\ndialect = "google"\n'
        )
        (verdict,) = verdicts(URL, *args)
        assert verdict["agent"] == agents
        assert verdict["dialect"] == ("google" if "--config" in args else "slurp")


def test_control_characters_of_a_file_are_replaced() -> None:
    file = "User-agent: \x1b[31m*\nUser-agent: *\nDisallow: /\x1b]0;x\x07 # \u202e\n" + "a" * 5_000
    for args in ((), ("--dialect", "all")):
        shown = checked("http://h/\x1b[0m", *args, stdin=file)
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert max(map(len, shown.split("│"))) < 2_000


def test_any_bytes_are_accepted() -> None:
    (verdict,) = verdicts("/a", stdin="User-agent: *\nDisallow: /a".encode("utf-16"))
    assert not verdict["allowed"]
    assert verdicts("/a", stdin=b"")[0]["allowed"]
    assert "has no group" in checked("/a", stdin=b"\xff\x00\xfe")


def test_output_fits_80_columns() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, highlight=False, color_system=None)
    body = FILE + f"Disallow: /{'long/' * 40}\nAllow: /日本語{'語' * 60}\n"
    known = KnownRobots(
        where="x" * 90, access=RobotsState(body=body.encode(), status=200, copy_at=1, fetched_at=1,
        expires_at=9), now_s=1, fetched=False
    )  # fmt: skip
    judge = RobotsTester(known, ("examplebot",), RobotsRules())
    for url in ("/backup/a.html", "/" + "long/" * 41, "/" + "日本語" + "語" * 70):
        judgement = judge.judge(url, ("slurp",))
        assert judgement is not None
        VerdictView(console).verdict(url, judge, judgement, judge.judge_in_every(url))
        VerdictView(console).table(url, judge, judge.judge_in_every(url), "slurp")
        lines = out.getvalue().splitlines()
        out.seek(0)
        out.truncate()
        cells = [Console().render_str(line, markup=False).cell_len for line in lines]
        urls = [n for n, line in enumerate(lines) if line == url]
        assert max(n for i, n in enumerate(cells) if i not in urls) <= 80
        assert any("▸" in line for line in lines)


# ---------------------------------------------------------------- bad usage


def test_bad_usage_is_refused() -> None:
    for args, words in [
        ((URL, "--robots", "none.txt"), "cannot read none.txt: No such file"),
        ((URL, "--robots", "."), "cannot read .: Is a directory"),
        ((URL, "--robots", "robots.txt", "--dialect", "gogle"), "did you mean 'google'?"),
        ((URL, "--robots", "robots.txt", "--dialect", "x"), "there is no dialect 'x'; choose"),
        ((URL, "--robots", "robots.txt", "--agent", " "), "--agent: must be the name of a crawler"),
        (("private", "--robots", "robots.txt"), '"private" is neither a URL such as'),
        ((), "missing argument 'URL...'"),
        (("example.com/a",), "did you mean https://example.com/a"),
        (("https://example.com/a",), "set crawl.user_agent (or --user-agent)"),
        ((URL, "--robots", "robots.txt", "--config", "none.toml"), "there is no such file"),
    ]:
        result = run("check", *args)
        assert result.exit_code == 2, result.output
        assert words in " ".join(result.stderr.split())
        assert result.stdout == "", (args, words)


def test_help_names_the_commands() -> None:
    assert {"check", "batch", "lint"} <= set(run("--help").stdout.split())
    for command in ("check", "batch", "lint"):
        assert "Exit codes: 0" in run(command, "--help").stdout


# ---------------------------------------------------------------- fetched


WEB = """\
[network]
allow = ["127.0.0.0/8"]
resolve = { "*.test" = "127.0.0.1" }
[politeness]
delay = 0.05
"""


async def fetched(*args: str) -> Result:
    return await asyncio.to_thread(run, *args, "--config", "web.toml")


async def test_robots_txt_is_fetched_once_per_origin() -> None:
    async with LocalWeb({"a.test": {"/robots.txt": text(FILE)}}) as web:
        web.sites["b.test"] = {"/robots.txt": redirect(web.url("a.test", "/robots.txt"))}
        result = await fetched(
            *("check", "--json", "--user-agent", "examplebot/1 (+http://x.test/)"),
            *(web.url("a.test", "/private/%61"), web.url("b.test", "/private/"), web.url("a.test")),
        )
        assert result.exit_code == 0, result.output
        found = [json.loads(line) for line in result.stdout.splitlines()]
        assert [each["line"] for each in found] == [7, 7, None]
        assert {(each["state"], each["status"]) for each in found} == {("rules", 200)}
        assert found[0]["robots"] == web.url("a.test", "/robots.txt")
        assert found[0]["url"].endswith("/private/%61")
        assert web.log.paths("a.test").count("/robots.txt") <= 2
        assert web.log.paths("b.test") == ["/robots.txt"]
        assert found[0]["agent"] == ["examplebot"]


@pytest.mark.parametrize(
    ("status", "dialect", "words"),
    [
        (404, "slurp", "Allowed: robots.txt answered 404: slurp treats that as open"),
        (403, "res1996", "Disallowed: robots.txt answered 403: res1996 treats that as closed"),
        (
            503,
            "slurp",
            "Allowed: robots.txt could not be fetched (answered 503): slurp treats",
        ),
        (
            503,
            "rfc9309",
            "Disallowed: robots.txt could not be fetched (answered 503): rfc9309",
        ),
        (503, "google", "google does not crawl the site for the first 12 hours"),
    ],
)
async def test_a_missing_file_is_explained(status: int, dialect: str, words: str) -> None:
    async with LocalWeb({"a.test": {"/robots.txt": text("x", status=status)}}) as web:
        result = await fetched("check", web.url("a.test", "/x"), "--dialect", dialect)
        assert result.exit_code == 0
        assert words in result.stdout
        assert f"(status {status})" in result.stdout


async def test_dialects_differ_on_a_missing_file() -> None:
    async with LocalWeb({"a.test": {"/robots.txt": text("x", status=403)}}) as web:
        result = await fetched("check", web.url("a.test", "/x"), "--dialect", "all")
        assert "≠ differs from slurp: res1996." in result.stdout
        assert "none: closed" in result.stdout


async def test_a_host_that_cannot_be_connected_to_has_no_verdict() -> None:
    async with LocalWeb({"a.test": {"/robots.txt": text(FILE)}}) as web:
        dead = f"http://a.test:{web.dead_port}/x"
        result = await fetched("check", dead, web.url("a.test", "/private/"))
        assert result.exit_code == 1
        assert (
            f"{dead}: no verdict; http://a.test:{web.dead_port}/robots.txt could" in result.stderr
        )
        assert "Disallowed by line 7" in result.stdout, "the others are answered"
        result = await fetched("check", dead, "--json")
        assert set(json.loads(result.stdout)) == {"url", "error"}


# ---------------------------------------------------------------- expectations


def test_only_verdicts_other_than_expected_are_shown() -> None:
    Path("urls.txt").write_text("# two\n/private/x\n\n/public\n")
    result = run("check", "@urls.txt", "/a.html", "--robots", "robots.txt", "--expect", "allow")
    assert result.exit_code == 3
    assert "courtly: --expect: 1 of 3 URLs is disallowed" in result.stderr
    assert result.stdout.startswith("/private/x\n  Disallowed by line 7")
    assert "/public" not in result.stdout
    good = run("check", "/public", "/a.html", "--robots", "robots.txt", "--expect", "allow")
    assert (good.exit_code, good.output) == (0, "2 URLs are allowed, as expected.\n")
    shut = run("check", "/public", "/private/", "--robots", "robots.txt", "--expect", "disallow")
    assert shut.exit_code == 3
    assert "--expect: 1 of 2 URLs is allowed" in shut.stderr


def test_urls_come_from_standard_input() -> None:
    for name in ["-", "@-"]:
        command = ("check", name, "--robots", "robots.txt", "--json", "--expect", "disallow")
        result = run(*command, stdin="/private/a\n/backup/b\n")
        assert result.exit_code == 0, result.output
        assert [json.loads(line)["url"] for line in result.stdout.splitlines()] == [
            "/private/a",
            "/backup/b",
        ], name


def test_all_dialects_can_be_expected_to_agree() -> None:
    one = run("check", URL, "--robots", "robots.txt", "--expect", "allow")
    every = run("check", URL, "--robots", "robots.txt", "--expect", "allow", "--dialect", "all")
    assert (one.exit_code, every.exit_code) == (0, 3)
    assert "1 of 1 URL is disallowed in some dialect" in every.stderr


def test_lists_that_cannot_be_read_are_refused() -> None:
    for args, words in [
        (("@-", "--robots", "-"), "standard input cannot be both"),
        (("-", "--robots", "-"), "standard input cannot be both"),
        (("@-", "--robots", "robots.txt"), "standard input contains no URL"),
        (("@none.txt", "--robots", "robots.txt"), "none.txt: there is no such file"),
        (("/a", "--robots", "robots.txt", "--expect", "allowed"), "not one of allow, disallow"),
    ]:
        result = run("check", *args)
        assert result.exit_code == 2, (args, words)
        assert words in result.stderr
