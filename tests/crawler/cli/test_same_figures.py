"""Every command, route and metric says the same of one crawl, whichever engine stores it.

A command or a route that is new is compared as well, or must be listed here."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import click
import msgspec
import pytest
from click.testing import CliRunner

from crawler.cli import main
from crawler.daemon.http.routes import ROUTES, Route
from storage.columns import VIEWS
from tests.crawler.daemon.conftest import Daemon, daemon_of
from tests.storage.conftest import Rig, server_location
from tests.storage.postgres.test_same_reads import crawl

# Commands with a database that change it, or run a crawl; not compared.
CHANGING: Final = {
    "crawl", "retry", "drop", "host pause", "host resume", "host slow", "seeds add", "pause",
    "resume", "reload", "db copy", "db vacuum", "mcp",
}  # fmt: skip
FACTS: Final = {"db info"}  # in words, of a file or of a server
URL: Final = "http://a.test/"
# Values for what a command or a route must be given.
VALUES: Final = {
    "what": [URL, "a.test", "b.test", "z.test", "http://b.test/sitemap.xml"],
    "host": ["a.test", "b.test"], "name": ["a.test"], "url": [URL], "q": ["test"],
    "origin": ["http://a.test"], "state": ["failed", "queued"], "search": ["a"],
    "rule": ["/a"], "line": ["2"], "path": ["/"],
}  # fmt: skip
# What rightly differs: where and when, sizes of files, and what only a server has.
DIFFERS: Final = {
    "at", "queue_at", "uptime_s", "through_at", "workers", "server", "shared", "database", "schema",
    "bytes_on_disk", "free_bytes", "memory_bytes", "session", "sessions", "last_at", "began_at",
    "pid", "id", "points", "marks", "from", "to", "name", "health", "settings",
    # The clocks of the two stores are not set alike: one is the server's.
    "until", "next_at", "backoff_until", "due_at", "first_at", "why",
}  # fmt: skip
METRICS_DIFFER: Final = re.compile(
    r"courtly_(worker|table|renewal|leases|sessions_reaped|transaction|commit|reconnections|uptime"
    r"|database|disk|memory|loop|build|free|process"
    r"|resident|start_time|health.check=.workers)|process_|python_|# |\w+_created|http_"
)


CONFIG: Final = {"crawl": {"user_agent": "figures/1.0 (+https://figures.example/)"}}


def of_database(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command: Any = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from of_database(command, (*path, name))
        elif any(one.name == "db" for one in command.params):
            yield " ".join((*path, name)), command


def invocations(name: str, command: click.Command) -> Iterator[list[str]]:
    """Each way to read with a command: each value of its argument, in each format."""
    parameters: list[Any] = [*command.params]
    values: Sequence[str | None] = [None]
    styles: list[list[str]] = [[]]
    for one in parameters:
        if isinstance(one, click.Argument):
            values = getattr(one.type, "choices", None) or VALUES[str(one.name)]
        elif one.name == "how":
            styles = [["--format", str(each)] for each in one.type.choices]
    if any(one.name == "as_json" for one in command.params):
        styles = [["--json"]] if name in FACTS else [[], ["--json"]]
    for value in values:
        for style in styles:
            yield [*name.split(), *([] if value is None else [value]), *style]


def plain(value: Any) -> Any:
    """Without what rightly differs."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items() if key not in DIFFERS}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value


def said(arguments: list[str], url: str) -> tuple[int, object]:
    result = CliRunner().invoke(main, [*arguments, "--db", url])
    text = result.output.replace(url.removeprefix("sqlite:"), "DATABASE").replace(url, "DATABASE")
    assert "Traceback" not in text
    if arguments[-1] == "--json":
        found = plain(json.loads(text))
        sizes = ("bytes", "bytes_per_url") if " ".join(arguments[:2]) in FACTS else ()
        return result.exit_code, {key: found[key] for key in found if key not in sizes}
    text = re.sub(r"(in|until|for|ago|through) [^,;)]*", "", text)
    return result.exit_code, [line for line in text.splitlines() if not SKIPPED.match(line)]


SKIPPED: Final = re.compile(r"no crawl is running")


@pytest.fixture
async def urls(tmp_path: Path, postgres_url: str) -> tuple[str, str]:
    """The URLs of two databases with the same crawl, which is paused."""
    rigs = [
        Rig("sqlite", tmp_path / "crawl.db"),
        Rig("postgres", tmp_path, server_location(postgres_url)),
    ]
    for rig in rigs:
        await rig.open()
        await crawl(rig)
        await rig.store.set_paused(True)
        await rig.store.close(rig.session)
    return f"sqlite:{tmp_path / 'crawl.db'}", postgres_url


async def test_commands(urls: tuple[str, str]) -> None:
    compared = 0
    for name, command in of_database(main):
        if name in CHANGING:
            continue
        for arguments in invocations(name, command):
            expected, found = [await asyncio.to_thread(said, arguments, url) for url in urls]
            assert found == expected, arguments
            compared += 1
    assert compared > len(VIEWS)


def requests(route: Route) -> Iterator[str]:
    """The route with what it must be given."""
    needed = [one.name for one in msgspec.structs.fields(route.query) if one.required]
    values = [[(name, value) for value in VALUES[name]] for name in needed]
    if not values:
        yield route.path
    for given in zip(*values, strict=False):
        yield f"{route.path}?{urlencode(given)}"


async def answers(daemon: Daemon) -> dict[str, object]:
    found: dict[str, object] = {}
    for route in ROUTES:
        if route.method == "GET" and not route.waits and "stream" not in route.path:
            for request in requests(route):
                answer = await daemon.client.get(request)
                found[request] = (answer.status, plain(answer.body))
    metrics = (await daemon.client.get("/metrics")).body
    lines = (one.rpartition(" ") for one in metrics.splitlines() if not METRICS_DIFFER.match(one))
    found["/metrics"] = {name: figure for name, _, figure in lines}
    return found


def differences(one: Any, other: Any) -> Any:
    """What differs, where it does."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = {*one, *other}
        pairs = {key: (one.get(key), other.get(key)) for key in keys}
        return {key: differences(*pair) for key, pair in pairs.items() if pair[0] != pair[1]}
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        return [differences(*pair) for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
    return one, other


async def test_routes_and_metrics(urls: tuple[str, str], tmp_path: Path) -> None:
    found = []
    for number, url in enumerate(urls):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with daemon_of(CONFIG, folder, url=url) as daemon:
            found.append(await answers(daemon))
    expected, of_server = found
    differing = {
        request: differences(answer, of_server[request])
        for request, answer in expected.items()
        if answer != of_server[request]
    }
    assert differing == {}
    assert len(expected) > 10
