"""Report every error as a sentence on standard error and an exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator

import click

from crawler.cli import standard_streams

FAILED = 1  # at run time
MISUSED = 2  # bad usage or config
FOUND = 3  # what --fail, --fail-on or --expect was to find; the command itself succeeded
INTERRUPTED = 130

_LOCATED = re.compile(r"[^'\"]+:\d+: ")  # FILE:LINE: …, which editors recognise


@contextlib.contextmanager
def reported_errors() -> Iterator[None]:
    """Report any exception of the block and exit. COURTLY_DEBUG=1 raises it instead."""
    try:
        try:
            yield
        except (SystemExit, click.exceptions.Exit):
            # Whatever the exit code would be, output that cannot be written is a failure.
            standard_streams.flush_stdout()
            raise
        standard_streams.flush_stdout()
    except (click.exceptions.Exit, click.Abort, click.exceptions.NoArgsIsHelpError):
        raise
    except click.ClickException as error:
        print_problems(*_usage(error))
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        standard_streams.discard_output()
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        standard_streams.discard_stdout_if_broken()
        raise SystemExit(0) from None
    except Exception as error:
        if os.environ.get("COURTLY_DEBUG") == "1":
            raise
        code, lines = _explain(error)
        if isinstance(error, OSError):
            standard_streams.discard_stdout_if_broken()
        print_problems(*lines)
        raise SystemExit(code) from None
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        standard_streams.discard_output()
        raise SystemExit(INTERRUPTED) from None


def print_problems(*problems: str) -> None:
    """Print problems on standard error as `FILE:LINE: …` or `courtly: …`. Never blocks: a service
    manager may be waiting for the exit in order to restart the process."""
    from crawler.cli.text import say
    from crawler.output import nonblocking_output

    with nonblocking_output("stderr"), contextlib.suppress(OSError):  # nobody reads it
        for problem in problems:
            located = problem.startswith("  ") or _LOCATED.match(problem)
            say(problem if located else f"courtly: {problem}", err=True)


def _usage(error: click.ClickException) -> Iterator[str]:
    message = error.format_message()
    yield message[:1].lower() + message[1:] if message[1:2].islower() else message
    # Errors of click itself, other than our own UsageErrors, are followed by a hint.
    if isinstance(error, click.UsageError) and type(error) is not click.UsageError and error.ctx:
        yield f"  See `{error.ctx.command_path} --help`."


def _explain(error: Exception) -> tuple[int, tuple[str, ...]]:
    from crawler.config import ConfigError
    from storage.store import StoreError, StoreRefused

    leaves = list(_leaves(error))
    for leaf in leaves:
        if isinstance(leaf, ConfigError):
            return MISUSED, leaf.problems
    for leaf in leaves:
        if isinstance(leaf, StoreError):
            return (MISUSED if isinstance(leaf, StoreRefused) else FAILED), (str(leaf),)
    leaf = leaves[0]
    if isinstance(leaf, OSError):
        return FAILED, (_system_error(leaf),)
    if isinstance(leaf, MemoryError):
        return FAILED, ("out of memory",)
    words = f"{type(leaf).__name__}: {leaf}" if str(leaf) else type(leaf).__name__
    return FAILED, (f"internal error ({words}); set COURTLY_DEBUG=1 to see the traceback",)


def _system_error(error: OSError) -> str:
    where = f": {error.filename}" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left on device{where}"
    return f"{error.strerror}{where}" if error.strerror else str(error)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors inside a group, as raised by a TaskGroup, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
