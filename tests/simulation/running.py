"""Runs a scenario: the whole program, on a clock that jumps, against simulated sites."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from crawler.config import Config, from_dict
from crawler.documents.crawled_page import CrawledPage
from crawler.explain.explanation import ExplainContext, explain_url
from crawler.operator_commands import (
    AddSeeds,
    DropFailed,
    PauseCrawl,
    PauseHosts,
    Reload,
    ResumeCrawl,
    ResumeHosts,
    RetryFailed,
    SlowHosts,
)
from crawler.processing.context import crawl_context
from crawler.scheduling.robots_identity import reads_otherwise, session_name
from crawler.scheduling.scheduler import Scheduler
from crawler.scheduling.seeding import seed_link
from crawler.sinks.dispatch import SinkFilter, SinkRoute, Sinks
from crawler.sinks.sink import Withdrawn
from crawler.steering.control import Control
from crawler.testing import JumpClock, forget_contacts
from storage.store import StoreError
from tests.conftest import ConfigFrom
from tests.simulation.callers import Caller
from tests.simulation.checking import inconsistencies
from tests.simulation.history import Done, History, RunRecord, SinkEntry
from tests.simulation.log import Log
from tests.simulation.loop import SimulationLoop, without_threads
from tests.simulation.scenario import DAY_S, Deed, RunPlan, Scenario
from tests.simulation.sessions import fetch_alone
from tests.simulation.stores import (
    Disk,
    FileDisk,
    MemoryDisk,
    Wire,
    rows_of,
    simulated_space,
)
from tests.simulation.web import ALWAYS, SiteFetcher, Web

CAP_S: Final = 60 * DAY_S  # a run that is not over by then never ends
EXPLAINED: Final = 12  # URLs of each state


class RecordingSink:
    """Keeps in memory what it is given. What was not flushed is gone after a kill."""

    def __init__(self, history: History, clock: JumpClock) -> None:
        self._entries = history.sink
        self._clock = clock
        self._unflushed: list[SinkEntry] = []

    def open(self) -> None:
        self._unflushed.clear()

    def put(self, page: CrawledPage) -> None:
        self._note("put", page.url, status=page.status, indexable=page.directives.index)

    def withdraw(self, page: Withdrawn) -> None:
        self._note("withdraw", page.url)

    def _note(self, verb: str, url: str, **values: Any) -> None:
        self._unflushed.append(
            SinkEntry(verb=verb, url=url, at_s=self._clock.monotonic(), **values)
        )

    def flush(self) -> None:
        self._entries += self._unflushed
        self._unflushed.clear()

    def undo(self) -> None:
        self._unflushed.clear()

    def close(self, hurried: threading.Event) -> None:
        pass


class Process:
    """One process that crawls, from its start to its end."""

    def __init__(self, world: Simulation, number: int, store: Any, clock: Any) -> None:
        self.world = world
        self.number = number
        self.store = store
        self.clock = clock
        self.dead = False
        self.caller: Caller | None = None
        self.ready = asyncio.Event()
        self.task = asyncio.create_task(self._run(), name=f"worker {number}")

    async def _run(self) -> None:
        world, store = self.world, self.store
        config = world.config
        session = await world.open_session(self)
        fetcher = SiteFetcher(world.web, self.number, self.clock)
        async with contextlib.AsyncExitStack() as stack:
            sinks: Sinks | None = None
            if world.scenario.sinks:
                route = SinkRoute(
                    sink=RecordingSink(world.history, world.clock), filter=SinkFilter()
                )
                sinks = await stack.enter_async_context(Sinks([route], clock=self.clock))
            context = crawl_context(
                config, store=store, session=session, clock=self.clock, sinks=sinks
            )
            self.scheduler = Scheduler(context, fetcher, runs_forever=world.scenario.forever)
            if not world.scenario.forever:
                await store.set_paused(False)
            elif await store.paused():
                self.scheduler.steering.follow_pause(paused=True)
            self.control = Control(
                self.scheduler, config=config, store=store, reader=world.disk.reader(),
                clock=self.clock, source=ConfigFrom(world.reread),
            )  # fmt: skip
            self.caller = Caller(self, world)
            self.ready.set()
            try:
                await self.scheduler.run()
            finally:
                await self.caller.end()
                await self.control.reader.close()

    def kill(self) -> None:
        """`kill -9`: not another byte reaches the store."""
        if not self.dead and not self.task.done():
            self.dead = self.store.dead = True
            self.world.run.killed[self.number] = self.world.clock.monotonic()
            self.task.cancel()


class Simulation:
    """One scenario, from beginning to end. `history` is what it came to."""

    cap_s = CAP_S

    def __init__(self, scenario: Scenario, clock: JumpClock, folder: Path) -> None:
        self.scenario = scenario
        self.clock = clock
        self.web = Web(scenario.hosts, clock.monotonic(), _unset(clock))
        self.history = History(scenario=scenario, began_s=clock.monotonic())
        self.history.contacts = self.web.contacts
        self.history.wall_from_s = clock.wall() - clock.monotonic()
        self.sections = scenario.sections
        self.config = self._read(scenario.sections)
        self.disk: Disk = FileDisk(folder) if scenario.engine == "file" else MemoryDisk()
        self.processes: list[Process] = []
        self.run: RunRecord
        self._deeds: set[asyncio.Task[None]] = set()
        self._next_worker = 1
        self.free_bytes = 10**12  # on the disk

    # ------------------------------------------------------------ config

    def _read(self, sections: dict[str, Any]) -> Config:
        return from_dict({"storage": {"min_free": 0}, **sections})

    def reread(self) -> Config:
        return self._read(self.sections)

    # ------------------------------------------------------------ runs

    async def simulate(self) -> None:
        with simulated_space(lambda: self.free_bytes):
            await self._simulate()

    async def _simulate(self) -> None:
        self.history.configs.append((-ALWAYS, -ALWAYS, self.config))
        for number, plan in enumerate(self.scenario.runs):
            await self._run_once(number, plan)
            if self.history.errors:
                break
            if number + 1 < len(self.scenario.runs):
                await self.sleep(plan.then_s)
                self.step_wall(plan.step_s)
                self.disk.boots += plan.reboots
        reader = self.disk.reader()
        self.history.rows = await rows_of(reader)
        await self._explain(reader)
        await reader.close()
        self.history.sound = self.inconsistencies()

    def inconsistencies(self) -> list[str]:
        return inconsistencies(self.disk.database())

    async def _run_once(self, number: int, plan: RunPlan) -> None:
        run = self.run = RunRecord(number=number, from_s=self.clock.monotonic())
        self.history.runs.append(run)
        self._first_session = True
        self.processes = [self.start() for _ in range(self.scenario.workers)]
        if plan.at_call:
            self._kill_at(self.processes[0], plan)
        timers = [
            self.clock.call_at(run.from_s + deed.at_s, self._doing(deed))
            for deed in plan.deeds
            if deed.as_ends is None
        ]
        for planned in plan.deeds:
            if planned.as_ends is not None:
                self.web.at_end[planned.as_ends] = self._doing(planned)
        if plan.end != "itself" and plan.at_s < ALWAYS:
            timers.append(self.clock.call_at(run.from_s + plan.at_s, lambda: self._end(plan.end)))
        over: list[float] = []
        timers.append(self.clock.call_at(run.from_s + self.cap_s, lambda: over.append(self.cap_s)))
        timers.append(self.clock.call_at(run.from_s + self.cap_s, lambda: self._end("kill")))
        while running := [one for one in self.processes if not one.task.done()]:
            await asyncio.wait([one.task for one in running])
        for timer in timers:
            timer.cancel()
        run.to_s = self.clock.monotonic()
        self.mend()
        for deed in self._deeds:
            deed.cancel()
        await asyncio.gather(*self._deeds, return_exceptions=True)
        for process in self.processes:
            await self._bury(process)
        if over:
            self.history.errors.append(f"run {number} had not ended after {self.cap_s:g} s")

    def start(self) -> Process:
        number, self._next_worker = self._next_worker, self._next_worker + 1
        store = Wire(self.disk.store(self.clock), self.clock)
        store.slow_s = self.scenario.slow_store_s
        return Process(self, number, store, self.clock)

    def _kill_at(self, process: Process, plan: RunPlan) -> None:
        process.store.kill_at, process.store.kill_after = plan.at_call, plan.after
        process.store.kill_verb = plan.at_verb
        process.store.kill = process.kill

    async def open_session(self, process: Process) -> int:
        """As `crawler.app.open_crawl` does."""
        store, config = process.store, self.config
        session: int = await store.open_session(session_name(config))
        if self._first_session:
            self._first_session = False
            await store.add([seed_link(config, url) for url in self.scenario.seeds])
        reader = self.disk.reader()
        try:
            if await reads_otherwise(reader, config):
                await store.rejudge_all(session)
        finally:
            await reader.close()
        return session

    def _end(self, how: str) -> None:
        for process in self.processes:
            if process.task.done():
                continue
            if how == "kill":
                process.kill()
            elif not process.ready.is_set() or how == "cancel":
                process.task.cancel()
                self.run.end = "cancel"
            else:
                process.scheduler.stop()
                self.run.end = "stop"

    async def _bury(self, process: Process) -> None:
        """Take note of how it ended, and leave its database to the next."""
        store, run = process.store, self.run
        error = None if process.task.cancelled() else process.task.exception()
        await store.settle()
        run.calls += store.calls.total()
        if process.dead:
            run.end = "kill"
            await self.disk.killed(store._inner)
            return
        if error is not None and self._was_given_up(error):
            run.end = "kill"  # nothing more could be stored
            run.killed[process.number] = self.clock.monotonic()
            await self.disk.killed(store._inner)
            return
        if error is not None:
            self.history.errors.append(f"run {run.number}: {_words(error)}")
        if process.ready.is_set():
            run.waiting |= {
                host: reason.sentence for host, (_, reason) in process.scheduler.waiting.items()
            }
        with contextlib.suppress(StoreError):
            await store._inner.close()

    def _was_given_up(self, error: BaseException) -> bool:
        """Was it asked to stop while the store could not be written? Then it may give up."""
        faulty = any(to_s >= self.clock.monotonic() - 60 for _, to_s in self.history.faults)
        return faulty and self.run.end == "stop" and "cannot be used" in _words(error)

    # ------------------------------------------------------------ time

    async def sleep(self, for_s: float) -> None:
        await self.clock.sleep_until(self.clock.monotonic() + for_s)

    def step_wall(self, by_s: float) -> None:
        if by_s:
            self.clock.set_wall(by_s)
            self.history.steps.append((self.clock.monotonic(), by_s))

    # ------------------------------------------------------------ deeds

    def _doing(self, deed: Deed) -> Callable[[], None]:
        def begin() -> None:
            task = asyncio.create_task(self._do(deed))
            self._deeds.add(task)
            task.add_done_callback(self._deeds.discard)

        return begin

    async def _do(self, deed: Deed) -> None:
        done = Done(verb=deed.verb, host=deed.host, value=deed.value, from_s=self.clock.monotonic())
        done.begun = len(self.web.contacts)
        self.run.done.append(done)
        try:
            await self._carry_out(deed, done)
        except (LookupError, StoreError) as error:
            done.error = _words(error)
        done.to_s = self.clock.monotonic()

    async def _carry_out(self, deed: Deed, done: Done) -> None:
        match deed.verb:
            case "wall":
                self.step_wall(deed.value)
            case "sleep":
                self.clock.sleep(deed.value)
                self.history.slept.append((self.clock.monotonic(), deed.value))
                self.history.steps.append((self.clock.monotonic(), deed.value))
            case "fault":
                self.fault(deed.value)
            case "mend":
                self.mend()
            case "session":
                await fetch_alone(self, deed.value, done)
            case "disk":
                self.free_bytes = deed.value
            case "fetch" | "permit" | "cancelled fetch":
                if (process := self._living()) is not None and process.caller is not None:
                    await process.caller.call(deed, done)
            case verb:
                if (process := self._living()) is not None:
                    await self._steer(process.control, verb, deed, done)
                else:
                    done.error = "nobody takes commands"

    def _living(self) -> Process | None:
        """A process that takes commands."""
        return next(
            (one for one in self.processes if one.ready.is_set() and not one.task.done()), None
        )

    async def _steer(self, control: Control, verb: str, deed: Deed, done: Done) -> None:
        host = "" if not deed.host else self.config.slot_of(deed.host)
        deeds: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "pause": lambda: control.execute(PauseCrawl()),
            "resume": lambda: control.execute(ResumeCrawl()),
            "pause host": lambda: control.execute(PauseHosts(host=host)),
            "slow host": lambda: control.execute(SlowHosts(host=host, delay_s=deed.value)),
            "resume host": lambda: control.execute(ResumeHosts(host=host)),
            "seeds": lambda: control.execute(AddSeeds(urls=(deed.value,))),
            "retry": lambda: control.execute(RetryFailed()),
            "drop": lambda: control.execute(DropFailed()),
        }
        if verb == "reload":
            self.sections = deed.value
            from_s = self.clock.monotonic()
            await control.execute(Reload())
            self.config = control.config
            self.history.configs.append((from_s, self.clock.monotonic(), control.config))
        else:
            done.result = await deeds[verb]()

    # ------------------------------------------------------------ faults of the store

    def fault(self, kind: str) -> None:
        """No transaction can be committed until `mend`."""
        process = self._living()
        if process is None or process.dead:
            return

        def refuse() -> None:
            error = sqlite3.OperationalError(f"a simulated fault: {kind}")
            error.sqlite_errorname = kind
            raise error

        self.mend()
        self._faulty = self.disk.connection(process.store._inner)
        self._faulty.commit = refuse
        self.history.faults.append((self.clock.monotonic(), ALWAYS))

    _faulty: Any = None

    def mend(self) -> None:
        if self._faulty is not None:
            del self._faulty.commit
            self._faulty = None
            from_s, _ = self.history.faults.pop()
            self.history.faults.append((from_s, self.clock.monotonic()))

    # ------------------------------------------------------------ the end

    async def _explain(self, reader: Any) -> None:
        context = ExplainContext(config=self.config)
        for view in ("queued", "failed", "blocked"):
            for row in self.history.rows[view][:EXPLAINED]:
                url = str(row["url"])
                explanation = await explain_url(reader, context, url, now_s=self.clock.wall())
                self.history.explained[url] = explanation.sentences


DEAD: Final = repr(StoreError("this process is dead"))  # of `Medium` and `WorkerStore`


def _unset(clock: JumpClock) -> Callable[[], float]:
    """The wall clock of everybody else."""
    from_s = clock.wall() - clock.boottime()
    return lambda: clock.boottime() + from_s


def _words(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_words(one) for one in error.exceptions)
    return f"{type(error).__name__}: {error}"


def simulate(scenario: Scenario) -> History:
    """Run a scenario to its end."""
    forget_contacts()
    loop = SimulationLoop(scenario.order)
    asyncio.set_event_loop(loop)
    log = Log()
    try:
        with (
            without_threads(),
            log.kept(),
            tempfile.TemporaryDirectory(prefix="simulation-") as folder,
        ):
            history = loop.run_until_complete(_simulate(scenario, loop, Path(folder)))
        history.warnings = log.lines
        return history
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _simulate(scenario: Scenario, loop: SimulationLoop, folder: Path) -> History:
    unheard: list[str] = []

    def hear(_: object, context: dict[str, Any]) -> None:
        words = repr(context.get("exception") or context["message"])
        if DEAD not in words:  # calls that a kill has left behind, whenever they are collected
            unheard.append(words)

    loop.set_exception_handler(hear)
    async with JumpClock() as clock:
        loop.clock = clock
        simulation: Simulation
        if scenario.engine == "shared":
            from tests.simulation.shared import SharedSimulation

            simulation = SharedSimulation(scenario, clock, folder)
        elif scenario.engine == "postgres":
            from tests.simulation.postgres import PostgresSimulation

            simulation = PostgresSimulation(scenario, clock, folder)
        else:
            simulation = Simulation(scenario, clock, folder)
        await simulation.simulate()
    simulation.history.errors += unheard
    return simulation.history
