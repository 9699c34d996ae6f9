"""The process of `courtly run`: crawl, serve, handle signals and notify the service manager."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from crawler.app import OpenCrawl, open_crawl, plainest
from crawler.clock import RealClock
from crawler.config import Config, ConfigError, seeds_of
from crawler.config.sections import LogLevel
from crawler.daemon import unix_socket
from crawler.daemon.actor import acting, by_signal
from crawler.daemon.api.operations import Operations
from crawler.daemon.http.accounts import Account, accounts_of, read_tokens, token_file
from crawler.daemon.http.guards import HttpSettings
from crawler.daemon.listener import ListenError, listening_on
from crawler.daemon.monitoring.event_log import EventLog, LogFile, OutcomeLog
from crawler.daemon.monitoring.health_monitor import LivenessReporter
from crawler.daemon.monitoring.monitor import Monitor
from crawler.daemon.notify import Notify
from crawler.daemon.problem import Problem
from crawler.daemon.service import operations_of
from crawler.daemon.supervised import EXIT, RELOAD, STOP, SupervisorChannel, WorkerNumber
from crawler.daemon.webhook.health_webhook import HealthWebhook, target_of
from crawler.faults import contained
from crawler.front_door.connections import serving
from crawler.front_door.tls import certificate_of
from crawler.operator_commands import Reload
from crawler.steering.control import ReloadSource
from crawler.version import __version__
from storage.location import FileLocation

DRAIN_MORE_S: Final = 5.0  # after the longest fetch, for its commit and the release of hosts
LIBRARIES: Final = ("aiohttp", "asyncio", "courtly")  # whose logs go into the log of the daemon


async def run(
    config: Config,
    *,
    source: ReloadSource,
    announce: Callable[[str], None],
    environment_notify: Notify | None = None,
    worker: WorkerNumber | None = None,
) -> bool:
    """Run until SIGTERM or SIGINT. Returns True for a clean end, False if a second signal cut it
    short.

    `announce` receives messages for the user who started it. worker: one of several processes, of
    which the first serves the page and the API for all. Raises ConfigError, StoreRefused,
    ListenError and OSError (the log) before the first request, and StoreError.
    """
    leads = worker is None or worker.leads
    notify = environment_notify or (Notify() if leads else Notify({}))
    daemon = Daemon(config, announce=announce, notify=notify, worker=worker)
    try:
        with _library_logs(daemon.log.handler()):
            return await daemon.run(source)
    except Exception as error:
        plain = plainest(error) if isinstance(error, BaseExceptionGroup) else error
        daemon.died(error)
        if isinstance(plain, ListenError):  # the crawl's tasks have wrapped it in a group
            raise plain from None
        raise
    finally:
        daemon.log.file.close()


class Daemon:
    """One run of the daemon."""

    def __init__(
        self,
        config: Config,
        *,
        announce: Callable[[str], None],
        notify: Notify,
        worker: WorkerNumber | None = None,
    ) -> None:
        self.config = config
        number = None if worker is None else worker.number
        self.log = EventLog(_log_file(config), config.daemon.log_level, worker=number)
        self._worker = worker
        self._leads = worker is None or worker.leads
        self._announce = announce
        self._http = HttpSettings()
        self._certificate = certificate_of(config) if self._leads else None
        if self._leads:
            tokens = read_tokens(config)
            self.log.hide(one.text for one in tokens)
            self._http = settings_of(config, accounts_of(tokens))
        self._webhook = target_of(config) if self._leads else None
        if self._webhook is not None:
            self.log.hide(self._webhook.secrets)
        self._notify = notify
        self._cut_short = False
        self._starting: asyncio.Task[Any] | None = None  # until the crawl runs
        self._stop, self._exit, self._reload = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(self, source: ReloadSource) -> bool:
        """Run to the end; True if it was clean. A stop before the crawl starts is clean."""
        self._starting = asyncio.current_task()
        try:
            return await self._run(source)
        except asyncio.CancelledError:
            if self._starting is None or not self._stop.is_set() or self._starting.uncancel():
                raise
            self._event("stopped", clean=True)
            return True

    async def _run(self, source: ReloadSource) -> bool:
        clock = RealClock()
        monitor, liveness = Monitor(clock, self.log), LivenessReporter(clock)
        channel = None if self._worker is None else SupervisorChannel()
        with self._signals(), self._obeying(channel):
            async with (
                open_crawl(
                    self.config,
                    seeds=seeds_of(self.config) if self._leads else (),
                    runs_forever=True,
                    observers=(*monitor.observers, liveness, OutcomeLog(self.log)),
                    source=source,
                ) as opened,
                operations_of(opened, monitor, self._certificate) as operations,
                monitor.sampling(opened.control, operations.queue, operations.shared),
                self._served(operations, monitor) as address,
                self._local_socket(operations, monitor),
            ):
                tasks: list[Coroutine[None, None, None]] = [self._reload_on_signal(operations)]
                if self._notify.watchdog_s is not None:
                    every_s = self._notify.watchdog_s
                    tasks.append(liveness.report(opened.control, self._notify, every_s))
                if self._webhook is not None:
                    webhook = HealthWebhook(self._webhook, monitor, self.log)
                    tasks.append(webhook.run(operations, opened.control, address))
                if self._leads:
                    if not self.config.daemon.has_token and self._http.accounts:
                        self._announce(f"log in with the token in {token_file(self.config)}")
                    self._announce(
                        f"{address} shows the crawl; its database is {self.config.storage.location}"
                    )
                self._event(
                    "started",
                    address=address,
                    database=self.config.storage.location.shown,
                    version=__version__,
                )
                for warning in self._warnings() if self._leads else ():
                    self._warn(warning)
                self._notify.ready()
                if channel is not None:
                    channel.ready()
                await self._crawl(opened, tasks)
        self._event("stopped", clean=not self._cut_short)
        return not self._cut_short

    async def _crawl(self, opened: OpenCrawl, others: list[Coroutine[None, None, None]]) -> None:
        """Run the crawl to its end, and other tasks during it."""
        self._starting = None
        if opened.sinks is not None:
            opened.sinks.exit_requested = self._exit
        async with asyncio.TaskGroup() as group:
            crawl = group.create_task(opened.run())
            tasks = [group.create_task(each) for each in others]
            tasks.append(group.create_task(self._stop_on_signal(opened, crawl)))
            await asyncio.wait([crawl])
            for task in tasks:
                task.cancel()

    # ------------------------------------------------------------ signals

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Handle signals. Before the crawl runs, a signal to stop cancels its start."""
        loop = asyncio.get_running_loop()
        actions: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGTERM: self._stop_requested,
            signal.SIGINT: self._stop_requested,
            signal.SIGHUP: self._reload.set,
        }
        for number, action in actions.items():
            loop.add_signal_handler(number, action)
        try:
            yield
        finally:
            for number in actions:
                loop.remove_signal_handler(number)

    def _obeying(
        self, channel: SupervisorChannel | None
    ) -> contextlib.AbstractContextManager[None]:
        if channel is None:
            return contextlib.nullcontext()
        return channel.obeying(
            {STOP: self._stop_once, EXIT: self._exit.set, RELOAD: self._reload.set}
        )

    def _stop_once(self) -> None:
        if not self._stop.is_set():
            self._stop_requested()

    def _stop_requested(self) -> None:
        if self._starting is not None and not self._stop.is_set():
            self._starting.cancel()
        (self._exit if self._stop.is_set() else self._stop).set()

    async def _stop_on_signal(self, opened: OpenCrawl, crawl: asyncio.Task[None]) -> None:
        """Stop after the requests in flight; immediately on a second signal, or after a timeout."""
        await self._stop.wait()
        self._event("stopping", in_flight=opened.control.status().in_flight)
        if self._leads:
            self._announce(
                "stopping after the requests in flight; a second signal exits immediately"
            )
        self._notify.stopping()
        opened.control.stop()
        config = opened.control.config
        longest_s = max(config.site(name).fetch.timeout_s for name in ("", *_named(config)))
        why = "second signal"
        try:
            async with asyncio.timeout(longest_s + DRAIN_MORE_S):
                await self._exit.wait()
        except TimeoutError:
            why = "the requests in flight took too long"
        self._cut_short = True
        self._event("leaving", level=LogLevel.WARNING, why=why)
        crawl.cancel()

    async def _reload_on_signal(self, operations: Operations) -> None:
        while True:
            await self._reload.wait()
            self._reload.clear()
            if not self._leads:  # the first worker has all others read their files again
                self.log.file.reopen()
                continue
            self._notify.reloading()
            await self._reload_once(operations)
            self._notify.ready()

    async def _reload_once(self, operations: Operations) -> None:
        self.log.file.reopen()  # log rotation sends the same signal
        actor = by_signal(signal.SIGHUP.name)
        try:
            with acting(actor):
                done = await operations.execute(Reload())
        except Problem as problem:
            problems = list(problem.problems or (problem.detail,))
        except Exception as error:  # noqa: BLE001 - the old config stays in effect
            problems = [contained("the reload of the config", error)]
        else:
            self._event("reloaded", changes=done.changes, restart=done.restart, **actor.logged())
            return
        self._event("reload_refused", level=LogLevel.ERROR, problems=problems, **actor.logged())

    # ------------------------------------------------------------ serving

    @contextlib.asynccontextmanager
    async def _served(self, operations: Operations, monitor: Monitor) -> AsyncIterator[str]:
        """Serve the page and the API on the configured address; yields its URL. Only the first of
        several workers does, for all."""
        if not self._leads:
            yield ""
            operations.stream.close()
            return
        section = self.config.daemon
        from crawler import console  # slow to import

        app = console.application(operations, self._http, monitor)
        async with (
            serving(app, monitor.clock, monitor.access, section.base_path) as connections,
            listening_on(
                section,
                connections,
                self._certificate,
                access=monitor.access,
                clock=monitor.clock,
            ) as address,
        ):
            try:
                yield address
            finally:
                operations.stream.close()

    def _local_socket(
        self, operations: Operations, monitor: Monitor
    ) -> contextlib.AbstractAsyncContextManager[None]:
        """The socket for other commands, beside a database that is a file."""
        location = self.config.storage.location
        if not isinstance(location, FileLocation):
            return contextlib.nullcontext()
        from crawler import console

        app = console.application(operations, HttpSettings(local=True), monitor)
        return unix_socket.serving(app, location.path, self._warn)

    # ------------------------------------------------------------ the log

    def died(self, error: BaseException) -> None:
        """Log the error that ended the process."""
        plain = plainest(error) if isinstance(error, BaseExceptionGroup) else error
        self._event("died", level=LogLevel.ERROR, error=type(plain).__name__, message=str(plain))

    def _event(self, name: str, *, level: LogLevel = LogLevel.INFO, **values: object) -> None:
        self.log.event(level, name, **values)

    def _warnings(self) -> Sequence[str]:
        """What is probably unintended in the config. Raises CertificateError."""
        if self._certificate is None:
            return self.config.warnings
        return (*self.config.warnings, *self._certificate.warnings(datetime.now(UTC)))

    def _warn(self, sentence: str) -> None:
        self._event("warning", level=LogLevel.WARNING, message=sentence)


def _log_file(config: Config) -> LogFile:
    try:
        return LogFile(config.daemon.log, config.storage.mode)
    except OSError as error:
        place = config.given.places.get("daemon.log", "config")
        why = f"{config.daemon.log} cannot be written: {error.strerror}"
        raise ConfigError(f"{place}: daemon.log: {why}") from None


def settings_of(config: Config, accounts: tuple[Account, ...]) -> HttpSettings:
    """The HTTP settings of the config."""
    section = config.daemon
    return HttpSettings(
        accounts=accounts,
        trusted_proxies=section.trusted_proxies,
        hosts=section.hosts,
        listen="" if section.unix_path else section.listens_on[0],
        unix=section.unix_path is not None,
        base_path=section.base_path,
    )


def _named(config: Config) -> list[str]:
    """A host covered by each [site] table."""
    return [pattern.removeprefix("*.") for pattern in config.sites]


@contextlib.contextmanager
def _library_logs(handler: logging.Handler) -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in LIBRARIES]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.propagate = True
