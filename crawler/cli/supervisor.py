"""The supervisor of `--workers N`: starts worker processes, passes signals on, and starts workers
that died again."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from crawler.cli.exit_codes import FOUND, INTERRUPTED
from crawler.daemon.supervised import EXIT, OTHERS_ENDED, READY, RELOAD, STOP

# Delays before a worker that died is started again; the last one is kept.
RESTARTS_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
STEADY_S: Final = 60.0  # a worker that ran for this long begins with the first delay
ENDED: Final = frozenset({0, FOUND, INTERRUPTED})  # a worker with such an exit code has finished
# In a row; then a worker of a crawl that need not run forever is given up.
FAILURES_MAX: Final = 5
PIECE_BYTES: Final = 65_536  # a longer line is passed on in pieces


@dataclass(slots=True, eq=False)
class WorkerProcess:
    """One worker. `channel`: to the process that it is at present."""

    number: int
    channel: socket.socket | None = None
    began_s: float = 0.0
    failures: int = 0  # in a row

    def tell(self, message: bytes) -> None:
        if self.channel is not None:
            with contextlib.suppress(OSError):  # it has ended
                self.channel.send(message)


class Supervisor:
    """Runs the command of `argv` with `--worker NUMBER` added, once for each worker.

    The first worker has this process's standard output and error. What others write to standard
    error is passed to `say`, line by line, with their numbers. They are started when the first is
    ready. runs_forever: a worker that died is always started again.
    """

    def __init__(
        self,
        argv: Sequence[str],
        workers: int,
        *,
        runs_forever: bool,
        say: Callable[[int, str], None],
    ) -> None:
        self._argv = argv
        self._workers = [WorkerProcess(number) for number in range(1, workers + 1)]
        self._runs_forever = runs_forever
        self._say = say
        self._stopping = asyncio.Event()
        self._first_ready = asyncio.Event()
        self._left = set(self._workers)  # those that have not ended for good

    async def run(self) -> int:
        """Run all workers to their ends; return the exit code."""
        first, *others = self._workers
        with self._signals_passed_on():
            tasks = [asyncio.create_task(self._keep(first))]
            ready = asyncio.create_task(self._first_ready.wait())
            await asyncio.wait([tasks[0], ready], return_when=asyncio.FIRST_COMPLETED)
            ready.cancel()
            if self._first_ready.is_set() and not self._stopping.is_set():
                tasks += [asyncio.create_task(self._keep(worker)) for worker in others]
            codes = await asyncio.gather(*tasks)
        failed = [code for code in codes if code not in (0, INTERRUPTED)]
        return next(iter(failed), INTERRUPTED if INTERRUPTED in codes else 0)

    # ------------------------------------------------------------ signals

    @contextlib.contextmanager
    def _signals_passed_on(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        actions = {
            signal.SIGINT: self._stop,
            signal.SIGTERM: self._stop,
            signal.SIGHUP: self._hang_up,
        }
        if not self._runs_forever and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
            del actions[signal.SIGHUP]  # as under `nohup`
        for number, action in actions.items():
            loop.add_signal_handler(number, action)
        try:
            yield
        finally:
            for number in actions:
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        """Stop all workers cleanly; the second time, immediately."""
        message = EXIT if self._stopping.is_set() else STOP
        self._stopping.set()
        for worker in self._workers:
            worker.tell(message)

    def _hang_up(self) -> None:
        """Have a service reload its config, and end any other crawl with its terminal."""
        if not self._runs_forever:
            self._stop()
            return
        for worker in self._workers:
            worker.tell(RELOAD)

    # ------------------------------------------------------------ one worker

    async def _keep(self, worker: WorkerProcess) -> int:
        """Run a worker until it ends for good; return its exit code."""
        try:
            while True:
                code = await self._run_once(worker)
                if code in ENDED or self._stopping.is_set():
                    return code
                if not self._first_ready.is_set():
                    return code  # the same would happen again
                if time.monotonic() - worker.began_s >= STEADY_S:
                    worker.failures = 0
                worker.failures += 1
                if worker.failures >= FAILURES_MAX and not self._runs_forever:
                    self._say(worker.number, f"ended with exit code {code}; it is given up")
                    return code  # the others may well go on
                delay_s = RESTARTS_S[min(worker.failures, len(RESTARTS_S)) - 1]
                self._say(
                    worker.number,
                    f"ended with exit code {code}; it is started again in {delay_s:g} s",
                )
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(delay_s):
                        await self._stopping.wait()
                        return 0
        finally:
            self._left.discard(worker)
            if self._left == {self._workers[0]}:
                self._workers[0].tell(OTHERS_ENDED)

    async def _run_once(self, worker: WorkerProcess) -> int:
        """Start a worker, and wait for its end."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        leads = worker is self._workers[0]
        try:
            process = await asyncio.create_subprocess_exec(
                *command_of(self._argv, worker.number),
                stdin=theirs.fileno(),
                stdout=None if leads else DEVNULL,
                stderr=None if leads else PIPE,
                process_group=0,  # a terminal's signals come through us
            )
        finally:
            theirs.close()
        worker.channel, worker.began_s = ours, time.monotonic()
        if self._stopping.is_set():
            worker.tell(STOP)
        if self._left == {worker}:
            worker.tell(OTHERS_ENDED)
        tasks = [asyncio.create_task(self._listen(worker, ours))]
        if process.stderr is not None:
            tasks.append(asyncio.create_task(self._pass_on(worker, process.stderr)))
        try:
            code = await process.wait()
            if process.stderr is not None:
                await tasks[-1]
        finally:
            worker.channel = None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            ours.close()
        return code if code >= 0 else 128 - code  # as a shell shows the number of a signal

    async def _listen(self, worker: WorkerProcess, channel: socket.socket) -> None:
        while message := await asyncio.get_running_loop().sock_recv(channel, 1):
            if message == READY and worker is self._workers[0]:
                self._first_ready.set()

    async def _pass_on(self, worker: WorkerProcess, lines: asyncio.StreamReader) -> None:
        rest = b""
        while piece := await lines.read(PIECE_BYTES):
            *whole, rest = (rest + piece).split(b"\n")
            if len(rest) >= PIECE_BYTES:
                whole, rest = [*whole, rest], b""
            for line in whole:
                self._say(worker.number, line.decode("utf-8", "replace"))
        if rest:
            self._say(worker.number, rest.decode("utf-8", "replace"))


def command_of(argv: Sequence[str], number: int) -> list[str]:
    """The command of a worker. argv: of this process: its name, `crawl` or `run`, and arguments."""
    _, command, *arguments = argv
    # Where this process was started as a script, modules of the working directory must not shadow
    # those that are installed.
    safe = () if "-m" in sys.orig_argv else ("-P",)
    return [
        sys.executable, *safe, "-m", "crawler.cli", command, "--worker", str(number), *arguments,
    ]  # fmt: skip
