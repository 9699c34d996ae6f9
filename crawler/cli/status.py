"""`courtly status`: show what the crawl of a database is doing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import click

from crawler.cli import process, running_crawl
from crawler.cli.options import DatabaseOptions, database_options
from crawler.cli.standard_streams import require_stdout
from crawler.cli.text import echo_json, say
from crawler.explain.formatting import at, counted, plain
from storage.row_values import number

if TYPE_CHECKING:
    from storage.location import Location

FETCHING_SHOWN = 5
STOPPED = "stopped"  # the state if no crawl is running
SILENT_S = 5.0  # a worker reports about once a second


@click.command(short_help="Show what the crawl of a database is doing.")
@database_options
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object, as in GET /api/status."
)
@click.option("--watch", "watches", is_flag=True, help="Repeat until Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    metavar="S",
    help="Seconds between repetitions, with --watch.",
)
def status(database: DatabaseOptions, as_json: bool, watches: bool, interval: float) -> None:
    """Show what the crawl of a database is doing. If none is running, show the state in which the
    last one left the database. With PostgreSQL, show what each worker last reported.

    With --watch, a terminal shows it in place; elsewhere, each repetition is appended (with --json,
    as a line). It outlasts restarts of the crawl, and says for how long contact has been lost."""
    require_stdout()
    location = database.location()
    if watches:
        from crawler.cli.status_watch import watch

        watch(lambda: _now(location), _lines, every_s=interval, as_json=as_json)
    found, _ = _now(location)
    if as_json:
        echo_json(found)
        return
    for line in _lines(found):
        say(line)


def _now(location: Location) -> tuple[Mapping[str, object], bool]:
    """The status, and whether a running crawl gave it."""
    answer = running_crawl.ask(location, "GET", "/api/status")
    if answer is not None:
        return answer, True
    stored = process.run(_stored(location))
    return stored, stored["state"] != STOPPED


async def _stored(database: Location) -> Mapping[str, object]:
    """The status according to the database; `workers` are the live ones of a shared one."""
    from msgspec import to_builtins

    from crawler.databases import looking_into
    from crawler.steering.queue_waits import QueueReason, queue_waits
    from storage.location import FileLocation

    async with looking_into(database) as reader:
        stats = await reader.stats()
        workers = await reader.workers()
        paused = await reader.paused()
        rows = await reader.queue_waits(time.time())
    overall = QueueReason.CRAWL_PAUSED if paused else None
    holds = queue_waits(rows, {}, overall=overall, pages_per_s=0.0, now_s=time.time())
    state = STOPPED
    if workers:
        state = "paused" if paused else "running"
        for name in ("held", "idle"):
            if not paused and all(one[name] for one in workers):
                state = name
    began_at = [number(one["began_at"]) for one in workers]
    heard_of = [one for one in workers if number(one["seen_s"]) < SILENT_S]
    return {
        "state": state,
        "starts_paused": paused and not workers,
        "held": _holds(workers),
        "visited": stats.visited,
        "blocked": stats.blocked,
        "failed": stats.failed,
        "queued": stats.queued,
        "hosts": stats.hosts,
        "bytes": stats.body_bytes,
        "in_flight": sum(number(one["in_flight"]) for one in heard_of),
        "pages_per_s": sum(number(one["pages_per_s"]) for one in heard_of),
        "bytes_per_s": 0.0,
        "uptime_s": max(0.0, time.time() - min(began_at)) if began_at else 0.0,
        "queue": to_builtins(holds),
        "database_returns": stats.returns,
        "database_returned_at": stats.returned_at,
        **({} if isinstance(database, FileLocation) else {"workers": workers}),
    }


def _holds(workers: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """What holds any of the workers, as each last reported; one entry for each reason."""
    found: dict[object, Mapping[str, object]] = {}
    for one in workers:
        for hold in cast("list[Mapping[str, object]]", one["held"]):
            known = found.setdefault(hold["reason"], hold)
            if number(hold["since"]) < number(known["since"]):
                found[hold["reason"]] = hold
    return sorted(found.values(), key=lambda hold: number(hold["since"]))


def _lines(found: Mapping[str, object]) -> Iterator[str]:
    from crawler.config.units import format_bytes, format_duration
    from crawler.explain.sentences import returns_sentence
    from crawler.steering.live_state import HOST_WORDS

    workers = found.get("workers")
    if found["state"] == STOPPED:
        socket = ", or it has no socket" if workers is None else ""
        yield f"no crawl is running on this database{socket}"
        if found.get("starts_paused"):
            yield (
                "the crawl is paused: `courtly run` starts paused, `courtly crawl` and `courtly "
                "resume` end the pause"
            )
    else:
        yield (
            f"{found['state']}, up for {format_duration(number(found['uptime_s']))}, "
            f"{number(found['pages_per_s']):,.1f} pages/s, "
            f"{counted(int(number(found['in_flight'])), 'request')} in flight"
        )
    for one in workers if isinstance(workers, list) else ():
        yield _worker(one)
    yield from _troubles(found.get("health"))
    if returns := int(number(found.get("database_returns"))):
        yield returns_sentence(returns, number(found.get("database_returned_at")))
    held = found.get("held")
    for hold in held if isinstance(held, list) else ():
        yield f"held since {at(hold['since'])}: {plain(str(hold['sentence']))}"
    yield (
        f"{number(found['visited']):,.0f} visited ({format_bytes(number(found['bytes']))}), "
        f"{number(found['blocked']):,.0f} blocked, {number(found['failed']):,.0f} failed, "
        f"{number(found['queued']):,.0f} queued, "
        f"on {counted(int(number(found['hosts'])), 'host')}"
    )
    queue = found.get("queue")
    for one in queue if isinstance(queue, list | tuple) else ():
        yield _queue_line(one)
    states = found.get("hosts_by_state")
    if isinstance(states, Mapping) and states:
        yield "active hosts: " + ", ".join(
            f"{count:,} {HOST_WORDS.get(state, plain(str(state)))}"
            for state, count in states.items()
        )
    fetching = found.get("fetching")
    for one in fetching[:FETCHING_SHOWN] if isinstance(fetching, list) else ():
        yield f"  fetching {plain(str(one['url']))} for {format_duration(number(one['since_s']))}"


def _queue_line(hold: Mapping[str, object]) -> str:
    """What some of the queued URLs wait for."""
    until = hold["last_at"]
    through = hold["through_at"]
    times = f", until {at(until)}" if isinstance(until, float) and until > time.time() else ""
    times += f", through {at(through)} at the earliest" if through else ""
    return (
        f"  {number(hold['urls']):,.0f} queued on {counted(int(number(hold['hosts'])), 'host')}: "
        f"{hold['sentence']}{times}"
    )


def _troubles(health: object) -> Iterator[str]:
    """The checks that are not ok, the worst first."""
    checks = health["checks"] if isinstance(health, Mapping) else ()
    for state in ("bad", "warning"):
        for one in checks:
            if one["state"] == state:
                yield f"{state}: {plain(str(one['check']))}: {plain(str(one['sentence']))}"


def _worker(row: Mapping[str, object]) -> str:
    """What a worker last reported, in a line."""
    from crawler.config.units import format_duration

    seen_s = number(row["seen_s"])
    silent = "" if seen_s < SILENT_S else f", not heard of for {format_duration(seen_s)}"
    return (
        f"  worker {row['id']} ({plain(str(row['name']))}), process {row['pid']} on "
        f"{plain(str(row['host']))}: {counted(int(number(row['hosts'])), 'host')}, "
        f"{number(row['pages_per_s']):,.1f} pages/s{', idle' if row['idle'] else ''}"
        f"{', held' if row.get('held') else ''}{silent}"
    )
