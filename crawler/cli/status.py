"""`courtly status`: show what the crawl of a database is doing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from crawler.cli import process, running_crawl
from crawler.cli.options import DatabaseOptions, database_options
from crawler.cli.standard_streams import require_stdout
from crawler.cli.text import echo_json, say
from crawler.explain.formatting import at, counted, plain

FETCHING_SHOWN = 5
STOPPED = "stopped"  # the state if no crawl is running


@click.command(short_help="Show what the crawl of a database is doing.")
@database_options
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object, as in GET /api/status."
)
def status(database: DatabaseOptions, as_json: bool) -> None:
    """Show what the crawl of a database is doing. If none is running, show the state in which the
    last one left the database."""
    require_stdout()
    path = database.path()
    found = running_crawl.ask(path, "GET", "/api/status") or process.run(_stopped(path))
    if as_json:
        echo_json(found)
        return
    for line in _lines(found):
        say(line)


async def _stopped(database: Path) -> Mapping[str, object]:
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


def _lines(found: Mapping[str, object]) -> Iterator[str]:
    from crawler.config.units import format_bytes, format_duration

    if found["state"] == STOPPED:
        yield "no crawl is running on this database, or it has no socket"
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
        f"on {counted(int(_number(found['hosts'])), 'host')}"
    )
    states = found.get("hosts_by_state")
    if isinstance(states, Mapping) and states:
        yield "active hosts: " + ", ".join(f"{count:,} {state}" for state, count in states.items())
    fetching = found.get("fetching")
    for one in fetching[:FETCHING_SHOWN] if isinstance(fetching, list) else ():
        yield f"  fetching {plain(str(one['url']))} for {format_duration(_number(one['since_s']))}"


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
