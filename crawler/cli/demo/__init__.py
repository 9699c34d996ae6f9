"""`courtly demo`: crawl a small local web, as a first look at courtly."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler.cli import process
from crawler.cli.exit_codes import INTERRUPTED

if TYPE_CHECKING:
    from crawler.config import Config
    from crawler.testing import LocalWeb

PATIENCE_S = 11  # long enough for the second retry of an unreachable host, which comes after 10 s


@click.command()
def demo() -> None:
    """Serve a small web of many hosts on loopback, and crawl it.

    Requires no network and takes a few seconds. Shows which pages were visited, and which were
    blocked by which rule. A new database is created in the temporary folder and is not deleted.
    """
    raise SystemExit(process.run(_demo()))


async def _demo() -> int:
    import asyncio

    from crawler.app import crawl
    from crawler.cli.demo import results, sites
    from crawler.cli.progress import display
    from crawler.cli.safe_console import safe_console
    from crawler.cli.signals import CrawlSignals
    from crawler.databases import looking_into
    from crawler.testing import LocalWeb
    from storage.location import FileLocation

    console = safe_console()
    db = Path(tempfile.mkdtemp(prefix="courtly-demo-")) / "crawl.db"
    async with LocalWeb() as web:
        web.sites.update(sites.build(web))
        seed = web.url(sites.PORTAL)
        console.print(
            f"Serving {len(web.sites)} hosts on 127.0.0.1:{web.port}, and crawling them from {seed}"
        )
        stop, exit_now = asyncio.Event(), asyncio.Event()
        with display() as shown, CrawlSignals(stop, exit_now, shown):
            summary = await crawl(
                _config(web, seed, db),
                seeds=[seed],
                observe=shown.observe,
                stop=stop,
                exit_now=exit_now,
            )
    async with looking_into(FileLocation(db)) as reader:
        await results.show(console, reader, summary, db=db)
    return INTERRUPTED if summary.interrupted else 0


def _config(web: LocalWeb, seed: str, db: Path) -> Config:
    from crawler.config import from_dict

    return from_dict(
        web.config(
            crawl={"patience": PATIENCE_S, "user_agent": f"courtly-demo/1.0 (+{seed})"},
            # Only the hosts of the demo, and one address that is refused.
            scope={"follow": "any", "include": ["http://*.test:*", "http://10.0.0.1/*"]},
            politeness={"delay": 0.1},
            fetch={"max_attempts": 2, "unreachable_for": "2s", "timeout": 10},
            storage={"url": f"sqlite:{db}"},
        ),
        where="the demo",
    )
