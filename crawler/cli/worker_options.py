"""The options --workers, and the hidden --worker that the supervisor gives its processes."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from crawler.cli.text import say

if TYPE_CHECKING:
    from crawler.config import Config
    from crawler.daemon.supervised import WorkerNumber

WORKERS_MAX: Final = 64  # of one command; more are started by several commands

_Command = Callable[..., object]


def worker_options(command: _Command) -> _Command:
    """Add --workers, and pass `workers` to the command, and as `worker` the number of this process
    if a supervisor started it."""

    @functools.wraps(command)
    def wrapper(workers: int, worker: int | None, **others: Any) -> object:
        from crawler.daemon.supervised import WorkerNumber

        number = None if worker is None else WorkerNumber(worker, workers)
        return command(workers=workers, worker=number, **others)

    hidden = click.option("--worker", type=click.IntRange(1, WORKERS_MAX), hidden=True)
    shown = click.option(
        "--workers",
        type=click.IntRange(1, WORKERS_MAX),
        default=1,
        metavar="N",
        help="Crawl with N processes; needs PostgreSQL.  [default: 1]",
    )
    return shown(hidden(wrapper))


def check_shared(config: Config, workers: int) -> None:
    """Check that several workers can share the crawl of a config. Raises UsageError and
    ConfigError."""
    from storage.location import FileLocation

    location = config.storage.location
    if isinstance(location, FileLocation):
        raise click.UsageError(
            f"--workers: only one process can write to the file {location}; several can share a "
            "PostgreSQL database: see docs/postgresql.md"
        )
    config.of_worker(1, workers)


def supervise(workers: int, *, runs_forever: bool, log: bool = False) -> int:
    """Run this command in several processes; return the exit code. log: standard error is a log in
    JSON lines."""
    import asyncio

    from crawler.cli.supervisor import Supervisor

    def pass_on(number: int, line: str) -> None:
        if log and line.startswith("{"):
            say(line, err=True)  # with the number in it
        elif log:
            event = {"level": "warning", "event": "warning", "worker": number, "message": line}
            say(json.dumps(event), err=True)
        else:
            say(f"worker {number}: {line}", err=True)

    supervisor = Supervisor(sys.argv, workers, runs_forever=runs_forever, say=pass_on)
    return asyncio.run(supervisor.run())


def numbered(config: Config, worker: WorkerNumber | None) -> Config:
    """The config of this process. Raises ConfigError."""
    return config.of_worker(worker.number, worker.workers) if worker is not None else config
