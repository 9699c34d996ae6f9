"""`courtly crawl`: from seeds to a finished database, and on from there when run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler.cli import interpreter
from crawler.cli.errors import INTERRUPTED
from crawler.cli.interpreter import loading
from crawler.cli.open_files import fitted
from crawler.cli.options import (
    Choice,
    as_given,
    config_option,
    configured,
    db_option,
    user_agent_option,
)
from crawler.cli.text import echo, say
from crawler.telling.words import json_printable

if TYPE_CHECKING:
    from crawler.config import Config
    from crawler.events import Summary


@click.command(
    short_help="Crawl from seeds into a database, or go on with one.",
    epilog="Exit codes: 0 finished, 1 a run-time failure, 2 bad usage or config, 130 interrupted "
    "after a clean stop.",
)
@click.argument("seeds", nargs=-1, metavar="[SEED]...")
@config_option
@db_option
@user_agent_option
@click.option(
    "--follow",
    type=Choice(["host", "domain", "any"]),
    help="Which links to follow, relative to the seeds.  [default: the config's, else host]",
)
@click.option(
    "--max-pages",
    metavar="N",
    help="Visit so many pages in this run.  [default: the config's, else no limit]",
)
@click.option(
    "--max-depth",
    metavar="N",
    help="Go so many links from a seed.  [default: the config's, else no limit]",
)
@click.option(
    "--delay",
    metavar="S",
    help='The least rest after a contact with a host: seconds, or "250ms".  '
    "[default: the config's, else 1]",
)
@click.option(
    "--dialect",
    multiple=True,
    metavar="D",
    help="How robots.txt is read. Can be repeated: the strictest counts.  "
    "[default: the config's, else slurp]",
)
@click.option(
    "--allow",
    multiple=True,
    metavar="RANGE",
    help="Private addresses that may be connected to, such as 127.0.0.0/8, besides the config's. "
    "Can be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object on stdout.")
@click.option("--quiet", is_flag=True, help="Show no progress and no warnings.")
def crawl(
    seeds: tuple[str, ...],
    config_file: Path | None,
    db: str | None,
    user_agent: str | None,
    follow: str | None,
    max_pages: str | None,
    max_depth: str | None,
    delay: str | None,
    dialect: tuple[str, ...],
    allow: tuple[str, ...],
    as_json: bool,
    quiet: bool,
) -> None:
    """Crawl from SEEDs, absolute URLs or @FILE with one a line, politely, into a database.

    Ends when nothing can move any more. Run again on the same database, it goes on where it was:
    then no SEED is needed. A stop (Ctrl-C, SIGTERM, a closed terminal) finishes what is in
    flight; a second Ctrl-C leaves at once.
    """

    def read() -> Config:
        """Also while it runs: what the command line says stays above what the file says."""
        config = configured(config_file, db)
        for option, section, key, value in (
            ("--user-agent", "crawl", "user_agent", user_agent),
            ("--follow", "scope", "follow", follow),
            ("--max-pages", "crawl", "max_pages", _count("--max-pages", max_pages)),
            ("--max-depth", "crawl", "max_depth", _count("--max-depth", max_depth)),
            ("--delay", "politeness", "delay", delay),
            ("--dialect", "robots", "dialect", dialect or None),
            ("--allow", "network", "allow", (*config.network.allow, *allow) if allow else None),
        ):
            if value is not None:
                config = config.override({section: {key: value}}, where=option)
        return config

    def read_again() -> Config:
        from crawler.config.reload import check_rereadable

        check_rereadable([config_file] if config_file else [])
        return read()

    again = as_given(config_file, db)
    with loading():
        config = read()
    summary = run(
        config,
        seeds,
        quiet=quiet,
        as_json=as_json,
        again=again,
        reread=read_again if config_file else None,
    )
    if summary.interrupted:
        raise SystemExit(INTERRUPTED)


def _count(option: str, text: str | None) -> float | None:
    """A count of the command line as the config has it: a whole number or inf."""
    if text is None:
        return None
    try:
        return int(text) if text.strip().lower() != "inf" else float("inf")
    except ValueError:
        raise click.UsageError(f'{option}: must be a whole number or inf, not "{text}"') from None


def run(
    config: Config,
    seeds: Sequence[str],
    *,
    quiet: bool = False,
    as_json: bool = False,
    again: str = "",
    reread: Callable[[], Config] | None = None,
) -> Summary:
    """Crawl with progress on stderr and the summary on stdout, whose hints name the database and
    the config as the options `again` do. `reread` gives the config anew, for a reload.

    Raises what `crawler.app.crawl` does, and ConfigError for seeds that are none.
    """
    from crawler.config import check_identity, seeds_of

    urls = seeds_of(config, seeds)
    check_identity(config, urls)
    if not urls and not config.storage.path.exists():
        raise click.UsageError(
            "there is nothing to crawl: give a seed such as https://example.com/, "
            f"or a database to go on with ({config.storage.path} does not exist)"
        )
    from crawler.output import nonblocking_output

    with nonblocking_output("stderr"):
        config = fitted(config, quiet=quiet)
        if not quiet:
            for warning in config.warnings:
                say(f"warning: {warning}", err=True)

    with loading():  # after all that can be refused: it is heavy
        import asyncio

        from crawler import app
        from crawler.cli import summary as words
        from crawler.cli.display import display
        from crawler.cli.signals import Signals
        from crawler.clock import RealClock
        from crawler.daemon.beside import local_socket
        from crawler.daemon.watching.watch import Watchers

        loop_factory = interpreter.loop_factory()

    interpreter.settle()
    with nonblocking_output(), display(quiet=quiet) as shown:

        async def work() -> Summary:
            stop, leave = asyncio.Event(), asyncio.Event()
            watchers = Watchers(RealClock())

            signals = Signals(stop, leave, shown.say, starting=asyncio.current_task())

            def beside(life: app.Life) -> AbstractAsyncContextManager[None]:
                signals.started()
                return local_socket(life, watchers, lambda text: shown.say(f"warning: {text}"))

            with signals:
                return await app.crawl(
                    config,
                    seeds=urls,
                    observe=None if quiet else shown.observe,
                    stop=stop,
                    leave=leave,
                    reread=None if reread is None else lambda: fitted(reread(), quiet=True),
                    observers=watchers.observers,
                    beside=beside,
                )

        with asyncio.Runner(loop_factory=loop_factory) as runner:
            try:
                summary = runner.run(work())
            except asyncio.CancelledError:  # by a signal before the crawl had begun
                raise SystemExit(INTERRUPTED) from None
    # A summary waits for its reader, but not where somebody waits for the exit.
    with nonblocking_output("stderr", *(["stdout"] if summary.interrupted else [])):
        if as_json:
            if not quiet:
                say(words.as_text(summary, again=again), err=True)
            echo(json_printable(words.as_json(summary)))
        else:
            say(words.as_text(summary, again=again))
    return summary
