"""`courtly pause`, `courtly resume` and `courtly reload`: commands for the whole crawl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from crawler.cli import process, running_crawl
from crawler.cli.exit_codes import MISUSED, print_problems
from crawler.cli.options import DatabaseOptions, database_options
from crawler.cli.text import echo_json, say
from crawler.explain.formatting import counted, plain

if TYPE_CHECKING:
    from storage.location import Location

_RESTART = "takes effect after a restart"


@click.command(short_help="Pause the whole crawl.")
@database_options
def pause(database: DatabaseOptions) -> None:
    """Pause the whole crawl until `courtly resume`: no request is sent to any host, not even for
    robots.txt; requests in flight finish. The pause is stored in the database. If no crawl is
    running, `courtly run` starts paused, and `courtly crawl` resumes."""
    location = database.location()
    if (before := _state(location)) is None:
        changed, workers = process.run(_set_paused(location, paused=True))
        if workers:
            obeyed = (
                f"{counted(workers, 'worker')} of the database will stop within a second or two"
            )
        else:
            obeyed = "no crawl is running; the next `courtly run` starts paused"
        say(f"the crawl {'is' if changed else 'was already'} paused: {obeyed}")
        return
    running_crawl.ask(location, "POST", "/api/pause")
    if before == "paused":
        say("the crawl was already paused")
    else:
        say("the crawl is paused; requests in flight finish. `courtly resume` continues it")


@click.command(short_help="Resume the whole crawl.")
@database_options
def resume(database: DatabaseOptions) -> None:
    """Resume the whole crawl after `courtly pause`. Hosts that were paused individually stay
    paused."""
    location = database.location()
    if (before := _state(location)) is None:
        changed, workers = process.run(_set_paused(location, paused=False))
        if workers:
            obeyed = f"{counted(workers, 'worker')} of the database will continue within seconds"
        else:
            obeyed = "no crawl is running; the next one sends requests from its start"
        say(f"the crawl {'is no longer' if changed else 'was not'} paused: {obeyed}")
        return
    answer = running_crawl.ask(location, "POST", "/api/resume") or {}
    if before != "paused":
        say(f"the crawl was not paused; it is {before}")
    else:
        say(f"the crawl is resumed; it is {plain(str(answer.get('state', 'running')))}")


@click.command(short_help="Reload the config of the running crawl.")
@database_options
@click.option("--dry-run", is_flag=True, help="Only print what would change.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def reload(database: DatabaseOptions, dry_run: bool, as_json: bool) -> None:
    """Have the running crawl read its config file again, and apply it. If the file has an error,
    nothing changes; the errors are printed, and the exit code is 2.

    The running crawl reads the file it was started with; --config and --db only name its
    database."""
    from crawler.daemon.problem import Problem

    location = database.location()
    route = "/api/reload" + ("?dry_run=1" if dry_run else "")
    try:
        answer = running_crawl.request(location, "POST", route)
    except Problem as problem:
        problems = problem.problems or (problem.detail,)
        print_problems(*map(plain, problems))
        if problem.status < 500:
            print_problems("the config was not reloaded, and nothing was changed")
        raise SystemExit(MISUSED if problem.status < 500 else 1) from None
    if answer is None:
        _reload_workers(location, dry_run=dry_run)
        return
    if as_json:
        echo_json(answer)
        return
    _print_reload(answer, dry_run=dry_run)


def _print_reload(answer: Mapping[str, object], *, dry_run: bool) -> None:
    changes, restart, warnings = (
        [plain(str(one)) for one in found] if isinstance(found, list) else []
        for found in (answer.get(key) for key in ("changes", "restart", "warnings"))
    )
    if changes:
        say("the config is valid; a reload would change:" if dry_run else "reloaded; changed:")
    else:
        say("nothing would change" if dry_run else "reloaded; nothing has changed")
    for line in changes:
        say(f"  {line}", hang=4)
    for line in restart:
        say(f"  {line} ({_RESTART})", hang=4)
    for line in warnings:
        print_problems(f"warning: {line}")


def _reload_workers(location: Location, *, dry_run: bool) -> None:
    """Reload without a socket: where workers share a database. Raises UsageError."""
    workers = process.run(_workers(location))
    if not workers:
        raise click.UsageError(
            f"no crawl is running on {location}, or it has no socket: there is nothing to reload"
        )
    if dry_run:
        raise click.UsageError(
            "--dry-run: the workers of a shared database do not answer; use the page, or POST "
            "/api/reload?dry_run=1"
        )
    from crawler.offline_control import reload_workers

    process.run(reload_workers(location))
    say(
        f"{counted(workers, 'worker')} will read their config files again, each its own; their "
        "logs name the errors"
    )


def _state(location: Location) -> str | None:
    """The state of the running crawl; None if none answers."""
    found = running_crawl.ask(location, "GET", "/api/status")
    return None if found is None else plain(str(found["state"]))


async def _workers(location: Location) -> int:
    """How many workers share the database."""
    from crawler.databases import looking_into

    async with looking_into(location) as reader:
        return len(await reader.workers())


async def _set_paused(location: Location, *, paused: bool) -> tuple[bool, int]:
    """Return whether that changed anything, and how many workers run on the database."""
    from crawler.offline_control import set_paused

    workers = await _workers(location)
    return await set_paused(location, paused=paused), workers
