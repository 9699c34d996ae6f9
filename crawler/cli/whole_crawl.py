"""`courtly pause`, `courtly resume` and `courtly reload`: commands for the whole crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from crawler.cli import running_crawl
from crawler.cli.exit_codes import MISUSED, print_problems
from crawler.cli.options import DatabaseOptions, database_options, dry_run_option
from crawler.cli.text import echo_json, say
from crawler.explain.formatting import counted, plain

if TYPE_CHECKING:
    from crawler.operator_commands import Reloaded

_RESTART = "takes effect after a restart"


@click.command(short_help="Pause the whole crawl.")
@dry_run_option
@database_options
def pause(dry_run: bool, database: DatabaseOptions) -> None:
    """Pause the whole crawl until `courtly resume`: no request is sent to any host, not even for
    robots.txt; requests in flight finish. The pause is stored in the database. If no crawl is
    running, `courtly run` starts paused, and `courtly crawl` resumes."""
    from crawler.operator_commands import PauseCrawl

    done = running_crawl.carry_out(database.existing(), PauseCrawl(dry_run=dry_run))
    changed = done.result.changed
    if dry_run:
        say(f"the crawl {'would be' if changed else 'is already'} paused")
        return
    if done.answered:
        paused = "is paused; requests in flight finish. `courtly resume` continues it"
        say(f"the crawl {paused if changed else 'was already paused'}")
        return
    workers = f"{counted(done.workers, 'worker')} of the database will stop within a second or two"
    obeyed = (
        workers if done.workers else "no crawl is running; the next `courtly run` starts paused"
    )
    say(f"the crawl {'is' if changed else 'was already'} paused: {obeyed}")


@click.command(short_help="Resume the whole crawl.")
@dry_run_option
@database_options
def resume(dry_run: bool, database: DatabaseOptions) -> None:
    """Resume the whole crawl after `courtly pause`. Hosts that were paused individually stay
    paused."""
    from crawler.operator_commands import ResumeCrawl

    done = running_crawl.carry_out(database.existing(), ResumeCrawl(dry_run=dry_run))
    changed = done.result.changed
    if dry_run:
        say(f"the crawl {'would be resumed' if changed else 'is not paused'}")
        return
    if done.answered:
        say(f"the crawl {'is resumed' if changed else 'was not paused'}; it is {done.result.state}")
        return
    workers = f"{counted(done.workers, 'worker')} of the database will continue within seconds"
    nobody = "no crawl is running; the next one sends requests from its start"
    obeyed = workers if done.workers else nobody
    say(f"the crawl {'is no longer' if changed else 'was not'} paused: {obeyed}")


@click.command(short_help="Reload the config of the running crawl.")
@database_options
@dry_run_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def reload(database: DatabaseOptions, dry_run: bool, as_json: bool) -> None:
    """Have the running crawl read its config file again, and apply it. If the file has an error,
    nothing changes; the errors are printed, and the exit code is 2.

    The running crawl reads the file it was started with; --config and --db only name its
    database."""
    from crawler.daemon.problem import Problem
    from crawler.operator_commands import Reload

    try:
        done = running_crawl.executed(database.existing(), Reload(dry_run=dry_run))
    except Problem as problem:
        problems = problem.problems or (problem.detail,)
        print_problems(*map(plain, problems))
        if problem.status < 500:
            print_problems("the config was not reloaded, and nothing was changed")
        raise SystemExit(MISUSED if problem.status < 500 else 1) from None
    if not done.answered:
        say(
            f"{counted(done.workers, 'worker')} will read their config files again, each its own; "
            "their logs name the errors"
        )
    elif as_json:
        import msgspec

        echo_json(msgspec.to_builtins(done.result))
    else:
        _print_reload(done.result)


def _print_reload(done: Reloaded) -> None:
    dry_run = done.dry_run
    if done.changes:
        say("the config is valid; a reload would change:" if dry_run else "reloaded; changed:")
    else:
        say("nothing would change" if dry_run else "reloaded; nothing has changed")
    for line in map(plain, done.changes):
        say(f"  {line}", hang=4)
    for line in map(plain, done.restart):
        say(f"  {line} ({_RESTART})", hang=4)
    for line in map(plain, done.warnings):
        print_problems(f"warning: {line}")
