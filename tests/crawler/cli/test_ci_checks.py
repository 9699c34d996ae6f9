"""`--fail-on`, `--fail` and seeds on standard input: courtly as a check in CI."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from crawler.cli import main
from crawler.testing import LocalWeb, Reply, html, text

CONFIG = """
crawl = { patience = 1 }
scope = { sitemap_paths = [] }
politeness = { delay = 0.01 }
fetch = { max_attempts = 1 }
storage = { links = true, fragments = true }
network = { allow = ["127.0.0.0/8"], resolve = { "*.test" = "127.0.0.1" } }
"""
ICON = '<link rel="icon" href="/i.png">'
ROBOTS = text("User-agent: *\nDisallow: /private/\n")


@pytest.fixture
async def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalWeb]:
    """A site without a fault, one with a dead link, one with a page that fails, and one with a
    disallowed page."""
    sites = {
        "good.test": {"/": html("Good", "/a"), "/a": html("A", "/")},
        "dead.test": {"/": html("Dead", "/gone")},
        "fails.test": {"/": html("Fails", "/x"), "/x": Reply(status=500)},
        "shut.test": {"/robots.txt": ROBOTS, "/": html("Shut", "/private/x")},
    }
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ci.toml").write_text(CONFIG)
    async with LocalWeb(sites) as web:
        yield web


async def run(*args: str, stdin: str = "") -> Result:
    command = [*args, "--config", "ci.toml"]
    result = await asyncio.to_thread(CliRunner().invoke, main, command, input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result


@pytest.mark.parametrize(
    ("host", "kind", "words"),
    [
        ("dead.test", "broken", "1 broken URL, linked to 1 time: courtly report broken"),
        ("fails.test", "broken", "1 broken URL, linked to 1 time: courtly report broken"),
        ("fails.test", "failed", "1 URL is failed: courtly show failed --config ci.toml"),
        ("shut.test", "blocked", "1 URL is blocked: courtly show blocked"),
    ],
)
async def test_a_crawl_fails_on_what_it_was_to_find(
    web: LocalWeb, host: str, kind: str, words: str
) -> None:
    command = ("crawl", web.url(host), "--json", "--quiet", "--fail-on", kind)
    result = await run(*command)
    assert result.exit_code == 3
    assert f"courtly: --fail-on {kind}: {words}" in result.stderr
    assert json.loads(result.stdout)["visited"] >= 1, "the summary is printed all the same"
    assert (await run(*command)).exit_code == 3, "a crawl that has nothing left to do fails, too"


async def test_a_crawl_without_findings_passes(web: LocalWeb) -> None:
    kinds = ("broken", "failed", "blocked", "queued")
    options = [option for kind in kinds for option in ("--fail-on", kind)]
    good = await run("crawl", web.url("good.test"), *options)
    assert good.exit_code == 0, good.output
    assert "--fail-on" not in good.output
    assert (await run("report", "broken", "--fail")).exit_code == 0


async def test_a_dead_link_is_broken_but_not_failed(web: LocalWeb) -> None:
    assert (await run("crawl", web.url("dead.test"), "--fail-on", "failed")).exit_code == 0


async def test_urls_that_are_left_queued_can_fail_a_crawl(web: LocalWeb) -> None:
    command = ("crawl", web.url("good.test"), "--max-pages", "1", "--fail-on", "queued")
    result = await run(*command)
    assert result.exit_code == 3
    assert "1 URL is queued: courtly show queued" in result.stderr
    report = await run("report", "broken")
    assert "1 URL is still queued and not checked yet." in report.stdout


async def test_all_sentences_are_printed(web: LocalWeb) -> None:
    kinds = ("--fail-on", "failed", "--fail-on", "broken", "--fail-on", "failed")
    result = await run("crawl", web.url("fails.test"), "--quiet", *kinds)
    sentences = [line for line in result.stderr.splitlines() if "--fail-on" in line]
    assert [line.split()[2] for line in sentences] == ["failed:", "broken:"]


@pytest.mark.parametrize(
    ("host", "report", "code"),
    [
        ("dead.test", "broken", 3),
        ("dead.test", "robots", 0),
        ("shut.test", "broken", 0),
        ("shut.test", "robots", 3),
        ("good.test", "duplicates", 0),
        ("dead.test", "politeness", 2),
    ],
)
async def test_a_report_fails_on_request(web: LocalWeb, host: str, report: str, code: int) -> None:
    await run("crawl", web.url(host))
    assert (await run("report", report, "--format", "json")).exit_code == 0
    failing = await run("report", report, "--format", "json", "--fail")
    assert failing.exit_code == code
    if code == 2:
        assert "--fail: not for `politeness`" in failing.stderr
    else:
        assert bool(json.loads(failing.stdout)["findings"]) is (code == 3), "it is written first"


@pytest.mark.parametrize("name", ["@-", "-"])
async def test_seeds_come_from_standard_input(web: LocalWeb, name: str) -> None:
    lines = f"# two sites\n{web.url('good.test')}\n\n  {web.url('dead.test')}\r\n"
    result = await run("crawl", name, "--json", "--quiet", stdin=lines)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["hosts"] == 2
    added = await run("seeds", "add", name, stdin=web.url("good.test", "/new"))
    assert "1 new seed queued" in added.output


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("", "standard input contains no seed"),
        ("https://good.test/\nnonsense\n", "standard input:2: "),
    ],
)
async def test_standard_input_without_seeds_is_refused(
    web: LocalWeb, lines: str, words: str
) -> None:
    for command in (("crawl", "@-"), ("seeds", "add", "@-")):
        result = await run(*command, stdin=lines)
        assert result.exit_code == 2
        assert words in result.stderr
    assert not Path("crawl.db").exists()  # noqa: ASYNC240


# ---------------------------------------------------------------- the recipe of docs/reports.md

RECIPE = (Path(__file__).parents[3] / "docs" / "reports.md").read_text(encoding="utf-8")


async def test_the_documented_link_check_of_a_site(web: LocalWeb, tmp_path: Path) -> None:
    """Its config and its commands, as they are written, on a site with each kind of fault."""
    config = RECIPE.partition("```toml\n# linkcheck.toml")[2].partition("```")[0]
    workflow = RECIPE.partition("```yaml\n")[2].partition("```")[0]
    (command, writing) = re.findall(r"run: courtly (.*)", workflow)
    assert command == "crawl --config linkcheck.toml --fail-on broken"
    site = web.sites["good.test"] = {
        "/": html("Home", "/a", "/a#none", web.url("dead.test", "/gone"), head=ICON),
        "/a": html("A", web.url("good.test", "/")),
    }
    config = config.replace("https://example.com/", web.url("good.test"), 1)
    names = '[network]\nallow = ["127.0.0.0/8"]\nresolve = { "*.test" = "127.0.0.1" }\n'
    fast = '[politeness]\ndelay = 0.01\n[site."good.test"]\nsitemap_paths = []\n'
    (tmp_path / "linkcheck.toml").write_text(config + names + fast)

    async def courtly(command: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, main, command.split())

    broken = await courtly(command)
    assert broken.exit_code == 3, broken.output
    assert (await courtly(writing)).exit_code == 0
    page = (tmp_path / "broken.html").read_text()
    for fault in ("/i.png", "/gone", "#none"):
        assert fault in page
    site["/"] = html("Home", "/a")
    (tmp_path / "linkcheck.db").unlink()
    assert (await courtly(command)).exit_code == 0
