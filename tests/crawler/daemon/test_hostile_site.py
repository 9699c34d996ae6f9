"""A hostile site writes into everything that it controls, and every output shows it harmlessly."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest
from click.testing import CliRunner

from crawler.cli import main
from crawler.config.sections import LogLevel
from crawler.daemon.http.application import as_event
from crawler.daemon.http.routes import ROUTES
from crawler.daemon.monitoring.event_log import EventLog, LogFile, OutcomeLog
from crawler.testing import LocalWeb, Reply, redirect, text
from tests.command_processes import start
from tests.config_files import to_toml
from tests.crawler.daemon.conftest import Daemon, daemon_of

WORD = "zqx"
TAG = f"\"'><{WORD}tag on{WORD}=1>"
ODD = "\x1b[31m\x1b]8;;http://x/\x07\x9b2J\x90q\x7f\u202e\u2066\u2069\u200b\ufeff\u2028\u2029\x85"
LINE = f"\n{WORD}line\r\n{WORD}line{ODD}"
HOSTILE = f"{WORD}{TAG}{ODD}\t{{{{7*7}}}}{LINE}"
# A spreadsheet computes what begins so.
STARTS: tuple[str, ...] = (
    *("=", "+", "-", "@", "|", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\u200b", "\ufeff"),
    *("\u202e", "\u200b=", "\ufeff@", "\u202e|", " =", "\u00a0=", "\u2060+", "\u3164=", "\ufe66"),
)
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)
TITLES = [HOSTILE, *(f"{start}{WORD}()" for start in STARTS)]
LINKS = [
    f"/{quote(HOSTILE, safe='')}",
    f"/q?{urlencode({'x': HOSTILE})}",
    f"javascript:{WORD}()",
    f"http://{WORD}\u202e.test/",
    f"http://xn--{WORD}-\x1b.test/",
    "http://\u202e@[::zz",
    f"/t0#{HOSTILE}",
    "/moved", "/refused", "/odd-type", "/broken", "/header", "/missing", "/etag",
    f"/private/{WORD}",
]  # fmt: skip


def page(title: str, *links: str) -> Reply:
    anchors = "".join(f'<a href="{escaped(link)}">{escaped(HOSTILE)}</a>\n' for link in links)
    return Reply(
        body=f"<!DOCTYPE html><title>{escaped(title)}</title>{anchors}",
        headers={"ETag": f'"{WORD}<{WORD}tag>"', "Set-Cookie": f"{WORD}=<{WORD}tag>"},
    )


def escaped(value: str) -> str:
    return "".join(f"&#{ord(char)};" if not char.isalnum() else char for char in value)


def hostile_site() -> Mapping[str, Reply]:
    titled = {f"/t{number}": page(title) for number, title in enumerate(TITLES)}
    rules = f"Disallow: /private/{WORD} # {HOSTILE.splitlines()[0]}\nDisallow: /*{ODD}{TAG}\n"
    return {
        **titled,
        "/": page(HOSTILE, *titled, *LINKS),
        "/robots.txt": text(
            f"User-agent: *\n{rules}{ODD}{TAG}: {ODD}\nContent-Signal: {TAG}={ODD}\n"
            f"Sitemap: /map.xml\nSitemap: http://{WORD}.test/{TAG}\nCrawl-delay: 0.01\n"
        ),
        "/map.xml": Reply(
            content_type="application/xml",
            body=f"<urlset><url><loc>/{quote(HOSTILE, safe='')}</loc><changefreq>=\u200b{WORD}"
            f"</changefreq></url></urlset>{WORD}<{WORD}tag>",
        ),
        "/moved": redirect(f"/{quote(HOSTILE, safe='')}?{TAG}"),
        "/refused": Reply(status=403, body=HOSTILE),
        "/odd-type": Reply(body="x", content_type=f"=text/{WORD}<{WORD}tag>; charset=<{WORD}tag>"),
        "/broken": Reply(body=HOSTILE, broken=True),
        "/header": Reply(headers={"X-Robots-Tag": f"{WORD}: <{WORD}tag>\x9b", "X-Odd": "\x9b\x7f"}),
        "/etag": Reply(headers={"ETag": "=\x9b", "Last-Modified": f"<{WORD}tag>"}, body=b"\xff"),
    }


@dataclass(frozen=True)
class Output:
    medium: str
    text: str


Outputs = dict[str, Output]


# ------------------------------------------------------------ what is rendered


async def from_the_daemon(folder: Path) -> Outputs:
    """A crawl of the site, and what its daemon shows."""
    found: Outputs = {}
    log = EventLog(LogFile(folder / "log.jsonl"), LogLevel.DEBUG)
    failing = Reply(status=503, headers={"Retry-After": f"<{WORD}tag>"}, body=HOSTILE)
    site = dict(hostile_site())
    async with LocalWeb({"a.test": site}) as web:
        web.sites["b.test"] = {"/robots.txt": text(""), f"/{WORD}": failing}
        site["/t0"] = page(TITLES[0], web.url("b.test", f"/{WORD}"), f"http://{WORD}.invalid/")
        config = web.config(
            crawl={"patience": 0.5},
            politeness={"delay": 0.01, "latency_factor": 0},
            fetch={"max_attempts": 1, "timeout": 2},
            storage={"links": True, "fragments": True},
            scope={"follow": "any"},
        )
        async with daemon_of(config, folder, web.url("a.test"), log=log) as daemon:
            await daemon.until(lambda status: status["visited"] >= len(TITLES) + 4)
            lines = (await raw(daemon, "GET", "/urls.jsonl?state=visited")).splitlines()
            rows = [json.loads(line) for line in lines]
            urls = [str(row["url"]) for row in rows]
            for row in rows:
                OutcomeLog(log).gave_up("a.test", row["url"], str(row["title"]), 1)
            await pages_of(daemon, urls, found)
            status = msgspec.to_builtins(await daemon.operations.status())
            found["events"] = Output("sse", as_event("note", [status, HOSTILE]).decode())
        await a_crawl(folder, to_toml(config), web.url("a.test"), found)
    log.file.close()
    found["log file"] = Output("json lines", (folder / "log.jsonl").read_text())
    return found


async def a_crawl(folder: Path, config: str, seed: str, found: Outputs) -> None:
    """What `courtly crawl` prints."""
    file = folder / "crawl.toml"
    file.write_text(config)
    for name, options in (("text", ["--db", "one.db"]), ("json", ["--db", "two.db", "--json"])):
        process = await start("crawl", seed, "--config", str(file), *options, cwd=folder)
        out, err = await asyncio.wait_for(process.communicate(), 60)
        found[f"crawl, {name}"] = Output(name, out.decode())
        found[f"crawl, {name}, messages"] = Output("text", err.decode())


async def pages_of(daemon: Daemon, urls: list[str], found: Outputs) -> None:
    first = {"host": "a.test", "url": urls[0]}
    pages = ["/", "/hosts", "/urls", "/blocked", "/tester", "/seeds", "/history", "/log", "/config"]
    pages += ["/host?host=a.test", "/urls/skipped", f"/missing/{quote(HOSTILE)}"]
    pages += [f"/urls?state={state}" for state in ("visited", "failed", "blocked", "queued")]
    pages += [f"/url?{urlencode({'url': url})}" for url in urls]
    pages += [f"/find?{urlencode({'text': HOSTILE})}", f"/hosts?{urlencode({'search': HOSTILE})}"]
    browser = {"Accept": "text/html"}
    for path in pages:
        body = (await daemon.client.get(path, headers=browser)).body
        found[f"page {path[:60]}"] = Output("html", body)
    posted = {"host": "a.test", "urls": f"/private/{WORD}\n{HOSTILE}", "agent": HOSTILE}
    tested = await daemon.client.ask("POST", "/tester", data=posted, headers=browser)
    found["page /tester, posted"] = Output("html", tested.body)
    for name in ("hosts", "urls", "seeds", "blocked", "log"):
        for kind, medium in (("csv", "csv"), ("jsonl", "json lines")):
            shown = await raw(daemon, "GET", f"/{name}.{kind}")
            found[f"download {name}.{kind}"] = Output(medium, shown)
    found["history.csv"] = Output("csv", await raw(daemon, "GET", "/history.csv"))
    found["metrics"] = Output("metrics", await raw(daemon, "GET", "/metrics"))
    for route in ROUTES:
        for given in (first, {}) if route.method == "GET" else ():
            name = f"GET {route.path} {list(given)}"
            found[name] = Output("json", await raw(daemon, "GET", route.path, params=given))
    for path, sent in (
        ("/api/robots/check", {"host": "a.test", "urls": [f"/private/{WORD}"]}),
        ("/api/may-fetch", {"url": f"{urls[0]}private/{WORD}"}),
        ("/api/seeds", {"urls": [HOSTILE]}),
    ):
        found[f"POST {path}"] = Output("json", await raw(daemon, "POST", path, json=sent))


async def raw(daemon: Daemon, method: str, path: str, **more: Any) -> str:
    url = daemon.client.base + path
    async with daemon.client.session.request(method, url, **more) as answer:
        return await answer.text()


VIEWS: tuple[str, ...] = (
    *("visited", "blocked", "failed", "queued", "hosts", "robots", "skipped", "sitemaps"),
    *("listings", "links", "malformed", "fragments"),
)
REPORTS = ("broken", "robots", "duplicates", "politeness")


def from_the_commands(folder: Path) -> Outputs:
    database = ["--db", str(folder / "crawl.db")]
    robots = folder / "robots.txt"
    robots.write_bytes(str(hostile_site()["/robots.txt"].body).encode())
    commands: dict[str, list[str]] = {}
    media = {"table": "text", "jsonl": "json lines", "csv": "csv"}
    for how, medium in media.items():
        for view in VIEWS:
            commands[f"{medium}: show {view}"] = ["show", view, "--format", how, *database]
        for kind in ("host", "seeds"):
            commands[f"{medium}: {kind} list"] = [kind, "list", "--format", how, *database]
    for view in ("visited", "blocked", "failed", "links", "malformed", "fragments"):
        commands[f"csv: export {view}"] = ["export", view, "--format", "csv", *database]
        commands[f"json lines: export {view}"] = ["export", view, "--format", "jsonl", *database]
    for report in REPORTS:
        for how in ("text", "html", "json"):
            commands[f"{how}: report {report}"] = ["report", report, "--format", how, *database]
    commands["text: status"] = ["status", *database]
    commands["json: status"] = ["status", "--json", *database]
    commands["text: db info"] = ["db", "info", *database]
    commands["text: db check"] = ["db", "check", *database]
    commands["text: why host"] = ["why", "a.test", *database]
    commands["text: robots lint"] = ["robots", "lint", str(robots)]
    commands["text: robots check"] = ["robots", "check", f"/private/{WORD}", "--file", str(robots)]
    for row in run(["show", "visited", "--format", "jsonl", *database]).splitlines():
        url = json.loads(row)["url"]
        commands[f"text: why {url[:50]}"] = ["why", url, *database]
    for row in run(["show", "failed", "--format", "jsonl", *database]).splitlines():
        commands[f"text: why {row[:50]}"] = ["why", json.loads(row)["url"], *database]
    return {name: Output(name.partition(":")[0], run(args)) for name, args in commands.items()}


def run(args: list[str]) -> str:
    return CliRunner().invoke(main, args).stdout


# ------------------------------------------------------------ what is harmless


def check_text(shown: str) -> None:
    assert not FORBIDDEN.search(shown)
    assert not re.search(rf"(?m)^{WORD}line", shown)
    assert "\r" not in shown


def check_json(shown: str) -> None:
    assert not FORBIDDEN.search(shown)
    json.loads(shown)


def check_json_lines(shown: str) -> None:
    for line in shown.splitlines():
        check_json(line)


def check_sse(shown: str) -> None:
    assert not FORBIDDEN.search(shown)
    assert re.fullmatch(r"event: note\ndata: .*\n\n", shown)


def check_csv(shown: str) -> None:
    assert not FORBIDDEN.search(shown)
    rows = list(csv.reader(io.StringIO(shown, newline="")))
    assert len({len(row) for row in rows}) <= 1
    for row in rows:
        for cell in row:
            if re.fullmatch(r"-?[0-9.e+-]+", cell):
                continue
            assert not cell.lstrip(" \u00a0\ufffd\u3164").startswith(STARTS), cell
            assert "\n" not in cell


class Tags(HTMLParser):
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert WORD not in tag
        for name, value in attrs:
            assert WORD not in name
            assert name not in ("onclick", "onload", "onerror", "style") or WORD not in str(value)
            if name in ("href", "src", "action", "formaction"):
                assert not re.match(r"\s*(javascript|data|vbscript):", str(value).lower())


def check_html(shown: str) -> None:
    assert not FORBIDDEN.search(shown)
    # {{7*7}} is no template. A port, a date or a time may have these digits.
    assert not re.findall(rf"{WORD}[^<]*?(?<![\d:.-])49(?![\d:.-])", shown)
    Tags().feed(shown)


def check_metrics(shown: str) -> None:
    assert not FORBIDDEN.search(shown)
    for line in shown.splitlines():
        label = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
        assert re.fullmatch(rf"#.*|[a-z_]+(\{{{label}(,{label})*\}})? \S+", line), line


CHECKS: Mapping[str, Callable[[str], None]] = {
    "text": check_text, "json": check_json, "json lines": check_json_lines, "sse": check_sse,
    "csv": check_csv, "html": check_html, "metrics": check_metrics,
}  # fmt: skip


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    folder = tmp_path_factory.mktemp("hostile")
    found = asyncio.run(from_the_daemon(folder))
    return {**found, **from_the_commands(folder)}


@pytest.mark.parametrize("medium", CHECKS)
def test_every_output_shows_hostile_text_harmlessly(rendered: Outputs, medium: str) -> None:
    wrong = []
    outputs = {name: one for name, one in rendered.items() if one.medium == medium}
    for name, one in outputs.items():
        try:
            CHECKS[medium](one.text)
        except (AssertionError, ValueError) as error:
            wrong.append(f"{name}: {str(error)[:300]}")
    assert not wrong, "\n".join(wrong)
    if medium not in ("metrics", "sse"):  # it is shown at all, so the checks saw something
        assert sum(WORD in one.text for one in outputs.values()) > 3
