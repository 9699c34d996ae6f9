"""`courtly seeds`: add seeds to a crawl."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import click

from crawler.cli import process, running_crawl
from crawler.cli.exit_codes import MISUSED, print_problems
from crawler.cli.options import DatabaseOptions, database_options
from crawler.cli.text import say
from crawler.explain.formatting import counted, plain

if TYPE_CHECKING:
    from crawler.config import Config

BATCH_SEEDS = 5_000  # per request to a running crawl


@click.group(short_help="Add seeds to a crawl.")
def seeds() -> None:
    """Add seeds to a running crawl, or to a database for its next crawl."""


@seeds.command(short_help="Queue URLs as seeds.")
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option(
    "--priority",
    type=float,
    default=0.0,
    show_default=True,
    metavar="N",
    help="URLs with a higher priority are fetched first, within their host.",
)
@database_options
def add(urls: tuple[str, ...], priority: float, database: DatabaseOptions) -> None:
    """Queue URLs as seeds. A URL is absolute, @FILE with one URL per line, or @- for such lines
    on standard input. If one of them is invalid, none is queued.

    A running crawl starts with them immediately. They extend the scope of the crawl like any seed.
    """
    from crawler.config import from_dict, seeds_of

    config = database.config()
    wanted = seeds_of(from_dict({}), urls, stdin=True)
    if not math.isfinite(priority):
        raise click.UsageError("--priority: must be a finite number")
    added, known, refused = _add(config, wanted, priority)
    already = f", {known:,} already known" if known else ""
    say(f"{counted(added, 'new seed')} queued{already}")
    for sentence in refused:
        print_problems(plain(sentence))
    if refused:
        raise SystemExit(MISUSED)


def _add(config: Config, urls: Sequence[str], priority: float) -> tuple[int, int, list[str]]:
    """Return the number of new seeds, of known ones, and a sentence for each refused one. Raises
    UsageError, StoreRefused and StoreError."""
    left = iter(urls)
    added, known, refused = 0, 0, list[str]()
    while batch := list(islice(left, BATCH_SEEDS)):
        body: dict[str, object] = {"urls": batch, "priority": priority}
        answer = running_crawl.ask(config.storage.location, "POST", "/api/seeds", body=body)
        if answer is None:
            from crawler.offline_control import add_seeds

            new = process.run(add_seeds(config, batch, priority))
            added, known = added + new, known + len(batch) - new
            continue
        added += running_crawl.number(answer["added"])
        known += running_crawl.number(answer["known"])
        rejected = answer["refused"]
        for one in rejected if isinstance(rejected, list) else ():
            refused.append(f"{one['url']}: {one['reason']}")
    return added, known, refused
