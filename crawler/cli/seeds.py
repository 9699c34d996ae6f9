"""`courtly seeds`: more to begin from, for a crawl that runs or for the next one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler.cli import interpreter, living
from crawler.cli.errors import MISUSED, tell
from crawler.cli.options import config_option, configured, db_option
from crawler.cli.text import say
from crawler.telling.words import counted, plain

if TYPE_CHECKING:
    from crawler.config import Config

AT_ONCE = 5_000  # of one request


@click.group(short_help="Add seeds to a crawl.")
def seeds() -> None:
    """Add seeds to a crawl that runs, or to a database for the next one."""


@seeds.command(short_help="Queue URLs as seeds.")
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option(
    "--priority",
    type=float,
    default=0.0,
    show_default=True,
    metavar="N",
    help="Larger ones are visited first, within their host.",
)
@db_option
@config_option
def add(urls: tuple[str, ...], priority: float, db: str | None, config_file: Path | None) -> None:
    """Queue URLs, absolute ones or @FILE with one a line, as seeds. A crawl that runs on the
    database takes them up at once; scope is relative to them, too. If one of them is no
    URL, none is queued."""
    from crawler.config import from_dict, seeds_of

    config = configured(config_file, db)
    wanted = seeds_of(from_dict({}), urls)
    if priority != priority or abs(priority) == float("inf"):
        raise click.UsageError("--priority: must be a finite number")
    added, known, refused = give(config, wanted, priority)
    already = f", {known:,} known already" if known else ""
    say(f"{counted(added, 'new seed')} queued{already}")
    for sentence in refused:
        tell(plain(sentence))
    if refused:
        raise SystemExit(MISUSED)


def give(config: Config, urls: Sequence[str], priority: float) -> tuple[int, int, list[str]]:
    """How many are new, how many were known, and why others were refused. UsageError, StoreRefused,
    StoreError."""
    database, left = config.storage.path, iter(urls)
    added, known, refused = 0, 0, list[str]()
    while part := list(islice(left, AT_ONCE)):
        body: dict[str, object] = {"urls": part, "priority": priority}
        answer = living.ask(database, "POST", "/api/seeds", body=body)
        if answer is None:
            from crawler.by_hand import add_seeds

            new = interpreter.run(add_seeds(config, part, priority))
            added, known = added + new, known + len(part) - new
            continue
        added, known = added + _number(answer["added"]), known + _number(answer["known"])
        told = answer["refused"]
        for one in told if isinstance(told, list) else ():
            refused.append(f"{one['url']}: {one['reason']}")
    return added, known, refused


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
