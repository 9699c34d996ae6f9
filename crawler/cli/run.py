"""`courtly run`: the crawl as a service with a web page and an HTTP API."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler.cli import process
from crawler.cli.exit_codes import INTERRUPTED
from crawler.cli.text import echo, say
from crawler.cli.worker_options import check_shared, numbered, supervise, worker_options

if TYPE_CHECKING:
    from crawler.config import Config
    from crawler.daemon.supervised import WorkerNumber


@click.command(
    short_help="Crawl as a service, with a web page and an HTTP API.",
    epilog="SIGTERM finishes the requests in flight and exits with code 0; a second SIGTERM exits "
    "immediately. SIGHUP reloads CONFIG. Exit codes: 0 stopped cleanly, 1 failure at run time, "
    "2 bad usage or config, 130 exited immediately.",
)
@click.argument("config_file", metavar="CONFIG", type=click.Path(path_type=Path))
@worker_options
def run(config_file: Path, workers: int, worker: WorkerNumber | None) -> None:
    """Crawl as configured in CONFIG, and keep running when the queue is empty. Add new seeds
    through the HTTP API, the web page or `courtly seeds add`.

    The web page and the API listen on [daemon] listen; see docs/daemon.md. The log is written in
    JSON lines to standard error, or to the file in [daemon] log.
    """
    _set_signal_handlers()
    from crawler.config import check_identity, load, seeds_of
    from crawler.output import nonblocking_output

    config = numbered(load(config_file), worker)
    if workers > 1:
        check_shared(config, workers)
    if workers > 1 and worker is None:
        log = config.daemon.log is None
        raise SystemExit(supervise(workers, runs_forever=True, log=log))
    check_identity(config, seeds_of(config))
    with nonblocking_output("stderr"):
        config = process.fit_open_files(config)
        leads = worker is None or worker.leads
        if leads and config.daemon.log is not None:  # otherwise the log contains them
            for warning in config.warnings:
                say(f"warning: {warning}", err=True)

    with process.loading():
        import asyncio

        from crawler import daemon_process as daemon  # slow to import
        from crawler.daemon.listener import ListenError

    process.tune()
    try:
        with (
            nonblocking_output(),
            asyncio.Runner(loop_factory=process.loop_factory()) as runner,
        ):
            source = _ConfigFile(config_file, worker)
            clean = runner.run(daemon.run(config, source=source, announce=echo, worker=worker))
    except ListenError as error:
        raise click.exceptions.ClickException(str(error)) from None
    finally:
        _set_signal_handlers()
    if not clean:
        raise SystemExit(INTERRUPTED)


@dataclass(frozen=True, slots=True)
class _ConfigFile:
    """The config file of the daemon, as the source of reloads."""

    path: Path
    worker: WorkerNumber | None

    def reload(self) -> Config:
        from crawler.config import load
        from crawler.config.reload import check_rereadable

        check_rereadable([self.path])
        return process.fit_open_files(numbered(load(self.path), self.worker), quiet=True)


def _set_signal_handlers() -> None:
    """Handle signals before the daemon takes over and after it has stopped: SIGTERM exits cleanly,
    and SIGHUP is ignored because there is nothing to reload."""
    with contextlib.suppress(ValueError):  # not the main thread, as in tests
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
