"""`courtly demo`: the newcomer's first minute."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler.cli import interpreter
from crawler.cli.errors import INTERRUPTED

if TYPE_CHECKING:
    from crawler.config import Config
    from crawler.testing import LocalWeb

PATIENCE_S = 11  # the second retry of what cannot be had comes after 10 s


@click.command()
def demo() -> None:
    """Serve a small web of many hosts on loopback, and crawl it.

    Needs no network, takes well under a minute, and shows what was visited, what was blocked and by
    which rule. The database is a fresh one in the folder for temporary files, and is kept.
    """
    raise SystemExit(interpreter.run(_demo()))


async def _demo() -> int:
    import asyncio

    from crawler.app import crawl, looking_into
    from crawler.cli import screen
    from crawler.cli.demo import report as demo_report
    from crawler.cli.demo import web as demo_web
    from crawler.cli.display import display
    from crawler.cli.signals import Signals
    from crawler.testing import LocalWeb

    console = screen.console()
    db = Path(tempfile.mkdtemp(prefix="courtly-demo-")) / "crawl.db"
    async with LocalWeb() as web:
        demo_web.build(web)
        console.print(
            f"A web of {len(web.sites)} hosts is served on 127.0.0.1:{web.port}, "
            f"and crawled from {web.url(demo_web.PORTAL)}"
        )
        stop, leave = asyncio.Event(), asyncio.Event()
        with display() as shown, Signals(stop, leave, shown.say):
            summary = await crawl(
                _config(web, db),
                seeds=[web.url(demo_web.PORTAL)],
                observe=shown.observe,
                stop=stop,
                leave=leave,
            )
    async with looking_into(db) as reader:
        await demo_report.show(console, reader, summary, db=db)
    return INTERRUPTED if summary.interrupted else 0


def _config(web: LocalWeb, db: Path) -> Config:
    from crawler.cli.demo import web as demo_web
    from crawler.config import from_dict

    return from_dict(
        web.config(
            crawl={
                "patience": PATIENCE_S,
                "user_agent": f"courtly-demo/1.0 (+{web.url(demo_web.PORTAL)})",
            },
            # `include` keeps the crawl at home: the demo's hosts, and one address that is refused
            scope={"follow": "any", "include": ["http://*.test:*", "http://10.0.0.1/*"]},
            politeness={"delay": 0.1},
            fetch={"max_attempts": 2, "unreachable_for": "2s", "timeout": 10},
            storage={"url": f"sqlite:{db}"},
        ),
        where="the demo",
    )
