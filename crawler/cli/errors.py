"""Every error as a sentence on stderr and an exit code; tracebacks only for those who ask."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import click

FAILED = 1  # at run time
MISUSED = 2  # bad usage or config
INTERRUPTED = 130

_PLACED = re.compile(r"[^'\"]+:\d+: ")  # FILE:LINE: is what editors find


@contextmanager
def sentences() -> Iterator[None]:
    """Turns what goes wrong inside into exit code and sentence. COURTLY_DEBUG=1 lets it through."""
    try:
        with _written():
            yield
    except (click.exceptions.Exit, click.Abort, click.exceptions.NoArgsIsHelpError):
        raise
    except click.ClickException as error:
        tell(*_usage(error))
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        _drop_output()
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        _forget_stdout()
        raise SystemExit(0) from None
    except Exception as error:
        if os.environ.get("COURTLY_DEBUG") == "1":
            raise
        code, lines = _explain(error)
        if isinstance(error, OSError):
            _forget_stdout()
        tell(*lines)
        raise SystemExit(code) from None
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        _drop_output()
        raise SystemExit(INTERRUPTED) from None


@contextmanager
def _written() -> Iterator[None]:
    """Whatever the exit code is to be, an output that could not be written is a failure."""
    from crawler.cli.whole_output import finish_stdout

    try:
        yield
    except (SystemExit, click.exceptions.Exit):
        finish_stdout()
        raise
    finish_stdout()


def tell(*problems: str) -> None:
    """Say on stderr what is wrong, all in one style: `FILE:LINE: …`, or `courtly: …`. Where nobody
    reads that, the process exits all the same: a service manager may be waiting to restart it."""
    from crawler.cli.text import say
    from crawler.output import nonblocking_output

    with nonblocking_output("stderr"), contextlib.suppress(OSError):  # nobody reads that either
        for problem in problems:
            placed = problem.startswith("  ") or _PLACED.match(problem)
            say(problem if placed else f"courtly: {problem}", err=True)


def stdout_needed() -> None:
    """Raise ClickException if standard output is closed: what only prints has nothing to do."""
    if sys.stdout is None:
        raise click.ClickException("standard output is closed: there is nowhere to write to")


def hold_standard_files() -> None:
    """Let standard files that are closed lead nowhere: what is opened later must not take their
    places, where a stray message would be written into it, and libuv would not close it."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)


def _usage(error: click.ClickException) -> Iterator[str]:
    """Bad usage in a sentence; what click found wrong, with the way to the help."""
    message = error.format_message()
    yield message[:1].lower() + message[1:] if message[1:2].islower() else message
    if isinstance(error, click.UsageError) and type(error) is not click.UsageError and error.ctx:
        yield f"  `{error.ctx.command_path} --help` says more"


def _explain(error: Exception) -> tuple[int, tuple[str, ...]]:
    from crawler.config import ConfigError
    from storage.base import StoreError, StoreRefused

    leaves = list(_leaves(error))
    for leaf in leaves:
        if isinstance(leaf, ConfigError):
            return MISUSED, leaf.problems
    for leaf in leaves:
        if isinstance(leaf, StoreError):
            return (MISUSED if isinstance(leaf, StoreRefused) else FAILED), (str(leaf),)
    leaf = leaves[0]
    if isinstance(leaf, OSError):
        return FAILED, (_of_system(leaf),)
    if isinstance(leaf, MemoryError):
        return FAILED, ("this machine is out of memory",)
    words = f"{type(leaf).__name__}: {leaf}" if str(leaf) else type(leaf).__name__
    sentence = f"stopped by an error of its own ({words})"
    return FAILED, (f"{sentence}; COURTLY_DEBUG=1 shows where it happened",)


def _of_system(error: OSError) -> str:
    where = f": {error.filename}" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left on device{where}"
    return f"{error.strerror}{where}" if error.strerror else str(error)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors inside a group (a TaskGroup raises groups), or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _forget_stdout() -> None:
    """Nobody can be written to: what is still buffered must not fail again at exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
        return
    except (OSError, ValueError):
        pass
    _drop_output(sys.stdout)


def _drop_output(*streams: TextIO | None) -> None:
    """Lead these streams, both standard ones unless given, nowhere: what they have buffered would
    be written at exit, which would wait for as long as nobody reads it."""
    for stream in streams or (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):  # not a real file
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
