"""`courtly crawl`: crawl from seeds into a database, or resume."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from crawler.cli import process
from crawler.cli.exit_codes import INTERRUPTED
from crawler.cli.fail_on import KINDS, fail
from crawler.cli.options import (
    Choice,
    DatabaseOptions,
    allow_option,
    database_options,
    user_agent_option,
    with_options,
)
from crawler.cli.text import echo, say
from crawler.cli.worker_options import check_shared, numbered, supervise, worker_options
from crawler.explain.formatting import json_printable

if TYPE_CHECKING:
    from crawler.cli.progress import Display
    from crawler.cli.signals import CrawlSignals
    from crawler.config import Config
    from crawler.daemon.supervised import SupervisorChannel, WorkerNumber
    from crawler.events import Summary

# The section of the config that each option overrides; the keys have the names of the options.
_SECTIONS: Final[Mapping[str, str]] = {
    "follow": "scope",
    "max_pages": "crawl",
    "max_depth": "crawl",
    "max_time": "crawl",
    "max_bytes": "crawl",
    "max_errors": "crawl",
    "delay": "politeness",
    "dialect": "robots",
    "check_external": "scope",
    "requisites": "scope",
}
# Of a check: a host that cannot be connected to is its result, and not one to try for days.
_UNREACHABLE_FOR: Final = "30s"


def _count(_context: click.Context, option: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return int(text) if text.strip().lower() != "inf" else float("inf")
    except ValueError:
        name = option.opts[0]
        raise click.UsageError(f'{name}: must be a whole number or inf, not "{text}"') from None


@click.command(
    short_help="Crawl from seeds into a database, or resume a crawl.",
    epilog="Exit codes: 0 finished, 1 failure at run time, 2 bad usage or config, 3 URLs "
    "that `--fail-on` names, 130 interrupted and stopped cleanly.",
)
@click.argument("seeds", nargs=-1, metavar="[SEED]...")
@database_options
@user_agent_option
@click.option(
    "--follow",
    type=Choice(["host", "domain", "any"]),
    help="Follow links to the hosts or domains of the seeds, or anywhere.  "
    "[default: the config's, else host]",
)
@click.option(
    "--max-pages",
    metavar="N",
    callback=_count,
    help="Stop after N pages.  [default: the config's, else no limit]",
)
@click.option(
    "--max-depth",
    metavar="N",
    callback=_count,
    help="Follow links at most N hops from a seed.  [default: the config's, else no limit]",
)
@click.option(
    "--max-time",
    metavar="T",
    help='Stop after this time, in seconds, or with a unit: "90m"; URLs stay queued.  '
    "[default: the config's, else no limit]",
)
@click.option(
    "--max-bytes",
    metavar="N",
    help='Stop after pages of N bytes, or with a unit: "1GB".  '
    "[default: the config's, else no limit]",
)
@click.option(
    "--max-errors",
    metavar="N",
    callback=_count,
    help="Stop after N URLs have failed.  [default: the config's, else no limit]",
)
@click.option(
    "--delay",
    metavar="S",
    help='Minimum delay between requests to a host, in seconds, or with a unit: "250ms".  '
    "[default: the config's, else 1]",
)
@click.option(
    "--dialect",
    multiple=True,
    metavar="D",
    help="Dialect in which robots.txt is read. Can be repeated: the strictest verdict counts.  "
    "[default: the config's, else slurp]",
)
@click.option(
    "--check-external",
    is_flag=True,
    default=None,
    help="Request each link out of scope once, without following it, for `courtly report broken`.",
)
@click.option(
    "--requisites",
    is_flag=True,
    default=None,
    help="Fetch the images, styles, scripts, fonts and media of pages, on any host.",
)
@allow_option
@worker_options
@click.option(
    "--fail-on",
    type=Choice(KINDS),
    multiple=True,
    help="Exit with code 3 if the database contains such URLs at the end: broken (as in `courtly "
    "report broken`), failed, blocked by robots.txt, or queued. Can be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object on stdout.")
@click.option("--quiet", is_flag=True, help="Show no progress and no warnings.")
def crawl(
    seeds: tuple[str, ...],
    database: DatabaseOptions,
    workers: int,
    worker: WorkerNumber | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Crawl politely from SEEDs into a database. A SEED is an absolute URL, @FILE with one URL
    per line, or @- for such lines on standard input.

    Exits when no URL can make progress. Run it again with the same database to resume; then no SEED
    is needed. On Ctrl-C, SIGTERM or a closed terminal, it finishes the requests in flight and
    exits; a second Ctrl-C exits immediately.
    """
    with process.loading():
        config = _config(database, options, worker)
    if workers > 1:
        check_shared(config, workers)
        if not {"-", "@-"}.isdisjoint(seeds):
            raise click.UsageError(
                "--workers: seeds on standard input need a single process; name a file of seeds"
            )
    if workers > 1 and worker is None:
        raise SystemExit(supervise(workers, runs_forever=False))
    leads = worker is None or worker.leads
    crawler = _Crawl(
        config=config, database=database, options=options, worker=worker, quiet=quiet or not leads
    )
    summary = crawler.run(seeds if leads else ())
    if leads:
        crawler.print_summary(summary, as_json=as_json)
    if summary.interrupted:
        raise SystemExit(INTERRUPTED)
    if leads and options["fail_on"]:
        fail(options["fail_on"], summary, config.storage.location, options=str(database))


def _config(
    database: DatabaseOptions, options: Mapping[str, Any], worker: WorkerNumber | None
) -> Config:
    """The config, with the options of the command line taking precedence. Raises ConfigError."""
    config = with_options(
        database.config(), user_agent=options["user_agent"], allow=options["allow"]
    )
    for key, section in _SECTIONS.items():
        if options[key] not in (None, ()):
            where = f"--{key.replace('_', '-')}"
            config = config.override({section: {key: options[key]}}, where=where)
    given = config.given.values
    checks = config.checks_external or options["fail_on"]
    if checks and "unreachable_for_s" not in given.get("fetch", {}):
        config = config.override({"fetch": {"unreachable_for": _UNREACHABLE_FOR}})
    if config.checks_external and "links" not in given.get("storage", {}):
        config = config.override({"storage": {"links": True}})
    return numbered(config, worker)


@dataclass(slots=True, kw_only=True)
class _Crawl:
    """A crawl with progress on standard error and a summary on standard output."""

    config: Config
    database: DatabaseOptions
    options: Mapping[str, Any]
    worker: WorkerNumber | None
    quiet: bool

    def run(self, seeds: Sequence[str]) -> Summary:
        """Raises what `crawler.app.crawl` raises, and ConfigError for invalid seeds."""
        from crawler.config import check_identity, seeds_of
        from crawler.output import nonblocking_output
        from storage.location import FileLocation

        leads = self.worker is None or self.worker.leads
        urls = seeds_of(self.config, seeds, stdin=True) if leads else []  # which have been queued
        check_identity(self.config, urls)
        location = self.config.storage.location
        if not urls and isinstance(location, FileLocation) and not location.path.exists():
            raise click.UsageError(
                "there is nothing to crawl: give a seed such as https://example.com/, "
                f"or a database to resume from ({location} does not exist)"
            )
        with nonblocking_output("stderr"):
            self.config = process.fit_open_files(self.config, quiet=self.quiet)
            if not self.quiet:
                for warning in self.config.warnings:
                    say(f"warning: {warning}", err=True)

        with process.loading():  # slow imports, after everything that can be refused
            import asyncio

            from crawler import (
                app,  # noqa: F401
                crawl_socket,  # noqa: F401
            )
            from crawler.cli import crawl_summary  # noqa: F401
            from crawler.cli.progress import display

            loop_factory = process.loop_factory()

        process.tune()
        with (
            nonblocking_output(),
            display(quiet=self.quiet) as shown,
            asyncio.Runner(loop_factory=loop_factory) as runner,
        ):
            try:
                return runner.run(self._work(urls, shown))
            except asyncio.CancelledError:  # by a signal, before the crawl started
                raise SystemExit(INTERRUPTED) from None

    async def _work(self, seeds: Sequence[str], display: Display) -> Summary:
        import asyncio

        from crawler import app
        from crawler.cli.signals import CrawlSignals
        from crawler.clock import RealClock
        from crawler.crawl_socket import local_socket
        from crawler.daemon.monitoring.monitor import Monitor
        from crawler.daemon.supervised import SupervisorChannel

        stop, exit_now = asyncio.Event(), asyncio.Event()
        monitor = Monitor(RealClock())
        signals = CrawlSignals(stop, exit_now, display, starting=asyncio.current_task())
        channel = None if self.worker is None else SupervisorChannel()
        leads = self.worker is None or self.worker.leads

        def alongside(opened: app.OpenCrawl) -> AbstractAsyncContextManager[None]:
            signals.started()
            if channel is not None:
                channel.ready()
            return local_socket(opened, monitor, lambda text: display.say(f"warning: {text}"))

        with signals, self._obeying(channel, signals):
            return await app.crawl(
                self.config,
                seeds=seeds,
                observe=None if self.quiet else display.observe,
                stop=stop,
                exit_now=exit_now,
                source=self if self.database.config_file else None,
                observers=monitor.observers,
                alongside=alongside,
                others_ended=channel.others_ended if channel and leads else None,
            )

    def _obeying(
        self, channel: SupervisorChannel | None, signals: CrawlSignals
    ) -> AbstractContextManager[None]:
        from crawler.daemon.supervised import EXIT, STOP

        if channel is None:
            return contextlib.nullcontext()
        return channel.obeying({STOP: signals.stop, EXIT: signals.exit_now})

    def reload(self) -> Config:
        """Read the config file again. Raises ConfigError."""
        from crawler.config.reload import check_rereadable

        assert self.database.config_file is not None
        check_rereadable([self.database.config_file])
        config = _config(self.database, self.options, self.worker)
        return process.fit_open_files(config, quiet=True)

    def print_summary(self, summary: Summary, *, as_json: bool) -> None:
        from crawler.cli import crawl_summary
        from crawler.output import nonblocking_output

        # Do not block on a reader after an interruption: the user is waiting for the exit.
        with nonblocking_output("stderr", *(["stdout"] if summary.interrupted else [])):
            if not (as_json and self.quiet):
                say(crawl_summary.as_text(summary, options=str(self.database)), err=as_json)
            if as_json:
                echo(json_printable(crawl_summary.as_json(summary)))
