"""The daemon from its start to its end: crawl, serve, obey signals, tell the service manager."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from typing import Any, Final

from crawler.app import Life, living, plainest
from crawler.clock import RealClock
from crawler.config import Config, ConfigError, seeds_of
from crawler.config.sections import DaemonConfig, LogLevel
from crawler.daemon import local
from crawler.daemon.answering.answers import Answers
from crawler.daemon.connections import serving
from crawler.daemon.notify import Notify
from crawler.daemon.problem import Problem
from crawler.daemon.service import answering, application
from crawler.daemon.serving.http import HttpSettings
from crawler.daemon.watching.log import Log, LogFile, OutcomeLog
from crawler.daemon.watching.pulse import Pulse
from crawler.daemon.watching.watch import Watchers
from crawler.faults import contained
from crawler.fetching.guard import listening
from crawler.version import __version__

DRAIN_MORE_S: Final = 5.0  # after the longest fetch: its commit, and hosts given back
LIBRARIES: Final = ("aiohttp", "asyncio", "courtly")  # whose own logs go into ours


class ListenError(Exception):
    """The address of the page cannot be listened on; the sentence says why."""


async def run(
    config: Config,
    *,
    reread: Callable[[], Config],
    told: Callable[[str], None],
    environment_notify: Notify | None = None,
) -> bool:
    """Live until SIGTERM or SIGINT; True if the end was clean, False if a second one cut it short.

    `told` is given sentences for who started it. Raises ConfigError, StoreRefused, ListenError and
    OSError (the log) before anything is contacted, and StoreError.
    """
    daemon = Daemon(config, told=told, notify=environment_notify or Notify())
    try:
        with _library_logs(daemon.log.handler()):
            return await daemon.run(reread)
    except Exception as error:
        plain = plainest(error) if isinstance(error, BaseExceptionGroup) else error
        daemon.died(error)
        if isinstance(plain, ListenError):  # the crawl's tasks have wrapped it in a group
            raise plain from None
        raise
    finally:
        daemon.log.file.close()


class Daemon:
    """One life."""

    def __init__(self, config: Config, *, told: Callable[[str], None], notify: Notify) -> None:
        self.config = config
        self.log = Log(_log_file(config), config.daemon.log_level)
        self._told = told
        self._notify = notify
        self._left = False
        self._starting: asyncio.Task[Any] | None = None  # until there is a crawl to be stopped
        self._stop, self._leave, self._reload = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(self, reread: Callable[[], Config]) -> bool:
        """True if the end was clean: that of one that is stopped before it has begun is."""
        self._starting = asyncio.current_task()
        try:
            return await self._run(reread)
        except asyncio.CancelledError:
            if self._starting is None or not self._stop.is_set() or self._starting.uncancel():
                raise
            self._event("stopped", clean=True)
            return True

    async def _run(self, reread: Callable[[], Config]) -> bool:
        clock = RealClock()
        watchers, pulse = Watchers(clock, noted=self._steered, log=self.log.file), Pulse(clock)
        with self._signals():
            async with (
                living(
                    self.config,
                    seeds=seeds_of(self.config),
                    forever=True,
                    observers=(*watchers.observers, pulse, OutcomeLog(self.log)),
                    reread=reread,
                ) as life,
                answering(life, watchers) as answers,
                watchers.sampling(life.control),
                self._served(answers, watchers) as address,
                local.serving(
                    application(answers, HttpSettings(local=True), watchers),
                    self.config.storage.path,
                    self._warn,
                ),
            ):
                beside: list[Coroutine[None, None, None]] = [self._reload_when_told(answers)]
                if self._notify.watchdog_s is not None:
                    every_s = self._notify.watchdog_s
                    beside.append(pulse.keep_telling(life.control, self._notify.alive, every_s))
                self._told(f"{address} shows the crawl; its database is {self.config.storage.path}")
                self._event(
                    "started",
                    address=address,
                    database=str(self.config.storage.path),
                    version=__version__,
                )
                for warning in self.config.warnings:
                    self._warn(warning)
                self._notify.ready()
                await self._live(life, beside)
        self._event("stopped", clean=not self._left)
        return not self._left

    async def _live(self, life: Life, beside: list[Coroutine[None, None, None]]) -> None:
        """The crawl, to its end, and what goes on beside it."""
        self._starting = None
        if life.sinks is not None:
            life.sinks.exit_requested = self._leave
        async with asyncio.TaskGroup() as group:
            crawl = group.create_task(life.run())
            tasks = [group.create_task(each) for each in beside]
            tasks.append(group.create_task(self._stop_when_told(life, crawl)))
            await asyncio.wait([crawl])
            for task in tasks:
                task.cancel()

    # ------------------------------------------------------------ signals

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """From the start: before the crawl has begun, one to stop ends what is waited for."""
        loop = asyncio.get_running_loop()
        actions: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGTERM: self._told_to_stop,
            signal.SIGINT: self._told_to_stop,
            signal.SIGHUP: self._reload.set,
        }
        for number, action in actions.items():
            loop.add_signal_handler(number, action)
        try:
            yield
        finally:
            for number in actions:
                loop.remove_signal_handler(number)

    def _told_to_stop(self) -> None:
        if self._starting is not None and not self._stop.is_set():
            self._starting.cancel()
        (self._leave if self._stop.is_set() else self._stop).set()

    async def _stop_when_told(self, life: Life, crawl: asyncio.Task[None]) -> None:
        """First: what is in flight ends. Second, or when that takes too long: at once."""
        await self._stop.wait()
        self._event("stopping", in_flight=life.control.status().in_flight)
        self._told("stopping after what is in flight; a second signal leaves at once")
        self._notify.stopping()
        life.control.stop()
        config = life.control.config
        longest_s = max(config.site(name).fetch.timeout_s for name in ("", *_named(config)))
        why = "told twice"
        try:
            async with asyncio.timeout(longest_s + DRAIN_MORE_S):
                await self._leave.wait()
        except TimeoutError:
            why = "what was in flight took too long"
        self._left = True
        self._event("leaving", level=LogLevel.WARNING, why=why)
        crawl.cancel()

    async def _reload_when_told(self, answers: Answers) -> None:
        while True:
            await self._reload.wait()
            self._reload.clear()
            self._notify.reloading()
            await self._reload_once(answers)
            self._notify.ready()

    async def _reload_once(self, answers: Answers) -> None:
        self.log.file.reopen()  # who rotates logs sends the same signal
        try:
            done = await answers.reload()
        except Problem as problem:
            problems = list(problem.problems or (problem.detail,))
            self._event("reload_refused", level=LogLevel.ERROR, problems=problems)
            return
        except Exception as error:  # noqa: BLE001 - the config that counts goes on counting
            problems = [contained("the config that was to be read again", error)]
            self._event("reload_refused", level=LogLevel.ERROR, problems=problems)
            return
        self._event("reloaded", changes=done["changes"], restart=done["restart"])

    # ------------------------------------------------------------ serving

    @contextlib.asynccontextmanager
    async def _served(self, answers: Answers, watchers: Watchers) -> AsyncIterator[str]:
        """The page and the API on the address of the config; gives its URL."""
        section = self.config.daemon
        app = application(answers, settings_of(section), watchers)
        host, port = section.listens_on
        async with serving(app, watchers.clock) as connections:
            try:
                server = await asyncio.get_running_loop().create_server(
                    connections, host, port, backlog=local.BACKLOG
                )
            except OSError as error:
                raise ListenError(
                    f"cannot listen on {section.listen} (daemon.listen): {why_not(error)}"
                ) from None
            try:
                bound = server.sockets[0].getsockname()
                shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
                with contextlib.ExitStack() as guarded:
                    for one in server.sockets:
                        guarded.enter_context(listening(*one.getsockname()[:2]))
                    yield f"http://{shown}:{bound[1]}/"
            finally:
                server.close()
                answers.stream.close()

    # ------------------------------------------------------------ saying

    def died(self, error: BaseException) -> None:
        """The last line of the log, where there is no clean end."""
        plain = plainest(error) if isinstance(error, BaseExceptionGroup) else error
        self._event("died", level=LogLevel.ERROR, error=type(plain).__name__, message=str(plain))

    def _event(self, name: str, *, level: LogLevel = LogLevel.INFO, **values: object) -> None:
        self.log.event(level, name, **values)

    def _steered(self, data: Mapping[str, object]) -> None:
        self.log.event(LogLevel.INFO, "steered", **data)

    def _warn(self, sentence: str) -> None:
        self._event("warning", level=LogLevel.WARNING, message=sentence)


def why_not(error: OSError) -> str:
    """Asyncio wraps the system's own words into a sentence of its own."""
    return os.strerror(error.errno).lower() if error.errno else str(error)


def _log_file(config: Config) -> LogFile:
    try:
        return LogFile(config.daemon.log, config.storage.mode)
    except OSError as error:
        place = config.given.places.get("daemon.log", "config")
        why = f"{config.daemon.log} cannot be written: {error.strerror}"
        raise ConfigError(f"{place}: daemon.log: {why}") from None


def settings_of(section: DaemonConfig) -> HttpSettings:
    """Who is let in by the config."""
    return HttpSettings(token=section.token, hosts=section.hosts, listen=section.listens_on[0])


def _named(config: Config) -> list[str]:
    """A host of every [site] table."""
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
