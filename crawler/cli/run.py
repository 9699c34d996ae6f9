"""`courtly run`: the crawl as a service, watched and steered from a browser."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler.cli import interpreter
from crawler.cli.errors import INTERRUPTED
from crawler.cli.open_files import fitted
from crawler.cli.text import echo, say

if TYPE_CHECKING:
    from crawler.config import Config


@click.command(
    short_help="Crawl as a service, with a web page and an HTTP API.",
    epilog="SIGTERM finishes what is in flight and ends with exit code 0; a second one leaves at "
    "once. SIGHUP reads CONFIG again. Exit codes: 0 stopped cleanly, 1 a run-time failure, 2 bad "
    "usage or config, 130 left at once.",
)
@click.argument("config_file", metavar="CONFIG", type=click.Path(path_type=Path))
def run(config_file: Path) -> None:
    """Crawl as CONFIG says, and go on when nothing is left: new seeds come over the HTTP API, the
    web page or `courtly seeds add`.

    The page and the API are on [daemon] listen; docs/daemon.md describes them. The log is JSON
    lines on standard error, or in the file that [daemon] log names.
    """
    _hear_signals()
    from crawler.config import check_identity, load, seeds_of
    from crawler.output import nonblocking_output

    config = load(config_file)
    check_identity(config, seeds_of(config))
    with nonblocking_output("stderr"):
        config = fitted(config)
        if config.daemon.log is not None:  # else standard error is the log, which has them too
            for warning in config.warnings:
                say(f"warning: {warning}", err=True)

    def read_again() -> Config:
        from crawler.config.reload import check_rereadable

        check_rereadable([config_file])
        return fitted(load(config_file), quiet=True)

    with interpreter.loading():
        import asyncio

        from crawler.daemon import life  # heavy

    interpreter.settle()
    try:
        with (
            nonblocking_output(),
            asyncio.Runner(loop_factory=interpreter.loop_factory()) as runner,
        ):
            clean = runner.run(life.run(config, reread=read_again, told=_tell))
    except life.ListenError as error:
        raise click.exceptions.ClickException(str(error)) from None
    finally:
        _hear_signals()
    if not clean:
        raise SystemExit(INTERRUPTED)


def _hear_signals() -> None:
    """Before the daemon takes them over, and after it: told to end, it has ended cleanly, and there
    is no config to be read again."""
    with contextlib.suppress(ValueError):  # not the main thread: a test's
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _tell(sentence: str) -> None:
    """To whoever started it."""
    echo(sentence)
