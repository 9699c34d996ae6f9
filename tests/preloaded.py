"""Commands of courtly start from a process that has imported it: imports are most of what a short
command costs. The command is forked from that process and becomes a child of the test's process, so
`subprocess` and `asyncio` treat it like any other.

Only plain starts of `python -m` with a module of `MODULES` are forked. Those with a
terminal, with limits set before the start, with another locale, or in a test with the fixture
`fresh_interpreter` run in an interpreter of their own, as on systems other than Linux.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import inspect
import json
import os
import pkgutil
import runpy
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

MODULES: Final = ("crawler", "crawler.cli", "tests.site.poisoned")
# What `Popen` may be given beside the command, its folder, environment and streams.
DEFAULTS: Final[dict[str, object]] = {
    "preexec_fn": None, "pass_fds": (), "shell": False, "executable": None,
    "gid": None, "gids": None, "uid": None, "umask": -1, "process_group": -1,
}  # fmt: skip
PR_SET_CHILD_SUBREAPER: Final = 36
REQUEST_BYTES_MAX: Final = 200_000
READY: Final = b"ready"
FILES_MAX: Final = 64  # descriptors that the process of the imports may have opened


class Preloaded:
    """The process that has imported courtly. It starts with the first command."""

    def __init__(self) -> None:
        # Coverage is not measured in forked commands.
        self.enabled = sys.platform == "linux" and "COVERAGE_PROCESS_CONFIG" not in os.environ
        self._lock = threading.Lock()
        self.env = dict(os.environ)  # without what a test has changed
        self._ready = False
        self._owner = 0  # the process that started it: xdist's workers have one each
        self._socket: socket.socket | None = None

    def start(self, request: list[object], files: list[int]) -> int | None:
        """Fork a command with these three standard streams. Return its process ID, or None as long
        as the imports are under way.

        request: its words, folder and environment, and whether it leads a session.
        """
        message = json.dumps(request).encode()
        with self._lock:
            connection = self._connected()
            if not self._is_ready(connection):
                return None
            # The fork leaves the child an orphan, which becomes ours meanwhile.
            _adopt_orphans(True)
            try:
                socket.send_fds(connection, [message], files)
                return int(connection.recv(32))
            finally:
                _adopt_orphans(False)

    def _connected(self) -> socket.socket:
        if self._socket is None or self._owner != os.getpid():
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._owner, self._socket, self._ready = os.getpid(), ours, False
            with theirs:
                self._process = _Popen(
                    [sys.executable, "-m", "tests.preloaded", str(theirs.fileno())],
                    cwd=Path(__file__).parents[1],
                    env=self.env,
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                )
            atexit.register(self._close)
        return self._socket

    def _is_ready(self, connection: socket.socket) -> bool:
        if not self._ready:
            with contextlib.suppress(BlockingIOError):
                self._ready = connection.recv(32, socket.MSG_DONTWAIT) == READY
        return self._ready

    def _close(self) -> None:
        if self._socket and self._owner == os.getpid():
            self._socket.close()
            self._process.wait()


preloaded: Final = Preloaded()
_Popen: Final[Any] = subprocess.Popen
_SIGNATURE: Final = inspect.signature(_Popen._execute_child)


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen`, which forks what it can from the process of the imports."""

    def _execute_child(self, *args: Any, **more: Any) -> None:
        given = _SIGNATURE.bind(self, *args, **more).arguments if preloaded.enabled else {}
        files = [
            number if given.get(name, -1) == -1 else given[name]
            for number, name in enumerate(("p2cread", "c2pwrite", "errwrite"))
        ]
        pid = self._forked(given, files) if given and _is_plain(given, files) else None
        if pid is None:
            super()._execute_child(*args, **more)  # type: ignore[misc]
            return
        self.pid = pid
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(given[name] for name in pipes))  # type: ignore[attr-defined]

    @staticmethod
    def _forked(given: dict[str, Any], files: list[int]) -> int | None:
        env = os.environ if given["env"] is None else given["env"]
        cwd = os.fspath(given["cwd"] or Path.cwd())
        command = [os.fspath(one) for one in given["args"][2:]]
        return preloaded.start([command, cwd, dict(env), given["start_new_session"]], files)


def _is_plain(given: dict[str, Any], files: list[int]) -> bool:
    args = given["args"]
    if not isinstance(args, list | tuple) or len(args) < 3:
        return False
    if args[0] != sys.executable or args[1] != "-m" or args[2] not in MODULES:
        return False
    if any(given.get(name, usual) not in (usual, [], ()) for name, usual in DEFAULTS.items()):
        return False
    env = os.environ if given["env"] is None else given["env"]
    # The streams of a forked command have buffers.
    names = {*env, *preloaded.env} - ({"PYTHONUNBUFFERED"} - {*env})
    changed = {name for name in names if env.get(name) != preloaded.env.get(name)}
    if any(name.startswith(("LC_", "LANG", "PYTHON", "MALLOC_")) for name in changed):
        return False
    return not any(os.isatty(file) for file in files)


def _adopt_orphans(adopt: bool) -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0)


def install() -> None:
    """Let `subprocess` and `asyncio` fork commands of courtly."""
    preloaded.env = dict(os.environ)
    subprocess.Popen = Popen  # type: ignore[misc]


# ---------------------------------------------------------------- in the process of the imports


def import_everything() -> None:
    for package in ("policies", "storage", "crawler"):
        for module in pkgutil.walk_packages(
            importlib.import_module(package).__path__, f"{package}."
        ):
            if not module.name.endswith("__main__"):
                with contextlib.suppress(ImportError):
                    importlib.import_module(module.name)


def reopen_streams() -> None:
    """Open the standard streams as an interpreter that starts with these files does."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        old = getattr(sys, name)
        stream = open(number, mode, encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115
        if name == "stderr":
            stream.reconfigure(line_buffering=True)  # type: ignore[attr-defined]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def end(code: int) -> None:
    """Exit as the interpreter does, but leave the imported modules to the system. Return if the
    streams cannot be flushed, which the interpreter reports."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(code)


def next_command(connection: socket.socket) -> list[str]:
    """Fork a process for each command. Return in each of these, with the command's words."""
    while True:
        request, fds, _, _ = socket.recv_fds(connection, REQUEST_BYTES_MAX, 3)
        if not request:
            os._exit(0)
        reading, writing = os.pipe()
        if middle := os.fork():
            os.close(writing)
            pid = os.read(reading, 32)
            os.waitpid(middle, 0)  # from here on the command is the child of the tests' process
            connection.send(pid)
            for file in (reading, *fds):
                os.close(file)
            continue
        if pid_ := os.fork():
            os.write(writing, str(pid_).encode())
            os._exit(0)
        command, cwd, env, leads = json.loads(request)
        if leads:
            os.setsid()
        for number, file in enumerate(fds):
            os.dup2(file, number)
        os.closerange(3, FILES_MAX)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        reopen_streams()
        return list(command)


if __name__ == "__main__":
    import_everything()
    gc.freeze()
    tests = socket.socket(fileno=int(sys.argv[1]))
    tests.send(READY)
    module, *sys.argv[1:] = next_command(tests)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        end(0)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            end(error.code or 0)
        raise
