"""Several workers on one database, each with a store and a clock of its own, which may be frozen,
cut off from the database, or killed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

from crawler.scheduling.robots_identity import session_name
from crawler.scheduling.seeding import seed_link
from crawler.steering.control import Control
from crawler.testing import JumpClock
from storage.reader import Reader
from storage.store import Batch
from tests.crawler.scheduling.shared_rig import SharedMemory, WorkerClock, WorkerStore
from tests.simulation.history import Done
from tests.simulation.running import Process, Simulation
from tests.simulation.scenario import Deed, RunPlan, Scenario
from tests.simulation.stores import MemoryDisk

OF_WORKERS: Final = (
    "freeze", "freeze at release", "thaw", "cut off", "connect", "kill worker", "start worker",
)  # fmt: skip


class CountedStore(WorkerStore):
    """What a process sees of the database."""

    @property
    def _inner(self) -> Any:
        return self._memory.inner

    def telemetry(self) -> Any:
        return self._memory.inner.telemetry()

    async def settle(self) -> None:
        pass


class WorkersSimulation(Simulation):
    """As `Simulation`, with several processes, each with a `WorkerClock`."""

    cap_s = 5 * 3600.0  # each second, each of them looks at the database

    def cut_off(self, process: Process) -> None:
        """It cannot reach the database, until `connect`."""
        raise NotImplementedError

    def connect(self, process: Process) -> None:
        raise NotImplementedError

    def _cut_contacts(self, process: Process) -> None:
        """A host that answers a frozen process is done with it before that continues."""
        for contact in self.web.contacts:
            if contact.worker != process.number:
                continue
            for from_s, to_s in process.clock.stops:
                if contact.start_s < from_s and contact.end_s >= to_s:
                    contact.end_s = from_s

    # ------------------------------------------------------------ deeds

    async def _carry_out(self, deed: Deed, done: Done) -> None:
        if deed.verb not in OF_WORKERS:
            await super()._carry_out(deed, done)
            return
        process = self.processes[deed.value % len(self.processes)]
        if deed.verb == "start worker":
            if any(not one.task.done() for one in self.processes):
                self.processes.append(self.start())
            return
        if process.task.done():
            return
        match deed.verb:
            case "freeze":
                process.clock.stop()
            case "freeze at release":
                self._freeze_at_release(process)
            case "thaw":
                if not process.clock.running.is_set():
                    process.clock.resume()
            case "cut off":
                self.cut_off(process)
            case "connect":
                self.connect(process)
            case _:
                if sum(not one.task.done() for one in self.processes) > 1:
                    process.kill()

    def _freeze_at_release(self, process: Process) -> None:
        """Freeze it when it is about to commit that it releases a host."""

        async def freeze(_session: int, batch: Batch) -> None:
            if any(update.release for update in batch.hosts):
                process.store.before.clear()
                process.clock.stop()

        process.store.before["complete"] = freeze

    def _end(self, how: str) -> None:
        for process in self.processes:
            if not process.clock.running.is_set():
                process.clock.resume()
            self.connect(process)
        super()._end(how)

    async def _steer(self, control: Control, verb: str, deed: Deed, done: Done) -> None:
        if verb in ("reload", "drop"):
            return  # each worker would read its own file
        await super()._steer(control, verb, deed, done)
        await self.sleep(2.5 + 10 * self.scenario.slow_store_s)  # until the others have heard of it


class SharedSimulation(WorkersSimulation):
    """Workers on a store that shares in memory."""

    def __init__(self, scenario: Scenario, clock: JumpClock, folder: Path) -> None:
        super().__init__(scenario, clock, folder)
        self.memory = SharedMemory(clock)
        self.memory.inner._calls._sleep_until = clock.sleep_until
        self.disk = _SharedDisk(self.memory)
        self._opened = False

    async def _run_once(self, number: int, plan: RunPlan) -> None:
        if not self._opened:
            self._opened = True
            await self.memory.open()
            self.memory.inner.set_patience(math.inf)  # as each crawl does; faults are mended
            await self.memory.inner.name_session(self.memory.session, session_name(self.config))
        links = [seed_link(self.config, url) for url in self.scenario.seeds]
        await self.memory.inner.add(links)
        await super()._run_once(number, plan)

    def start(self) -> Process:
        number, self._next_worker = self._next_worker, self._next_worker + 1
        clock = WorkerClock(self.clock)
        store = CountedStore(self.memory, clock)
        store.slow_s = self.scenario.slow_store_s
        process = Process(self, number, store, clock)
        process.task.add_done_callback(lambda _: store.end())
        return process

    def cut_off(self, process: Process) -> None:
        process.store.reachable.clear()

    def connect(self, process: Process) -> None:
        process.store.reachable.set()

    def _kill_at(self, process: Process, plan: RunPlan) -> None:
        """Here the time decides."""
        plan.at_s = min(plan.at_s, 0.4 * plan.at_call)

    async def open_session(self, process: Process) -> int:
        number: int = process.store.number
        return number

    async def _bury(self, process: Process) -> None:
        process.clock.running.set()
        process.store.reachable.set()
        run = self.run
        error = None if process.task.cancelled() else process.task.exception()
        run.calls += process.store.calls
        if process.dead:
            run.end = "kill"
        elif error is not None:
            self.history.errors.append(f"run {run.number}: {error!r}")
        if process.ready.is_set():
            run.waiting |= {
                host: reason.sentence for host, (_, reason) in process.scheduler.waiting.items()
            }
        self._cut_contacts(process)


class _SharedDisk(MemoryDisk):
    def __init__(self, memory: SharedMemory) -> None:
        super().__init__()
        self._memory = memory
        self._store = memory.inner

    def reader(self) -> Reader:
        return self._memory.inner.reader
