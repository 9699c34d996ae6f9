"""`courtly status`: what the crawl on a database is doing now, or that none is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from crawler.cli import interpreter, living
from crawler.cli.errors import stdout_needed
from crawler.cli.options import config_option, db_option, existing_database
from crawler.cli.text import echo_json, say
from crawler.telling.words import at, counted, plain

FETCHING_SHOWN = 5
STOPPED = "stopped"  # the state where no crawl runs


@click.command(short_help="Say what the crawl on a database is doing now.")
@db_option
@config_option
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object, as GET /api/status answers."
)
def status(db: str | None, config_file: Path | None, as_json: bool) -> None:
    """Say what the crawl on a database is doing now; where none runs, what the last one left."""
    stdout_needed()
    found = look(existing_database(config_file, db))
    if as_json:
        echo_json(found)
        return
    for line in lines(found):
        say(line)


def look(database: Path) -> Mapping[str, object]:
    """The status of a crawl that runs; else the counts alone, with the state `stopped`."""
    answer = living.ask(database, "GET", "/api/status")
    return interpreter.run(_left(database)) if answer is None else answer


async def _left(database: Path) -> Mapping[str, object]:
    from crawler.app import looking_into

    async with looking_into(database) as reader:
        stats = await reader.stats()
    return {
        "state": STOPPED,
        "held": [],
        "visited": stats.visited,
        "blocked": stats.blocked,
        "failed": stats.failed,
        "queued": stats.queued,
        "hosts": stats.hosts,
        "bytes": stats.body_bytes,
        "in_flight": 0,
        "pages_per_s": 0.0,
        "bytes_per_s": 0.0,
        "uptime_s": 0.0,
    }


def lines(found: Mapping[str, object]) -> Iterator[str]:
    """For people."""
    from crawler.config.units import format_bytes, format_duration

    if found["state"] == STOPPED:
        yield "no crawl runs on this database, or it has no socket"
    else:
        yield (
            f"{found['state']} for {format_duration(_number(found['uptime_s']))}, "
            f"{_number(found['pages_per_s']):,.1f} pages/s, "
            f"{counted(int(_number(found['in_flight'])), 'request')} in flight"
        )
    held = found.get("held")
    for hold in held if isinstance(held, list) else ():
        yield f"held since {at(hold['since'])}: {plain(str(hold['sentence']))}"
    yield (
        f"{_number(found['visited']):,.0f} visited ({format_bytes(_number(found['bytes']))}), "
        f"{_number(found['blocked']):,.0f} blocked, {_number(found['failed']):,.0f} failed, "
        f"{_number(found['queued']):,.0f} queued, "
        f"at {counted(int(_number(found['hosts'])), 'host')}"
    )
    states = found.get("hosts_by_state")
    if isinstance(states, Mapping) and states:
        yield "hosts at hand: " + ", ".join(f"{count:,} {state}" for state, count in states.items())
    under_way = found.get("fetching")
    for one in under_way[:FETCHING_SHOWN] if isinstance(under_way, list) else ():
        yield f"  fetching {plain(str(one['url']))} for {format_duration(_number(one['since_s']))}"


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
