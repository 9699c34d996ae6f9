"""No object of courtly needs the garbage collector, which rarely examines old objects
(`GC_THRESHOLDS`): a reference cycle among objects that lived for a while would stay in memory
for hours."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crawler.config import Config, from_dict
from crawler.daemon.http import guards
from crawler.fetching.request import Request
from crawler.operator_commands import AddSeeds, Reload
from crawler.testing import Answers, LocalWeb, Reply, hang_up, html, not_found, redirect, text
from policies import robots
from policies.retries import FailureCode
from tests.conftest import ConfigFrom
from tests.crawler.daemon.conftest import Daemon, daemon_of

if TYPE_CHECKING:
    from tests.conftest import World

DAY_S = 86_400.0
OURS = ("crawler.", "storage.", "policies.", "msgspec.")  # msgspec makes some when it is misused


@contextmanager
def cycles() -> Iterator[Counter[str]]:
    """Objects of courtly, by type, that only other such objects referred to at the end."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found.update(name for one in gc.garbage if (name := name_of(one)).startswith(OURS))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def name_of(one: object) -> str:
    """The name of its class, or its own if it is a function."""
    # A class is no object of ours: `dataclass(slots=True)` leaves the one it replaces behind.
    if callable(one) and hasattr(one, "__qualname__") and not isinstance(one, type):
        return f"{one.__module__}.{one.__qualname__}"
    return f"{type(one).__module__}.{type(one).__qualname__}"


def test_cycles_are_found() -> None:
    with cycles() as found:
        file = robots.parse(b"")
        file.itself = file  # type: ignore[attr-defined]
        del file
    assert found["policies.robots.file.RobotsFile"] == 1


def test_a_robots_file_is_freed_when_it_is_replaced() -> None:
    """Otherwise hosts that change their robots.txt often would make a daemon grow."""
    for rules in [0, 5, 200]:
        for dialects in [("google",), ("google", "slurp"), tuple(robots.DIALECTS)]:
            lines = "".join(
                f"Disallow: /{n}*x$\nAllow: /{n}%41/\nDisallow: /p{n}\n" for n in range(rules)
            )
            body = f"User-agent: *\n{lines}Crawl-delay: 1\n".encode()
            with cycles() as found:
                policy = robots.parse(body).rule_set("testbot", dialects)
                policy.read_whole()
                for path in ("/p3", "/7/%41x", "/" + "ax" * 300):
                    policy.allowed(path)
                    str(policy.verdict(path))
                del policy
            assert not found, (rules, dialects)


def answers_of(world: World) -> Answers:
    """Hosts that fail in several ways and whose robots.txt changes every hour."""

    def answers(request: Request) -> Reply | FailureCode:
        number = int(request.url.partition("//h")[2].partition(".")[0])
        hour = int(world.clock.monotonic() // 3600)
        if request.url.endswith("/robots.txt"):
            if (number + hour) % 5 == 0:
                return FailureCode.TIMEOUT
            if (number + hour) % 5 == 1:
                return Reply(status=503)
            return text(f"User-agent: *\nDisallow: /{hour}/*x$\nDisallow: /private/\n")
        match number % 5:
            case 0:
                return FailureCode.CONNECT
            case 1:
                return Reply(status=500)
            case 2:
                return redirect(f"/{hour}")
        return html("Page", "/one", "/two", "/private/", f"/{hour}")

    return answers


async def test_a_crawl_of_days_makes_no_cycles(world: World) -> None:
    """robots.txt that changes and fails, recrawls, retries, hosts that come and go, reloads."""
    sections: dict[str, Any] = {
        "crawl": {
            "user_agent": "testbot/1.0 (+https://a.test/bot)",
            "patience": "10m",
            "max_depth": 2,
        },
        "politeness": {"delay": 60},
        "revisit": {"mode": "fixed", "interval": "6h"},
        "fetch": {"unreachable_for": "1h"},
    }
    turn = 0

    def reread() -> Config:
        nonlocal turn
        turn += 1
        dialect = ("google", "slurp")[turn % 2]
        return from_dict({**sections, "robots": {"dialect": dialect}})

    def each(hour: int) -> Callable[[], None]:
        async def act() -> None:
            await world.control.execute(
                AddSeeds(urls=tuple(f"http://h{hour}.test/{n}" for n in range(3)))
            )
            await world.control.execute(Reload())

        return lambda: world.do(act())

    hours = 40
    with cycles() as found:
        crawled = await world.crawl(
            answers_of(world),
            *(f"http://h{n}.test/" for n in range(10)),
            forever=True,
            reread=reread,
            at={
                **{hour * 3600 + 10: each(hour) for hour in range(1, hours, 4)},
                hours * 3600: lambda: world.control.stop(),  # noqa: PLW0108 - there is none yet
            },
            **sections,
        )
    assert len(crawled.entries(path="/robots.txt")) > 100
    # Made by msgspec for each type that is read for the first time; more would be many more.
    assert found.pop("msgspec._utils._get_class_mro_and_typevar_mappings.<locals>.inner", 0) < 20
    assert not found


async def test_a_daemon_makes_no_cycles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its network, database, sinks and page, while it is reloaded, queried and listened to."""
    n = 0

    def changing(_: object) -> Reply:
        nonlocal n
        n += 1
        return text(f"User-agent: *\nDisallow: /{n}/*x$\nDisallow: /private/\n")

    web = LocalWeb(
        {
            "a.test": {"/robots.txt": changing, "/": html("A", "/one", "/private/", "/gone")},
            "b.test": {"/": redirect("/c"), "/c": html("C")},
            "c.test": {"/": hang_up(), "/robots.txt": not_found()},
            "d.test": {"/": Reply(body="x" * 1_000, broken=True), "/robots.txt": hang_up()},
        }
    )

    def config(turn: int) -> dict[str, object]:
        return {
            **web.config(politeness={"delay": 0.01, "latency_factor": 0}),
            "fetch": {"timeout": 10 + turn, "cookies": True},
            "scope": {"follow": "any"},
            "robots": {"dialect": ("google", "slurp")[turn % 2]},
            "sink": [
                {"kind": kind, "path": str(tmp_path / kind)} for kind in ("jsonl", "warc", "mirror")
            ],
        }

    reloads = 0

    def reread() -> Config:
        nonlocal reloads
        reloads += 1
        return from_dict({**config(reloads), "storage": {"url": f"sqlite:{tmp_path / 'crawl.db'}"}})

    monkeypatch.setattr(guards, "REQUESTS", 100_000)
    async with web:
        seeds = [web.url(f"{host}.test") for host in "abcd"]
        async with daemon_of(config(0), tmp_path, *seeds, source=ConfigFrom(reread)) as daemon:
            await stir(daemon, seeds, 0)  # makes what is made once
            with cycles() as found:
                for turn in range(1, 3):
                    await stir(daemon, seeds, turn)
    assert not found


def everything_to_get(daemon: Daemon) -> list[str]:
    """The paths of all pages, files and answers but the stream of events, which does not end."""
    routes = (one for one in daemon.app.router.routes() if one.method == "GET" and one.resource)
    paths = {one.resource.canonical for one in routes if one.resource} - {"/api/events"}
    return sorted(path.replace("{kind}", "csv").replace("{", "").replace("}", "") for path in paths)


async def stir(daemon: Daemon, seeds: Sequence[str], turn: int) -> None:
    """Use the daemon as people do, with a pause for the effects."""
    client = daemon.client
    assert (await client.post("/api/reload")).status == 200
    urls = [*(f"{seed}{turn}" for seed in seeds), f"http://refused-{turn}.test:1/"]
    assert (await client.post("/api/seeds", {"urls": urls})).status == 200
    for path in ("/", "/hosts", "/api/hosts?limit=10", "/metrics", "/api/status"):
        assert (await client.get(path)).status == 200
    for path in everything_to_get(daemon):  # with what most of them require, and without
        for query in ({}, {"host": "a.test"}, {"url": urls[0]}, {"kind": "csv"}):
            assert (await client.get(path, params=query)).status < 500, path
    form = {"command": "pause", "which": "chosen", "host": "a.test", "back": "/hosts"}
    assert (await client.post("/hosts/steer", data=form)).status == 200
    for path in ("/host/pause", "/host/resume"):
        assert (await client.post(path, data=form)).status == 303
    assert (await client.post("/api/permit", {"url": 3})).status == 422
    async with client.session.get(f"{client.base}/api/events") as events:
        await events.content.readline()
    assert (await daemon.local.get("/api/status")).status == 200
    await asyncio.sleep(0.3)
