"""Record what whole crawls do: every contact with its time, and every view at the end.

    python -m tests.traces.record FOLDER [NUMBER]

writes one JSON file per scenario. A change of the core that is meant to keep behaviour must write
the same files as the commit before it: record with both and `diff -r` the folders. Scenarios are
random webs on a clock that jumps, so that one number gives one web, and no time is spent waiting.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from crawler.fetching.request import Request
from crawler.testing import JumpClock, Reply, html, not_found, redirect, text
from policies.retries import FailureCode
from policies.url import host_of, path_of
from tests.conftest import World

NUMBER: Final = 60
DAY_S: Final = 86_400.0
# Columns that name the process or are made up anew in each run.
_UNSTEADY: Final = frozenset({"id", "source_id", "target_id", "session", "epoch"})


class Web:
    """A web generated from one number: some hosts with their robots.txt, pages and failures."""

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)
        self.number = number
        self.hosts = [f"h{n}.test" for n in range(self.random.randint(4, 40))]
        self.hosts += [f"www.h{n}.test" for n in range(self.random.randint(0, 2))]
        self.robots = {host: self._robots(host) for host in self.hosts}
        self.asked: dict[str, int] = {}

    def _robots(self, host: str) -> list[Reply | FailureCode]:
        """The responses to requests for its robots.txt in order; the last one repeats."""
        draw = self.random
        rules = text(
            "User-agent: *\nDisallow: /no\n"
            + draw.choice(["", "Crawl-delay: 3\n", "Crawl-delay: 20\n", "Request-rate: 1/5\n"])
            + draw.choice(["", f"Sitemap: http://{host}/map.xml\n"])
        )
        changed = text("User-agent: *\nDisallow: /p1\n")
        closed = text("User-agent: *\nDisallow: /\n")
        return draw.choice(
            [
                [rules],
                [rules],
                [rules, changed],
                [not_found()],
                [closed, rules],
                [Reply(status=500), rules],
                [FailureCode.TIMEOUT, Reply(status=503), rules],
                [FailureCode.CONNECT],
                [redirect(f"http://{draw.choice(self.hosts)}/robots.txt")],
                [Reply(status=403)],
            ]
        )

    def answer(self, request: Request) -> Reply | FailureCode:
        host, path = host_of(request.url), path_of(request.url)
        times = self.asked[request.url] = self.asked.get(request.url, 0) + 1
        if host not in self.hosts:
            return FailureCode.DNS
        if path == "/robots.txt":
            answers = self.robots[host]
            return answers[min(times, len(answers)) - 1]
        draw = random.Random(f"{self.number} {request.url} {min(times, 3)}")
        if path.endswith(".xml"):
            listed = "".join(f"<url><loc>http://{host}/p{n}</loc></url>" for n in range(5))
            return Reply(body=f"<urlset>{listed}</urlset>", content_type="application/xml")
        kind = draw.random()
        if kind < 0.05:
            return draw.choice([FailureCode.TIMEOUT, FailureCode.CONNECT, FailureCode.PROTOCOL])
        if kind < 0.1:
            headers = {"Retry-After": str(draw.randint(1, 90))} if draw.random() < 0.5 else {}
            return Reply(status=draw.choice([429, 503]), headers=headers)
        if kind < 0.13:
            return Reply(status=draw.choice([404, 410, 500]))
        if kind < 0.2:
            return redirect(f"http://{draw.choice(self.hosts)}/p{draw.randint(0, 9)}")
        links = [
            f"http://{draw.choice(self.hosts)}/{draw.choice(['p', 'no'])}{draw.randint(0, 30)}"
            for _ in range(draw.randint(2, 12))
        ]
        return replace(html(path, *links), delay_s=draw.choice([0.0, 0.0, 0.2, 2.0]))

    def sections(self) -> dict[str, Any]:
        draw = self.random
        return {
            "crawl": {
                "concurrency": draw.choice([1, 3, 64]),
                "max_pages": draw.choice([50, 1000, 1000]),
                "max_depth": draw.choice([2, 10]),
                "patience": draw.choice([5, 600]),
            },
            "scope": {
                "follow": draw.choice(["host", "domain", "any"]),
                "max_pages_per_host": draw.choice([5, 1000, 1000]),
            },
            "politeness": {
                "delay": draw.choice([0, 0.5, 5]),
                "latency_factor": draw.choice([0, 10]),
                "per": draw.choice(["host", "domain"]),
                "concurrency_per_host": draw.choice([1, 1, 3]),
            },
            "robots": {"dialect": draw.choice(["slurp", "rfc9309", "google"])},
            "revisit": {"mode": draw.choice(["off", "off", "fixed"]), "interval": "6h"},
        }


async def scenario(number: int) -> dict[str, Any]:
    web = Web(number)
    sections = web.sections()
    seeds = [f"http://{host}/" for host in web.hosts[: web.random.randint(1, len(web.hosts))]]
    kill_at_s = web.random.choice([None, None, 0.3, 4.0, 40.0])
    forever = sections["revisit"]["mode"] != "off"
    found: dict[str, Any] = {"config": sections, "runs": []}
    async with JumpClock() as clock:
        world = World(clock)
        for run in range(2):
            at: dict[float, Callable[[], None]] = {}
            if run == 0 and kill_at_s is not None:
                at[kill_at_s] = world.kill
            elif forever:
                at[DAY_S] = world.leave
            crawled = await world.crawl(
                web.answer, *(seeds if run == 0 else ()), at=at, forever=forever, **sections
            )
            contacts = sorted(
                (round(one.start_s - crawled.start_s, 6), one.host, one.path, one.status)
                for one in crawled.log
            )
            rows = {
                view: sorted(
                    json.dumps({k: v for k, v in row.items() if k not in _UNSTEADY}, default=str)
                    for row in rows
                )
                for view, rows in crawled.rows.items()
            }
            found["runs"].append(
                {"elapsed_s": round(crawled.elapsed_s, 6), "contacts": contacts, "rows": rows}
            )
    return found


def main(folder: Path, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for one in range(number):
        found = asyncio.run(scenario(one))
        file = folder / f"{one:03}.json"
        file.write_text(json.dumps(found, indent=1, sort_keys=True, default=str) + "\n")
        contacts = sum(len(run["contacts"]) for run in found["runs"])
        print(f"{file.name}: {contacts:,} contacts", flush=True)  # noqa: T201


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # else the order of sets differs from run to run
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.traces.record", *sys.argv[1:]])
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else NUMBER)
